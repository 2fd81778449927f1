"""The dialects that ship, the site's own, and the error codes."""

from collections.abc import Mapping, Sequence
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from shim.hub.dialect import Dialect, DialectError, load_dialect
from shim.hub.errors import ErrorTable, load_error_table

ERRORS = "errors.toml"
NOISE = "noise.toml"
_NO_DIALECTS = (ERRORS, NOISE)


def shipped_tables() -> Traversable:
    """Give the folder of the tables: inside the wheel, or beside the package in a source tree."""
    inside = resources.files("shim").joinpath("mappings")
    return inside if inside.is_dir() else resources.files("shim").joinpath("..").joinpath("mappings")


def load_dialects(extra: Sequence[Path] = ()) -> Mapping[str, Dialect]:
    """Load every table by name, the site's own after the shipped ones. Raises DialectError."""
    dialects: dict[str, Dialect] = {}
    for table in sorted(shipped_tables().iterdir(), key=lambda one: one.name):
        if table.name.endswith(".toml") and table.name not in _NO_DIALECTS:
            _add(dialects, table.read_text("utf-8"), table.name)
    for path in extra:
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as exc:
            raise DialectError(f"{path}: cannot be read: {getattr(exc, 'strerror', None) or exc}") from exc
        _add(dialects, text, str(path))
    return dialects


def load_errors() -> ErrorTable:
    """Load the error codes. Raises DialectError."""
    return load_error_table(shipped_tables().joinpath(ERRORS).read_text("utf-8"), ERRORS)


def _add(dialects: dict[str, Dialect], text: str, source: str) -> None:
    dialect = load_dialect(text, source)
    if dialect.name in dialects:
        raise DialectError(f"{source}: name: {dialect.name!r} is taken by another table")
    dialects[dialect.name] = dialect
