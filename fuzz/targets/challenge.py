"""What of other servers' headers is rewritten: challenges, and trace context between headers and `_meta`."""

import re

from fuzz.reference import NotJson, TooDeep, plain
from fuzz.source import Source, text_of
from shim.hub.rawjson import RawJsonError, members
from shim.wire.challenge import named_elsewhere
from shim.wire.tracing import KEYS, traced

_OURS = "https://shim.example/.well-known/oauth-protected-resource/mcp"
_PARENT = b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"
SEEDS = (
    b'\x3fBearer realm="x", resource_metadata="https://a.example/m", scope="s"\0{}',
    b"\x24Bearer Resource_Metadata = https://a/m , \x37" + _PARENT + b'{"_meta":{"tracestate":"a=b"}}',
    b'\x2bBasic realm="resource_metadata=\\"x\\"", Digest\0' + b'{"_meta":{"traceparent":"' + _PARENT + b'"}}',
    b'\x12resource_metadata="\0' + b'{"_meta":{"baggage":"a=1","x":2}}',
)  # fmt: skip
WORDS = (
    b"resource_metadata=", b'resource_metadata="', b'"', b'\\"', b"\\", b" ", b",", b"=", b"Bearer ", b"realm=", b"\t",
    b'"_meta":', b'"traceparent":', b'"tracestate":"a=b"', b'"baggage":"k=v"', b"{", b"}", _PARENT, b"\xff", b"-", b"x_",
)  # fmt: skip
_PARAMETER = re.compile(r'([\w-]+)[ \t]*=[ \t]*("(?:[^"\\]|\\.)*"|[^\s,"]+)')


def check(data: bytes) -> None:
    """Rewrite a challenge; bring trace context across."""
    source = Source(data)
    challenge, parent, params = text_of(source.short()), text_of(source.short()), source.rest()
    written = named_elsewhere(challenge, _OURS)
    assert named_elsewhere(written, _OURS) == written, "a second time it is another"
    for name, value in _parameters(written):
        assert name.lower() != "resource_metadata" or value == f'"{_OURS}"', "another server is named"
    if "resource_metadata" not in challenge.lower():
        assert written == challenge, "a challenge that names nothing is changed"
    _traced(params, parent)


def _parameters(challenge: str) -> list[tuple[str, str]]:
    """Give the parameters that stand outside of quoted strings, character by character."""
    found, at, name = [], 0, ""
    while at < len(challenge):
        if challenge[at] == '"':
            at = _after_string(challenge, at)
            name = ""
            continue
        match = _PARAMETER.match(challenge, at)
        if match and not name:
            found.append((match[1], match[2]))
            at, name = match.end(), ""
            continue
        name = challenge[at] if re.match(r"[\w-]", challenge[at]) else ""
        at += 1
    return found


def _after_string(text: str, at: int) -> int:
    at += 1
    while at < len(text) and text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1


def _traced(data: bytes, parent: str) -> None:
    try:
        value, params = plain(data), members(data)
    except (NotJson, TooDeep, RawJsonError):
        return
    headers = [("traceparent", parent), ("X", "y")] if parent else []
    try:
        more_params, more_headers = traced(params, headers)
    except RawJsonError as exc:
        assert exc.fault == "too_deep"
        return
    assert list(more_headers)[: len(headers)] == headers, "a header is changed"
    for key, text in list(more_headers)[len(headers) :]:
        assert key in KEYS
        assert all(0x20 <= ord(char) < 0x7F for char in text), "what no header may hold goes out"
        assert value["_meta"][key] == text
    said = plain(more_params["_meta"]) if "_meta" in more_params else {}
    if isinstance(value.get("_meta"), dict):
        assert {key: said[key] for key in value["_meta"]} == value["_meta"], "`_meta` is changed"
        assert set(said) - set(value["_meta"]) <= set(KEYS)
    assert {**more_params, "_meta": b""} == {**params, "_meta": b""}
    assert traced(more_params, more_headers) == (more_params, more_headers)
