"""Rows of SQLite as records and back."""

from collections.abc import Sequence
from typing import Any

from shim.hub.status import Status
from shim.ledger.records import AskRow, IdemRow, InputRow, NewTask, SessionRow, TaskRow

_COMPUTED = {"purged": "purged_ms IS NOT NULL"}
_PAYLOAD = ("result", "error")
_TASK = TaskRow.__struct_fields__

TASK = ", ".join(_COMPUTED.get(name, name) for name in _TASK)
"""A whole task."""
LISTED = ", ".join("NULL" if name in _PAYLOAD else _COMPUTED.get(name, name) for name in _TASK)
"""A task without its payload, which may be large."""
NEW_TASK = (*NewTask.__struct_fields__, "max_ttl_ms", "touched_ms")
SESSION = SessionRow.__struct_fields__
INPUT = InputRow.__struct_fields__
ASK = AskRow.__struct_fields__
KEYED = IdemRow.__struct_fields__


def task(row: Sequence[Any]) -> TaskRow:
    """Read a task."""
    named = dict(zip(_TASK, row, strict=True))
    named["kinds"] = frozenset(named["kinds"].split())
    named["status"] = Status(named["status"])
    for flag in ("driven", "cancel_requested", "purged", "local", "tool_error"):
        named[flag] = bool(named[flag])
    return TaskRow(**named)


def session(row: Sequence[Any]) -> SessionRow:
    """Read a session."""
    named = dict(zip(SESSION, row, strict=True))
    named["kinds"] = frozenset(named["kinds"].split())
    named["closed"] = bool(named["closed"])
    return SessionRow(**named)


def question(row: Sequence[Any]) -> InputRow:
    """Read a question."""
    return InputRow(**dict(zip(INPUT, row, strict=True)))


def ask(row: Sequence[Any]) -> AskRow:
    """Read a question as it was sent."""
    return AskRow(**dict(zip(ASK, row, strict=True)))


def keyed(row: Sequence[Any]) -> IdemRow:
    """Read a keyed call."""
    named = dict(zip(KEYED, row, strict=True))
    named["is_error"] = bool(named["is_error"])
    return IdemRow(**named)


def stored(record: object, columns: Sequence[str]) -> list[Any]:
    """Give a record's fields as SQLite keeps them."""
    return [_stored(getattr(record, name)) for name in columns]


def insert(table: str, columns: Sequence[str]) -> str:
    """Give the statement that adds a row."""
    places = ", ".join("?" * len(columns))
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"  # noqa: S608 - names of our own


def _stored(value: Any) -> Any:
    if isinstance(value, frozenset):
        return " ".join(sorted(value))
    return value.value if isinstance(value, Status) else value
