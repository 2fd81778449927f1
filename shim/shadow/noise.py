"""What two runs of one call do not share on any server: times and ids, as `mappings/noise.toml` has them.

Such values are replaced by the name of their form before anything is compared; so are members that the
operator ignores left out. Pure.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from fnmatch import translate
from functools import cache, lru_cache
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from shim.hub import rawjson, toml
from shim.hub.registry import NOISE, shipped_tables
from shim.shadow.compare import Embedded, member

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|-")
_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?")
_MINTED = re.compile(
    r"(?:[A-Za-z]+[-_])?(?:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{16,}|[0-7][0-9A-HJKMNP-TV-Z]{25})",
    re.IGNORECASE,
)
_NAME_CHARS = 200
"""No name of noise is longer."""
_SECONDS, _MILLIS = (1e9, 4e9), (1e12, 4e12)
_TIME_MASK, _ID_MASK = "\0time", "\0id"
_EPOCH_MASK, _NUMBER_MASK = 1e-300, 1e-301
"""What stands for noise: of the same JSON type, and what no server says."""


class _Kind(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    names: tuple[str, ...]
    forms: tuple[str, ...]


def _date_time(value: Any) -> Any:
    return _TIME_MASK if isinstance(value, str) and _DATE_TIME.fullmatch(value) else None


def _epoch(value: Any) -> Any:
    is_epoch = _is_number(value) and any(first <= value < last for first, last in (_SECONDS, _MILLIS))
    return _EPOCH_MASK if is_epoch else None


def _number(value: Any) -> Any:
    return _NUMBER_MASK if _is_number(value) else None


def _minted(value: Any) -> Any:
    return _ID_MASK if isinstance(value, str) and _MINTED.fullmatch(value) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


Form = Callable[[Any], Any]
"""Gives what stands for a value that has the form; None for any other."""
_FORMS: Mapping[str, Form] = {
    "date_time": _date_time, "epoch": _epoch, "number": _number, "minted": _minted,
}  # fmt: skip


@lru_cache(maxsize=64)
def _ignoring(paths: Sequence[str]) -> re.Pattern[str] | None:
    """Give what fits the ignored paths; `*` in one stands for a whole name."""
    if not paths:
        return None
    one_each = (re.escape(path).replace(r"\*", r"[^.\[]+") for path in paths)
    return re.compile("|".join(one_each))


def prepared(value: Any, ignored: Sequence[str] = ()) -> Any:
    """Give a value as it is compared: ignored places left out, noise masked, texts that are JSON decoded.

    `ignored` are paths as `shown` writes them; all that is below one is left out as well.
    """
    return _prepare(value, "", "", _ignoring(tuple(ignored)))


def _prepare(value: Any, path: str, name: str, ignored: re.Pattern[str] | None) -> Any:
    if isinstance(value, dict):
        kept = {}
        for key, inner in value.items():
            below = f"{path}.{member(key)}" if path else member(key)
            if ignored is None or not ignored.fullmatch(below):
                kept[key] = _prepare(inner, below, key, ignored)
        return kept
    if isinstance(value, list):
        below = path + "[]"
        if ignored is not None and ignored.fullmatch(below):
            return []
        return [_prepare(inner, below, name, ignored) for inner in value]
    if isinstance(value, str) and value[:1] in {"{", "["} and (inner := _decoded(value)) is not None:
        return Embedded(_prepare(inner, path, name, ignored))
    for form in _forms_of(name) if len(name) <= _NAME_CHARS else ():
        masked = form(value)
        if masked is not None:
            return masked
    return value


def _decoded(text: str) -> Any:
    """Give the object or array that a text is; None for any other text."""
    try:
        value = rawjson.decode(text.encode())
    except (rawjson.RawJsonError, UnicodeEncodeError):
        return None
    return value if isinstance(value, dict | list) else None


@lru_cache(maxsize=4096)
def _forms_of(name: str) -> tuple[Form, ...]:
    """Give the forms in which a member of that name is noise."""
    plain = _CAMEL.sub("_", name).lower()
    return tuple(_FORMS[form] for names, forms in _table() if names.fullmatch(plain) for form in forms)


@cache
def _table() -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    return load_noise(shipped_tables().joinpath(NOISE).read_text("utf-8"), NOISE)


def load_noise(text: str, source: str) -> tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]:
    """Read the table: what fits the names, and the forms, of each kind. Raises TableError."""
    found = []
    for kind, members in toml.parse(text, source).items():
        try:
            read = _Kind.model_validate(members)
        except ValidationError as exc:
            raise toml.fault(text, source, (kind,), str(exc.errors()[0]["msg"])) from exc
        if unknown := set(read.forms) - set(_FORMS):
            raise toml.fault(text, source, (kind, "forms"), f"{min(unknown)!r} is no form")
        found.append((re.compile("|".join(map(translate, read.names))), read.forms))
    return tuple(found)
