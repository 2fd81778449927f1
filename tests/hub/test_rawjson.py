import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.hub import rawjson
from shim.hub.rawjson import RawJsonError

ODD_VALUES = (
    b"9007199254740993", b"1.10", b"-0", b"-0.0", b"1E+2", b"1e999", b"9" * 5_000, b'"\\ud800"',
    b'"\\u00e9"', b'"\xc3\xa9"', b'"\\/"', b'""', b"null", b"[ 1 , 2 ]", b'{ "b" : [ ] }', b"[]",
    b'"}"', b'"\\""', b'"\\\\"',
)  # fmt: skip


@pytest.mark.rule("HUB-5")
@pytest.mark.parametrize("value", ODD_VALUES, ids=repr)
@pytest.mark.parametrize("read", [rawjson.members, rawjson.strict_members])
@pytest.mark.parametrize(
    "shape", [b'{"a":%b}', b' {\t"a" :\r\n%b } ', b'{"x":1,"a":%b,"z":[]}', b'{"\\ud800":1,"a":%b}']
)
def test_a_value_keeps_its_bytes(read, shape: bytes, value: bytes) -> None:
    assert read(shape % value)["a"] == value


REFUSED = (
    (b"", "syntax"), (b"{", "syntax"), (b"{}x", "syntax"), (b"{} {}", "syntax"), (b'{"a":1,}', "syntax"),
    (b'{"a" 1}', "syntax"), (b"{a:1}", "syntax"), (b"{'a':1}", "syntax"), (b'{"a":1 "b":2}', "syntax"),
    (b'{"a":01}', "syntax"), (b'{"a":[1.]}', "syntax"), (b'{"a":+1}', "syntax"), (b'{"a":tru}', "syntax"),
    (b'{"a":"\\x"}', "syntax"), (b'{"a":["\\u12"]}', "syntax"), (b'{"a":"\x01"}', "syntax"),
    (b'{"a":\x0c1}', "syntax"), (b"\xef\xbb\xbf{}", "syntax"), (b'{"a":1}\x00', "syntax"),
    (b"[]", "not_object"), (b"1", "not_object"), (b"null", "not_object"), (b'"a"', "not_object"),
    (b'{"a":"\xff"}', "utf8"), (b'{"a":["\xff"]}', "utf8"), (b'{"\xff":1}', "utf8"),
    (b'{"a":"\xc0\x80"}', "utf8"),
    (b'{"a":"\xed\xa0\x80"}', "utf8"), (b'{"\\ud800":"\xff"}', "utf8"),
    (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too_deep"), (b'{"a":' + b"[" * 100_000, "too_deep"),
    (b'{"\\ud800":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "too_deep"),
)  # fmt: skip


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(("data", "fault"), REFUSED, ids=lambda one: repr(one)[:30])
@pytest.mark.parametrize("read", [rawjson.members, rawjson.strict_members])
def test_what_is_no_json_object_is_refused(read, data: bytes, fault: str) -> None:
    with pytest.raises(RawJsonError) as caught:
        read(data)
    assert caught.value.fault == fault


@pytest.mark.rule("HUB-5")
@pytest.mark.parametrize("name", [b"NaN", b"Infinity", b"-Infinity"])
@pytest.mark.parametrize("shape", [b'{"a":%b}', b'{"a":[%b]}', b'{"a":{"b":[1,%b]}}', b'{"\\ud800":%b}'])
def test_nan_is_not_json(shape: bytes, name: bytes) -> None:
    with pytest.raises(RawJsonError) as caught:
        rawjson.members(shape % name)
    assert caught.value.fault == "syntax"
    with pytest.raises(RawJsonError):
        rawjson.decode(shape % name)


DUPLICATES = (
    (b'{"a":1,"a":2}', "a"), (b'{"a":1,"a":1}', "a"), (b'{"a":12,"a":1}', "a"), (b'{"a":1,"a":12}', "a"),
    (b'{"a":1,"\\u0061":1}', "a"), (b'{"\\u0061":1,"a":1}', "a"), (b'{"a":1,"b":2,"a":1}', "a"),
    (b'{"a":"x","b":{},"a" : "x"}', "a"), (b'{"a":1,"A":2}', "A"), (b'{"TaskId":1,"taskId":1}', "taskId"),
    (b'{"":1,"":1}', ""), (b'{"\\ud800":1,"\\uD800":1}', "\ud800"),
)  # fmt: skip


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(("data", "key"), DUPLICATES)
def test_keys_that_repeat_or_differ_in_case_are_refused(data: bytes, key: str) -> None:
    with pytest.raises(RawJsonError) as caught:
        rawjson.strict_members(data)
    assert caught.value.fault == "duplicate"
    assert caught.value.key in {key, ""}  # the walk may stop before it reads the key


@pytest.mark.parametrize("data", [b"{}", b"{ }", b" {\n} ", b'{"a":{"b":1,"b":2}}', b'{"a":[{"b":1,"B":2}]}'])
def test_strict_looks_at_this_level_only(data: bytes) -> None:
    assert rawjson.strict_members(data) == rawjson.members(data)


def test_the_last_of_repeated_keys_wins() -> None:
    assert rawjson.members(b'{"a":1,"b":0,"a":2}') == {"a": b"2", "b": b"0"}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)
json_objects = st.dictionaries(st.text(st.characters(codec=None)), json_values, max_size=5)


@pytest.mark.rule("HUB-5")
@given(value=json_objects, ascii_only=st.booleans(), indent=st.sampled_from([None, 1, "\t"]))
def test_split_and_join_give_the_same_object(
    value: dict[str, object], indent: object, *, ascii_only: bool
) -> None:
    ascii_only = ascii_only or any("\ud800" <= char <= "\udfff" for char in str(value))
    text = json.dumps(value, ensure_ascii=ascii_only or not _encodable(value), indent=indent)  # type: ignore[arg-type]
    parts = rawjson.members(text.encode())
    assert {key: json.loads(raw) for key, raw in parts.items()} == value
    assert rawjson.members(rawjson.join(parts)) == parts
    if len({key.lower() for key in value}) == len(value):
        assert rawjson.strict_members(text.encode()) == parts


def _encodable(value: object) -> bool:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


@given(st.binary(max_size=60) | st.text(alphabet='{}[]",:\\u0a1 ntrue-.eE\n', max_size=40).map(str.encode))
def test_any_bytes_give_members_or_the_one_error(data: bytes) -> None:
    try:
        found = rawjson.members(data)
    except RawJsonError:
        with pytest.raises((RawJsonError, AssertionError)):
            assert isinstance(rawjson.decode(data), dict)
    else:
        assert {key: rawjson.decode(raw) for key, raw in found.items()} == rawjson.decode(data)


@pytest.mark.rule("HUB-5")
@pytest.mark.parametrize(
    ("data", "items"),
    [
        (b"[]", []), (b" [ ] ", []), (b'[1.10, {"a" : [2]},\n"x"]', [b"1.10", b'{"a" : [2]}', b'"x"']),
        (b'["\\ud800", 1 ,{"a":"\\udfff"} ]', [b'"\\ud800"', b"1", b'{"a":"\\udfff"}']),
    ],
)  # fmt: skip
def test_a_list_is_split_into_its_items_as_they_came(data: bytes, items: list[bytes]) -> None:
    assert rawjson.items(data) == items


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        (b"{}", "not_object"), (b'{"a":"\\ud800"}', "not_object"), (b"[1,]", "syntax"), (b'["\xff"]', "utf8"),
        (b"[" * 100_000 + b"]" * 100_000, "too_deep"),
    ],
)  # fmt: skip
def test_what_is_no_list_is_not_split(data: bytes, fault: str) -> None:
    with pytest.raises(RawJsonError) as caught:
        rawjson.items(data)
    assert caught.value.fault == fault


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"9007199254740993", 9007199254740993),
        (b"18446744073709551617", 2**64 + 1),
        (b"1.5", 1.5),
        (b'"\\ud800"', "\ud800"),
    ],
)
def test_decode_keeps_values(data: bytes, value: object) -> None:
    assert rawjson.decode(data) == value


def test_decode_takes_numbers_of_any_length() -> None:
    assert rawjson.decode(b"[" + b"9" * 5_000 + b"]") == [float("inf")]


@pytest.mark.parametrize(
    ("data", "fault"), [(b"{", "syntax"), (b'"\xff"', "utf8"), (b"[" * 100_000, "too_deep")]
)
def test_decode_refuses(data: bytes, fault: str) -> None:
    with pytest.raises(RawJsonError) as caught:
        rawjson.decode(data)
    assert caught.value.fault == fault


def test_encode_is_compact_and_takes_a_lone_surrogate() -> None:
    assert rawjson.encode({"a": [1, "é"]}) == '{"a":[1,"é"]}'.encode()
    assert rawjson.encode({"a": "\ud800"}) == b'{"a":"\\ud800"}'
    assert rawjson.join({"\ud800": b"1.10"}) == b'{"\\ud800":1.10}'


@pytest.mark.parametrize(
    ("raw", "text"), [(b'"a"', "a"), (b'"\\u0061"', "a"), (b"1", None), (b"null", None), (None, None)]
)
def test_string(raw: bytes | None, text: str | None) -> None:
    assert rawjson.string(raw) == text
