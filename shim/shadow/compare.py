"""Where two JSON values differ: places and kinds, never values. Pure.

The first value is the one that counts, the second one is held against it.
"""

import re
from collections import defaultdict, deque
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal, NamedTuple

Kind = Literal["missing", "extra", "type", "value", "order", "length"]
"""`order`: the same items in another order; `length`: so many items differ that none can be paired."""
Path = tuple[str | int, ...]

_NAME = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]{0,63}")
_DATA = re.compile(r"[0-9a-fA-F-]{12,}|.*[0-9]{6}.*")
_SHOWN_CHARS = 300
_ANY = "*"


class Difference(NamedTuple):
    """A place where two values differ, and how."""

    path: Path
    kind: Kind


@dataclass(frozen=True, slots=True)
class Embedded:
    """A text that is itself a JSON object or array, decoded: how it is laid out makes no difference."""

    value: Any


def differences(one: Any, other: Any, *, limit: int) -> list[Difference]:
    """Give where `other` differs from `one`, the innermost places, at most `limit` of them."""
    return list(islice(_differ(one, other, ()), limit))


def shown(path: Path) -> str:
    """Write a path for people and logs: `structuredContent.items[].price`.

    A member's name that looks like a piece of data, not like a name, is written `*`.
    """
    text = ""
    for part in path:
        text += "[]" if isinstance(part, int) else f".{member(part)}" if text else member(part)
    return text[:_SHOWN_CHARS]


def member(name: str) -> str:
    """Give a member's name as it may stand in a log."""
    return name if _NAME.fullmatch(name) and not _DATA.fullmatch(name) else _ANY


def _differ(one: Any, other: Any, path: Path) -> Iterator[Difference]:
    if isinstance(one, Embedded) and isinstance(other, Embedded):
        yield from _differ(one.value, other.value, path)
    elif _type(one) != _type(other):
        yield Difference(path, "type")
    elif isinstance(one, dict):
        yield from _objects(one, other, path)
    elif isinstance(one, list):
        yield from _arrays(one, other, path)
    elif one != other:
        yield Difference(path, "value")


def _objects(one: dict[str, Any], other: dict[str, Any], path: Path) -> Iterator[Difference]:
    for key, value in one.items():
        if key in other:
            yield from _differ(value, other[key], (*path, key))
        else:
            yield Difference((*path, key), "missing")
    for key in other:
        if key not in one:
            yield Difference((*path, key), "extra")


def _arrays(one: list[Any], other: list[Any], path: Path) -> Iterator[Difference]:
    """Match equal items wherever they stand, then hold what is left over against each other in turn."""
    left, right = [_frozen(item) for item in one], [_frozen(item) for item in other]
    if left == right:
        return
    there, here = _uneven(left, right)
    places: dict[Hashable, deque[int]] = defaultdict(deque)
    for at in here:
        places[right[at]].append(at)
    matched: list[int] = []
    missing: list[int] = []
    for at in there:
        if waiting := places.get(left[at]):
            matched.append(waiting.popleft())
        else:
            missing.append(at)
    extra = sorted(at for waiting in places.values() for at in waiting)
    if matched != sorted(matched):
        yield Difference(path, "order")
    if len(missing) == len(extra):
        for at, its in zip(missing, extra, strict=True):
            yield from _differ(one[at], other[its], (*path, at))
    elif missing and extra:
        yield Difference(path, "length")
    else:
        for at in missing:
            yield Difference((*path, at), "missing")
        for at in extra:
            yield Difference((*path, at), "extra")


def _uneven(left: list[Hashable], right: list[Hashable]) -> tuple[list[int], list[int]]:
    """Give the places that are left when what is equal from either end, and in place, is taken away."""
    shorter = min(len(left), len(right))
    head = next((at for at in range(shorter) if left[at] != right[at]), shorter)
    tail = next((at for at in range(shorter - head) if left[-1 - at] != right[-1 - at]), shorter - head)
    there, here = range(head, len(left) - tail), range(head, len(right) - tail)
    if len(left) != len(right):
        return list(there), list(here)
    moved = [at for at in there if left[at] != right[at]]
    return moved, moved


def _frozen(value: Any) -> Hashable:
    """Give what equals another exactly where the two are equal as JSON: true is not 1, but 1.0 is."""
    match value:
        case bool():
            return ("boolean", value)
        case dict():
            return ("object", frozenset((key, _frozen(inner)) for key, inner in value.items()))
        case list():
            return ("array", *map(_frozen, value))
        case Embedded():
            return ("text", _frozen(value.value))
        case int() | float() | str() | None:
            return value
    raise TypeError(type(value).__name__)


def _type(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int() | float():
            return "number"
        case str() | Embedded():
            return "string"
        case dict():
            return "object"
    return "array"
