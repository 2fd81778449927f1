"""The dialects that ship, the site's own, and the error codes."""

import tomllib
from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

import msgspec

from shim.hub.dialect import Dialect, DialectError, load_dialect

_ERRORS = "errors.toml"


class ErrorCode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON-RPC error code, its HTTP status by era (0: not spoken there) and what it means."""

    code: int
    modern: int
    legacy: int
    meaning: str


def shipped_tables() -> Traversable:
    """Give the folder of the tables: inside the wheel, or beside the package in a source tree."""
    inside = resources.files("shim").joinpath("mappings")
    return inside if inside.is_dir() else resources.files("shim").joinpath("..").joinpath("mappings")


def load_dialects(extra: Sequence[Path] = ()) -> Mapping[str, Dialect]:
    """Load every table, the site's own after the shipped ones. Raises DialectError."""
    dialects: dict[str, Dialect] = {}
    for table in sorted(shipped_tables().iterdir(), key=lambda one: one.name):
        if table.name.endswith(".toml") and table.name != _ERRORS:
            _add(dialects, load_dialect(table.read_text("utf-8"), table.name), table.name)
    for path in extra:
        try:
            text = path.read_text("utf-8")
        except OSError as exc:
            raise DialectError(f"{path}: cannot be read: {exc.strerror}") from exc
        _add(dialects, load_dialect(text, str(path)), str(path))
    return dialects


def load_errors() -> Mapping[str, ErrorCode]:
    """Load the error codes by name. Raises DialectError."""
    text = shipped_tables().joinpath(_ERRORS).read_text("utf-8")
    try:
        return msgspec.convert(tomllib.loads(text), dict[str, ErrorCode])
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as exc:
        raise DialectError(f"{_ERRORS}: {exc}") from exc


def _add(dialects: dict[str, Dialect], dialect: Dialect, source: str) -> None:
    if dialect.name in dialects:
        raise DialectError(f"{source}: name: {dialect.name!r} is taken by another table")
    dialects[dialect.name] = dialect
