"""Parameters of a tool that its server wants mirrored into `Mcp-Param-*` headers (LM-META). Pure."""

import re
from collections.abc import Mapping, Sequence

from shim.hub import rawjson
from shim.wire.headers import encode_value

Mirrored = Mapping[str, Sequence[str]]
"""Header name -> path of the property in the arguments."""

_ANNOTATION = "x-mcp-header"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_TYPES = ("string", "integer", "boolean")
_SAFE = 2**53 - 1


def mirrored_params(schema: object) -> dict[str, tuple[str, ...]]:
    """Find the annotated properties of an input schema, reached by `properties` alone."""
    found: dict[str, tuple[str, ...]] = {}
    pending: list[tuple[tuple[str, ...], object]] = [((), schema)]
    while pending:
        path, node = pending.pop()
        properties = node.get("properties") if isinstance(node, dict) else None
        for name, child in properties.items() if isinstance(properties, dict) else ():
            if not isinstance(child, dict):
                continue
            header = child.get(_ANNOTATION)
            if isinstance(header, str) and _TOKEN.fullmatch(header) and child.get("type") in _TYPES:
                found[f"Mcp-Param-{header}"] = (*path, name)
            pending.append(((*path, name), child))
    return found


def param_headers(mirrored: Mirrored, arguments: bytes | None) -> list[tuple[str, str]]:
    """Give the headers for a call's arguments; what is not there, or null, has none."""
    values = rawjson.decode(arguments) if arguments is not None else {}
    headers = []
    for header, path in mirrored.items():
        value: object = values
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if (text := _text(value)) is not None:
            headers.append((header, encode_value(text)))
    return headers


def _text(value: object) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and abs(value) <= _SAFE:
        return str(value)
    return value if isinstance(value, str) else None
