"""SHADOW: two results are held against each other place by place."""

import copy
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from shim.shadow.compare import Difference, Path, differences, shown
from shim.shadow.noise import prepared

pytestmark = pytest.mark.rule("SHADOW")

scalars = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(max_size=5), inner), max_leaves=20
)


@pytest.mark.parametrize(
    ("one", "other", "found"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a": 1}, {"a": 2}, [("a", "value")]),
        ({"a": 1}, {"a": "1"}, [("a", "type")]),
        ({"a": 1}, {"a": True}, [("a", "type")]),
        ({"a": 1}, {"a": None}, [("a", "type")]),
        ({"a": 1}, {"b": 1}, [("a", "missing"), ("b", "extra")]),
        ({"a": {"b": [{"c": 1}]}}, {"a": {"b": [{"c": 2}]}}, [("a.b[].c", "value")]),
        ([1, 2, 3], [3, 1, 2], [("", "order")]),
        ([1, 2, 3], [1, 3], [("[]", "missing")]),
        ([1, 3], [1, 2, 3], [("[]", "extra")]),
        ([1, 2, 3, 4, 5], [1, 3, 5], [("[]", "missing"), ("[]", "missing")]),
        ([1, 2, 3, 4], [2, 1, 9, 4], [("", "order"), ("[]", "value")]),
        ([1, 2, 3], [8, 9], [("", "length")]),
        ([[1, 2]], [[2, 1]], [("[]", "order")]),
        ([True], [1], [("[]", "type")]),
        ({"t": '{"a": 1}'}, {"t": '{"a":1}'}, []),
        ({"t": '{"a": 1}'}, {"t": '{"a":2}'}, [("t.a", "value")]),
        ({"t": '{"a": 1}'}, {"t": "plain"}, [("t", "value")]),
        ({"t": '{"a": 1}'}, {"t": {"a": 1}}, [("t", "type")]),
        ({"t": "{a}"}, {"t": "{b}"}, [("t", "value")]),
        ({"t": ['{"b":[]}', "[1]"]}, {"t": ["[ 1 ]", '{"b": []}']}, [("t", "order")]),
    ],
)
def test_what_differs_and_how(one: Any, other: Any, found: list[tuple[str, str]]) -> None:
    told = differences(prepared(one), prepared(other), limit=100)
    assert [(shown(path), kind) for path, kind in told] == found


def test_the_item_that_is_missing_is_named_by_its_place() -> None:
    assert differences(list("abcde"), list("abde"), limit=9) == [Difference((2,), "missing")]
    assert differences(list("abde"), list("abcde"), limit=9) == [Difference((2,), "extra")]


@pytest.mark.parametrize(
    "name",
    ["ann@example.org", "two words", "4711", "x" * 65, "user-4711002", "0badc0ffee00", "", "Zürich"],
)
def test_a_name_that_looks_like_data_is_not_shown(name: str) -> None:
    assert shown(("byUser", name, "total", 3)) == "byUser.*.total[]"


def test_no_more_is_told_than_wanted() -> None:
    one, other = {str(n): n for n in range(50)}, {str(n): -1 for n in range(50)}
    assert len(differences(one, other, limit=7)) == 7


@given(values)
def test_nothing_differs_from_itself(value: Any) -> None:
    assert differences(prepared(value), prepared(copy.deepcopy(value)), limit=10) == []


def _places(value: Any, at: Path = ()) -> list[Path]:
    """All places of a value that have no others below them, and all objects' members."""
    match value:
        case dict():
            inner = [_places(one, (*at, key)) for key, one in value.items()]
        case list():
            inner = [_places(one, (*at, number)) for number, one in enumerate(value)]
        case _:
            return [at]
    return [place for places in inner for place in places]


def _put(value: Any, path: Path, new: Any) -> Any:
    if not path:
        return new
    value = copy.copy(value)
    value[path[0]] = _put(value[path[0]], path[1:], new)
    return value


def _without(value: Any, path: Path) -> Any:
    value = copy.copy(value)
    if len(path) == 1:
        del value[path[0]]
    else:
        value[path[0]] = _without(value[path[0]], path[1:])
    return value


def _at(value: Any, path: Path) -> Any:
    for part in path:
        value = value[part]
    return value


@given(st.data(), values)
def test_one_change_is_told_at_its_place_and_nowhere_else(data: st.DataObject, value: Any) -> None:
    places = _places(value)
    assume(places)
    path = data.draw(st.sampled_from(places))
    changed = _put(value, path, "\1changed")  # a text that no draw has
    before = _at(value, path)
    kind = "value" if isinstance(before, str) else "type"
    assert differences(value, changed, limit=10) == [Difference(path, kind)]


@given(st.data(), values)
def test_a_member_that_is_gone_is_told_at_its_place(data: st.DataObject, value: Any) -> None:
    places = [path for path in _places(value) if path and isinstance(path[-1], str)]
    assume(places)
    path = data.draw(st.sampled_from(places))
    # where an item of a list loses a member it may equal another item: then the item itself is what moved
    assume(not any(isinstance(part, int) for part in path))
    assert differences(value, _without(value, path), limit=10) == [Difference(path, "missing")]
    assert differences(_without(value, path), value, limit=10) == [Difference(path, "extra")]


@given(st.data(), st.lists(values, min_size=2, unique_by=lambda one: json.dumps(one, sort_keys=True)))
def test_a_list_in_another_order_is_told_as_that(data: st.DataObject, items: list[Any]) -> None:
    assume(differences([items[0]], [items[1]], limit=1))
    shuffled = data.draw(st.permutations(items))
    found = differences({"list": items}, {"list": shuffled}, limit=10)
    assume(found)
    assert found == [Difference(("list",), "order")]


@given(st.data(), st.lists(st.integers(), min_size=1, unique=True))
def test_an_item_that_is_gone_is_told_at_its_place(data: st.DataObject, items: list[int]) -> None:
    at = data.draw(st.integers(0, len(items) - 1))
    rest = items[:at] + items[at + 1 :]
    assert differences(items, rest, limit=10) == [Difference((at,), "missing")]
    assert differences(rest, items, limit=10) == [Difference((at,), "extra")]
