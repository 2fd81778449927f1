"""Headers that mirror the body: what goes out safely comes back, and nothing that differs passes."""

from multidict import CIMultiDict, CIMultiDictProxy

from fuzz.source import Source, text_of
from shim.hub import rawjson
from shim.wire.errors import HEADER_MISMATCH, ClientFault
from shim.wire.headers import check_modern_headers, connection_names, decode_value, encode_value, passed_on
from shim.wire.jsonrpc import Request

SEEDS = (
    b"\0\0\x03run\x03run\x0aauthorized", b"\0\x01\x03run\x04 run\x01x", b"\1\2\x04t-\xc3\xa9\x04t-\xc3\xa9\0",
    b"\0\3\x02ab\x15=?base64?cnVu?=\0", b"\2\0\x01a\x01b\x0dAuthorization,", b"\3\4\x01a\0\x01x",
)  # fmt: skip
WORDS = (
    b"=?base64?", b"?=", b"=?base64??=", b"cnVu", b"\x03run", b" ", b"\t", b"\r\n", b"\0", b",", b"Connection",
    b"authorization", b"\xc3\xa9", b"\xff", b"\xed\xa0\x80", b"\xc2\x85", b"\xe2\x80\xa8", b"=", b"\x7f", b"\xc2\xa0",
)  # fmt: skip
_METHODS = ("tools/call", "tasks/get", "prompts/get", "resources/read", "ping")
_NAMED_BY = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri", "tasks/get": "taskId"}
_VERSION = "2026-07-28"


def check(data: bytes) -> None:
    """Encode and decode a value, mirror a name, and tell which headers end here."""
    source = Source(data)
    method, way = source.pick(_METHODS), source.byte()
    name, other = source.short().decode("utf-8", "replace"), text_of(source.short())
    listed = text_of(source.rest())
    _there_and_back(name)
    _decoded(other)
    _mirrored(method, name, other, way)
    headers = CIMultiDictProxy(CIMultiDict([("Connection", listed), ("Authorization", "x"), ("X-A", "y")]))
    ended = {one.strip().lower() for one in listed.split(",")}
    assert connection_names(headers) == ended
    kept = [key for key, _ in passed_on(headers, ("Authorization", "X-A", "X-B"))]
    assert kept == [key for key in ("Authorization", "X-A") if key.lower() not in ended]


def _there_and_back(name: str) -> None:
    encoded = encode_value(name)
    assert all(0x20 <= ord(char) < 0x7F for char in encoded), "what no header may hold goes out"
    assert encoded == encoded.strip()
    assert decode_value(encoded) == name


def _decoded(value: str) -> str | None:
    try:
        return decode_value(value)
    except ClientFault as fault:
        assert fault.code == HEADER_MISMATCH
        return None


def _mirrored(method: str, name: str, other: str, way: int) -> None:
    """Hold the check against what it has to come to, by how the headers were made."""
    member = _NAMED_BY.get(method)
    params = {} if member is None else {member: rawjson.encode(name)}
    given = [("Mcp-Method", method), ("MCP-Protocol-Version", _VERSION)]
    allow = way & 16 > 0
    if way & 7 == 0:
        given.append(("Mcp-Name", encode_value(name)))
        passes = True
    elif way & 7 == 1:
        given.append(("Mcp-Name", other))
        passes = _decoded(other.strip()) == name
    elif way & 7 == 2:
        given += [("Mcp-Name", encode_value(name)), ("mcp-name", other)]
        passes = other.strip() == encode_value(name)
    elif way & 7 == 3:
        given[0] = ("Mcp-Method", other)
        given.append(("Mcp-Name", encode_value(name)))
        passes = other.strip() == method
    else:
        passes = method == "tasks/get" and allow
    passes = passes or (member is None and way & 7 != 3)
    try:
        check_modern_headers(
            CIMultiDictProxy(CIMultiDict(given)),
            Request(b"1", method, params),
            _VERSION,
            missing_name="allow" if allow else "reject",
        )
    except ClientFault as fault:
        assert fault.code == HEADER_MISMATCH
        assert not passes, "headers that mirror the body are refused"
    else:
        assert passes, "headers that do not mirror the body pass"
