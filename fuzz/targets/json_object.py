"""`rawjson`: the same members as the standard library's, the same faults, and the bytes as they came."""

from typing import Any

from fuzz.reference import NotJson, Pairs, TooDeep, loads, plain
from shim.hub import rawjson
from shim.hub.rawjson import RawJsonError

SEEDS = (
    b"{}", b'{"a":1}', b' {\t"a" :\r\n[1, 2.50e3 ], "b":{"c":null} } ', b'{"a":1,"a":2}', b'{"a":1,"A":2}',
    b'[1,"\\ud800",{}]', b'{"\\u0061":1,"a":1}', b'{"\\ud800":"\\u00e9\\\\"}', '{"é":"ß", "é\\u0130":"İ"}'.encode(), b"[1]", b'"x"',
    b'{"a":12,"a":1}', b'{"":1,"":1}', b"-0.5", b'{"a":"}","b":"\\""}',
)  # fmt: skip
WORDS = (
    b'{"a":', b'"a":1', b',"a":1', b',"A":1', b',"\\u0061":1', b'"\\ud800"', b"\\", b"\\u", b'"', b"[[", b"]", b"}",
    b"NaN", b"Infinity", b"1e999", b"-", b"0", b"9" * 25, b"true", b"null", b" ", b"\n", b"\x0c", b"\xef\xbb\xbf",
    b"\xc3\xa9", b"\xff", b"\xed\xa0\x80", b"\0", b",", b":", b"\xc4\xb0", b"\xe2\x84\xaa",
)  # fmt: skip


def check(data: bytes) -> None:
    """Read an object both ways, leniently and strictly, and any value."""
    try:
        expected = loads(data)
    except NotJson:
        for read in (rawjson.members, rawjson.strict_members, rawjson.decode):
            _refused(read, data, {"syntax", "utf8", "too_deep", "not_object"})
        return
    except TooDeep:
        return
    assert rawjson.decode(data) == plain(data), "decode gives another value"
    if isinstance(expected, list):
        _items(data, expected)
    if not isinstance(expected, Pairs):
        _refused(rawjson.members, data, {"not_object"})
        _refused(rawjson.strict_members, data, {"not_object"})
        return
    try:
        found = rawjson.members(data)
    except RawJsonError as exc:
        if exc.fault == "too_deep":
            return
        raise
    assert {key: loads(raw) for key, raw in found.items()} == dict(expected.items)
    assert list(found) == list(dict(expected.items)), "the members come in another order"
    assert all(raw in data for raw in found.values()), "a value is not the bytes that it was"
    assert rawjson.members(rawjson.join(found)) == found
    if expected.repeats():
        _refused(rawjson.strict_members, data, {"duplicate"})
    else:
        assert rawjson.strict_members(data) == found
    for raw in found.values():
        if raw[:1] == b'"':
            assert rawjson.string(raw) == loads(raw)
        else:
            assert rawjson.string(raw) is None


def _items(data: bytes, expected: list[Any]) -> None:
    try:
        found = rawjson.items(data)
    except RawJsonError as exc:
        assert exc.fault == "too_deep"
    else:
        assert [loads(raw) for raw in found] == expected


def _refused(read: object, data: bytes, faults: set[str]) -> None:
    try:
        read(data)  # type: ignore[operator]
    except RawJsonError as exc:
        assert exc.fault in faults, exc.fault
    else:
        raise AssertionError("what is to be refused was read")
