"""Mirrored parameters: what the shim writes it accepts, and a header that says another value is refused."""

import base64
from typing import Any

from multidict import CIMultiDict, CIMultiDictProxy

from fuzz.reference import NotJson, TooDeep, plain
from fuzz.source import Source, text_of
from shim.hub import rawjson
from shim.hub.rawjson import RawJsonError
from shim.wire.errors import HEADER_MISMATCH, ClientFault
from shim.wire.param_headers import (
    InvalidAnnotation,
    check_param_headers,
    mirrored_params,
    param_headers,
    why_invalid,
)

_TWO = (
    b'{"type":"object","properties":{"a":{"type":"string","x-mcp-header":"A"},'
    b'"b":{"properties":{"c":{"type":"integer","x-mcp-header":"C"}}}}}'
)
_ONE = b'{"properties":{"a":{"type":"%b","x-mcp-header":"A"}}}'


def _seed(other: bytes, schema: bytes, arguments: bytes) -> bytes:
    return bytes([len(other)]) + other + bytes([len(schema)]) + schema + arguments


SEEDS = (
    _seed(b"x", _TWO, b'{"a":"x","b":{"c":5}}'), _seed(b"5.0", _TWO, b'{"a":"\\u00e9 ","b":{"c":5}}'),
    _seed(b"5.1", _ONE % b"integer", b'{"a":5}'), _seed(b"true", _ONE % b"boolean", b'{"a":true}'),
    _seed(b"1", _ONE % b"boolean", b'{"a":9007199254740993}'), _seed(b"=?base64?eA==?=", _ONE % b"string", b'{"a":"x"}'),
    _seed(b"", (_ONE % b"number").replace(b"e", b"\\u0065"), b"{}"), _seed(b"", b'{"items":%b}' % _ONE % b"string", b"[]"),
    _seed(b"", b"{}", b"[]"), _seed(b"caf\xc3\xa9", _ONE % b"string", '{"a":"café"}'.encode()),
)  # fmt: skip
WORDS = (
    b'"x-mcp-header":"A"', b'"type":"string"', b'"type":"integer"', b'"type":"boolean"', b'"properties":{', b'"items":',
    b'"allOf":[', b'"$defs":{', b'"a":', b"true", b"1.0", b"1e3", b"9007199254740993", b"-0", b"null", b"{", b"}", b"]",
    b'"x-mcp-he\\u0061der"', b"=?base64?", b"?=", b"\xc3\xa9",
)  # fmt: skip


def check(data: bytes) -> None:
    """Take annotations out of a schema, write the headers of arguments, and hold others against them."""
    source = Source(data)
    other, schema, arguments = text_of(source.short()), source.short(), source.rest()
    try:
        known = plain(schema)
        values = plain(arguments)
        mirrored = mirrored_params(known)
    except (NotJson, TooDeep):
        return
    except InvalidAnnotation:
        assert why_invalid({"inputSchema": schema}) is not None
        return
    assert why_invalid({"inputSchema": schema}) is None
    assert len({header.lower() for header in mirrored}) == len(mirrored)
    try:
        written = param_headers(mirrored, arguments)
    except RawJsonError as exc:
        assert exc.fault == "too_deep"
        return
    for header, value in written:
        assert all(0x20 <= ord(char) < 0x7F for char in value), "what no header may hold goes out"
        assert header in mirrored
    assert _passes(written, mirrored, arguments), "what the shim writes it refuses"
    for header, path in mirrored.items():
        meant = _at(values, path)
        rest = [(name, value) for name, value in written if name != header]
        if len(rest) < len(written):
            assert not _passes(rest, mirrored, arguments), "a header that is missing passes"
        if _passes([*rest, (header, other)], mirrored, arguments):
            assert _means(other.strip(), meant), "a header that says another value passes"
        if isinstance(meant, str) and "\ud800" not in meant:
            assert not _passes([*rest, (header, rawjson.encode(meant + "x").decode())], mirrored, arguments)


def _passes(headers: list[tuple[str, str]], mirrored: dict[str, tuple[str, ...]], arguments: bytes) -> bool:
    try:
        check_param_headers(CIMultiDictProxy(CIMultiDict(headers)), mirrored, arguments)
    except ClientFault as fault:
        assert fault.code == HEADER_MISMATCH
        return False
    return True


def _at(values: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        values = values.get(name) if isinstance(values, dict) else None
    return values


def _means(given: str, meant: Any) -> bool:
    """Tell whether a header says a value."""
    if given.startswith("=?base64?") and given.endswith("?="):
        given = base64.b64decode(given[9:-2]).decode()
    if isinstance(meant, bool):
        return given == str(meant).lower()
    if isinstance(meant, int):
        return float(given) == meant or int(given) == meant
    return bool(given == meant)
