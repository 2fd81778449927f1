"""The requestState of a parked call: only for the caller, server, method and payload that it was given for."""

from functools import partial
from types import SimpleNamespace
from typing import Any, cast

from fuzz.reference import NotJson, TooDeep, plain
from fuzz.source import Source
from shim.callers.keys import Keys
from shim.hub import rawjson
from shim.hub.rawjson import Members, RawJsonError
from shim.tasks import parked
from shim.wire.errors import ClientFault, OwnFault
from shim.wire.jsonrpc import Request

_NOW_MS = 1_800_000_000_000
_KEYS = Keys([b"n" * 32])
SEEDS = (
    b'\0\0\0\0\0\x18{"name":"a","arguments":{}}', b'\0\0\0\0\1\x1b{"name":"a","arguments":[1]}{"name":"a","arguments":[2]}',
    b"\1\0\0\0\0\x02{}{}", b"\0\1\0\0\0\x02{}{}", b"\0\0\1\0\0\x02{}{}", b"\0\0\0\1\0\x02{}{}", b"\0\0\0\0\2\x02{}\x03\x07",
    b"\0\0\0\0\3\x02{}abc", b'\0\0\0\0\1\x0a{"b":1,"a":2}{"a":2,"b":1,"_meta":{"x":1}}', b"\0\0\0\0\4\x02{}\0", b"\0\0\0\0\5\x02{}", b"\0\0\0\0\3\x02{}",
    b'\0\0\0\0\1\x1b{"arguments":{"a":1,"b":2}}{"arguments":{"b":2, "a":1}}', b"\0\0\0\0\2\x02{}\x0aC",
)  # fmt: skip
WORDS = (
    b'"name":"a"', b'"arguments":{}', b'"arguments":[1]', b'"_meta":{"a":1}', b'"inputResponses":{}', b"{", b"}", b",",
    b"1.0", b"1e0", b"true", b'"\\ud800"', b"1", b'"1"', b" ", b'"arguments":{"a":1,"a":2}', b"9" * 25,
)  # fmt: skip
_NOT_SALIENT = ("_meta", "inputResponses", "requestState")


def check(data: bytes) -> None:
    """Give a state for one request and come back with it, or a changed one, on another."""
    source = Source(data)
    same = [source.byte() % 4 != 1 for _ in range(4)]
    way, first = source.byte() % 6, source.short()
    second = first if way in {0, 2, 3, 4, 5} else source.rest()
    try:
        said, repeated = plain(first), plain(second)
        given, asked = rawjson.strict_members(first), rawjson.strict_members(second)
    except (NotJson, TooDeep, RawJsonError):
        return
    calls, call = _calls("instance"), SimpleNamespace(round=3)
    calls._calls["call"] = cast("Any", call)
    until_ms = _NOW_MS + (0 if way == 4 else 1)
    bound_to = partial(_bound_to, "alice", "main", "sep-2663", "tools/call", given)
    text = _KEYS.sign("requestState", bound_to(), f"instance call 3 {until_ms}")
    if way == 5:
        text = _KEYS.sign("cursor", bound_to(), f"instance call 3 {until_ms}")
    shown = text
    if way == 2:
        text = _altered(text, source.rest())
    elif way == 3:
        text = source.rest().decode("utf-8", "replace")
    names = [
        one if kept else "other"
        for one, kept in zip(("alice", "main", "sep-2663", "tools/call"), same, strict=True)
    ]
    found = _named(calls, names, {**asked, "requestState": rawjson.encode(text)})
    good = all(same) and text == shown and way not in {4, 5} and _salient(said) == _salient(repeated)
    assert found == ((3, call) if good else None), "a state counts that does not, or does not that counts"
    if good:
        elsewhere = _calls("another")
        try:
            elsewhere._named(
                *_asking(names), Request(b"1", names[3], {**asked, "requestState": rawjson.encode(text)})
            )
        except OwnFault as fault:
            assert "restarted" in fault.message
        else:
            raise AssertionError("a call is found where there is none")


def _calls(instance: str) -> parked.ParkedCalls:
    clock = SimpleNamespace(now_ms=lambda: _NOW_MS)
    return parked.ParkedCalls(cast("Any", SimpleNamespace(clock=clock)), _KEYS, instance)


def _asking(names: list[str]) -> tuple[Any, Any]:
    return (
        SimpleNamespace(caller=SimpleNamespace(key=names[0])),
        SimpleNamespace(name=names[1], dialect=SimpleNamespace(name=names[2])),
    )


def _bound_to(caller: str, server: str, dialect: str, method: str, params: Members) -> str:
    return parked._bound_to(*_asking([caller, server, dialect]), Request(b"1", method, params))


def _named(calls: parked.ParkedCalls, names: list[str], params: Members) -> tuple[int, Any] | None:
    try:
        return calls._named(*_asking(names), Request(b"2", names[3], params))
    except ClientFault:
        return None


def _salient(params: dict[str, Any]) -> dict[str, Any]:
    return {key: _typed(value) for key, value in params.items() if key not in _NOT_SALIENT}


def _typed(value: Any) -> Any:
    """Tell 1 from 1.0 and from true, which Python does not."""
    if isinstance(value, dict):
        return {key: _typed(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_typed(one) for one in value]
    return (type(value).__name__, repr(value))


def _altered(text: str, how: bytes) -> str:
    characters = list(text)
    for place, change in zip(how[::2], how[1::2], strict=False):
        at = place % (len(characters) + 1)
        characters[at : at + change % 3] = [chr(change)] * (change % 5 > 0)
    return "".join(characters)
