"""Parameters of a tool that its server wants mirrored into `Mcp-Param-*` headers (LM-META, VALIDATE)."""

import re
from collections.abc import Iterator, Mapping, Sequence

from multidict import CIMultiDictProxy

from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.wire.errors import header_mismatch
from shim.wire.headers import decode_value, encode_value, single

Mirrored = Mapping[str, Sequence[str]]
"""Header name -> path of the property in the arguments."""

PREFIX = "Mcp-Param-"

_ANNOTATION = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_NUMBER = re.compile(r"-?[0-9]{1,40}(\.[0-9]{1,40})?")
_SURROGATE = re.compile("[\ud800-\udfff]")
_VALUE = re.compile(r"[\t\x20-\x7e]*")
_TYPES = ("string", "integer", "boolean")
_SAFE = 2**53 - 1
_ONE = frozenset((
    "items", "contains", "unevaluatedItems", "additionalProperties", "propertyNames", "unevaluatedProperties",
    "not", "if", "then", "else", "contentSchema",
))  # fmt: skip
_LISTS = frozenset(("allOf", "anyOf", "oneOf", "prefixItems"))
_MAPS = frozenset(("patternProperties", "dependentSchemas", "$defs", "definitions"))

_Path = tuple[str, ...] | None
"""The chain of `properties` to a schema; None where something else is in between."""


class InvalidAnnotation(ValueError):
    """An annotation breaks the rules, and with it the whole tool; the message says which and where."""


def mirrored_params(schema: object) -> dict[str, tuple[str, ...]]:
    """Give the annotated properties of an input schema. Raises InvalidAnnotation."""
    found: dict[str, tuple[str, ...]] = {}
    for path, node in _schemas(schema):
        if _ANNOTATION not in node:
            continue
        header = node[_ANNOTATION]
        if not path:
            raise InvalidAnnotation("it is not reached by properties alone")
        where = ".".join(path)
        if not isinstance(header, str) or not _TOKEN.fullmatch(header):
            raise InvalidAnnotation(f"{where}: no name of a header")
        if node.get("type") not in _TYPES:
            raise InvalidAnnotation(f"{where}: only on a string, an integer or a boolean")
        if f"{PREFIX}{header}".lower() in map(str.lower, found):
            raise InvalidAnnotation(f"{where}: a name that another property has")
        found[f"{PREFIX}{header}"] = path
    return found


def param_headers(mirrored: Mirrored, arguments: bytes | None) -> list[tuple[str, str]]:
    """Give the headers for a call's arguments; what is not there, or null, has none."""
    values = rawjson.decode(arguments) if arguments is not None else {}
    texts = ((header, _text(_at(values, path))) for header, path in mirrored.items())
    return [(header, encode_value(text)) for header, text in texts if text is not None]


def check_param_headers(headers: CIMultiDictProxy[str], mirrored: Mirrored, arguments: bytes | None) -> None:
    """Hold the headers against a call's arguments (VALIDATE). Raises header_mismatch."""
    values = rawjson.decode(arguments) if arguments is not None and mirrored else {}
    for header, path in mirrored.items():
        value, given = _at(values, path), single(headers, header)
        where = f"params.arguments.{'.'.join(path)}"
        if given is None:
            if _text(value) is not None:
                raise header_mismatch(f"{header} is missing; it must be {where}")
        elif not _VALUE.fullmatch(given) or not _same(decode_value(given), value):
            raise header_mismatch(f"{header} does not match {where}")


def why_invalid(tool: Members) -> str | None:
    """Tell what is wrong with a listed tool's annotations; a client has to leave such a tool out."""
    schema = tool.get("inputSchema", b"{}")
    if _ANNOTATION.encode() not in schema and b"\\u" not in schema:
        return None  # any letter of the key may be escaped
    try:
        mirrored_params(rawjson.decode(schema))
    except InvalidAnnotation as exc:
        return str(exc)
    return None


def _schemas(root: object) -> Iterator[tuple[_Path, dict[str, object]]]:
    """Give every schema in a schema with its path; data such as defaults and examples is none."""
    pending: list[tuple[_Path, object]] = [((), root)]
    while pending:
        path, node = pending.pop()
        if not isinstance(node, dict):
            continue
        yield path, node
        for key, value in node.items():
            if key == "properties" and isinstance(value, dict):
                below = [(None if path is None else (*path, name), child) for name, child in value.items()]
                pending.extend(reversed(below))
            elif key in _ONE:
                pending.append((None, value))
            elif key in _LISTS and isinstance(value, list):
                pending.extend((None, child) for child in value)
            elif key in _MAPS and isinstance(value, dict):
                pending.extend((None, child) for child in value.values())


def _at(values: object, path: Sequence[str]) -> object:
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _text(value: object) -> str | None:
    """Write a value for a header; None where it has none, as half a surrogate has no UTF-8."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) <= _SAFE:
        return str(value)
    return value if isinstance(value, str) and _SURROGATE.search(value) is None else None


def _same(given: str, value: object) -> bool:
    """Compare a header's value with the body's; numbers by what they are, not by how they are written."""
    if isinstance(value, int) and not isinstance(value, bool):
        whole, _, fraction = given.partition(".")
        return _NUMBER.fullmatch(given) is not None and int(whole) == value and not fraction.strip("0")
    return given == _text(value)
