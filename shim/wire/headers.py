"""The headers that mirror a modern request's body: decoded first, then compared (VALIDATE)."""

import base64
from collections.abc import Sequence
from typing import Literal

from multidict import CIMultiDictProxy

from shim.hub import rawjson
from shim.hub.codec import Lenient
from shim.hub.facts import CALL
from shim.hub.rawjson import Members
from shim.wire.errors import header_mismatch
from shim.wire.http import MCP_METHOD, MCP_NAME, PROTOCOL_VERSION
from shim.wire.jsonrpc import Request

_PREFIX, _SUFFIX = "=?base64?", "?="
_NAMED_BY = {CALL: "name", "prompts/get": "name", "resources/read": "uri"}
_PRINTABLE = range(0x20, 0x7F)


def check_modern_headers(
    headers: CIMultiDictProxy[str],
    request: Request,
    version: str,
    *,
    missing_name: Literal["allow", "reject"],
) -> tuple[Lenient, ...]:
    """Hold the mirrored headers against the body; gives what was let pass. Raises header_mismatch.

    `missing_name` is `[modern] missing_mcp_name`: one client in the field leaves `Mcp-Name` out on tasks/*.
    """
    _require(headers, PROTOCOL_VERSION, version)
    _require(headers, MCP_METHOD, request.method)
    member = _mirrored_member(request.method)
    if member is None:
        return ()
    named = rawjson.string(request.params.get(member))
    given = single(headers, MCP_NAME)
    if given is None and named is None and member == "taskId":
        return ()  # there is nothing to mirror; the method says what is missing
    if given is None and member == "taskId" and missing_name == "allow":
        return (Lenient("VALIDATE", "Mcp-Name missing"),)
    if given is None:
        raise header_mismatch(f"Mcp-Name is missing; it must be params.{member}")
    if decode_value(given) != named:
        raise header_mismatch(f"Mcp-Name does not match params.{member}")
    return ()


def mirrored(method: str, params: Members) -> str | None:
    """Give what `Mcp-Name` of a request is: the tool, prompt, resource or task that its params name."""
    member = _mirrored_member(method)
    return None if member is None else rawjson.string(params.get(member))


def decode_value(value: str) -> str:
    """Decode a header value that may be in the base64 form. Raises header_mismatch."""
    if not (value.startswith(_PREFIX) and value.endswith(_SUFFIX)):
        return value
    try:
        return base64.b64decode(value[len(_PREFIX) : -len(_SUFFIX)], validate=True).decode()
    except ValueError:  # no base64, not even ASCII, or no UTF-8 in it
        raise header_mismatch("a value is not valid in its base64 form") from None


def encode_value(value: str) -> str:
    """Encode a value for a header, in the base64 form where it is not safe as it stands."""
    plain = all(ord(char) in _PRINTABLE for char in value) and value == value.strip()
    if plain and not (value.startswith(_PREFIX) and value.endswith(_SUFFIX)):
        return value
    return _PREFIX + base64.b64encode(value.encode("utf-8", "surrogatepass")).decode() + _SUFFIX


def _mirrored_member(method: str) -> str | None:
    return "taskId" if method.startswith("tasks/") else _NAMED_BY.get(method)


def _require(headers: CIMultiDictProxy[str], name: str, expected: str) -> None:
    given = single(headers, name)
    if given is None:
        raise header_mismatch(f"{name} is missing; it must be {expected!r}")
    if given != expected:
        raise header_mismatch(f"{name} does not match the body's {expected!r}")


def single(headers: CIMultiDictProxy[str], name: str) -> str | None:
    """Give a header's one value, without the white space around it; doubled and different is refused."""
    values = {value.strip() for value in headers.getall(name, ())}
    if len(values) > 1:
        raise header_mismatch(f"{name} stands twice with different values")
    return values.pop() if values else None


def connection_names(headers: CIMultiDictProxy[str]) -> frozenset[str]:
    """Give the headers that a message calls hop-by-hop, in lower case: they are not the client's own word."""
    listed = ",".join(headers.getall("Connection", ()))
    return frozenset(name.strip().lower() for name in listed.split(","))


def passed_on(headers: CIMultiDictProxy[str], names: Sequence[str]) -> list[tuple[str, str]]:
    """Give the headers of these names that are passed on: not those that end here."""
    ended = connection_names(headers) if "Connection" in headers else ()
    return [
        (name, value) for name in names if name.lower() not in ended for value in headers.getall(name, ())
    ]
