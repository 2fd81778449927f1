"""Rows of SQLite as records and back."""

from collections.abc import Sequence
from typing import Any

from shim.hub.status import Status
from shim.ledger.records import IdemRow, InputRow, SessionRow, TaskRow

TASK = (
    "pk, task_id, upstream, upstream_task_id, dialect, session_id, driven, caller, caller_kind, "
    "client_session, tool, kinds, status, status_message, created_at, last_updated_at, ttl_ms, "
    "poll_interval_ms, meta, first_seen_ms, max_ttl_ms, result, error, ended_ms, touched_ms, "
    "result_request_id, cancel_requested, purged"
)
SESSION = (
    "session_id, upstream, caller, caller_kind, side, dialect, client_name, client_version, kinds, version, "
    "init, created_ms, used_ms, closed"
)
INPUT = "task_pk, key, method, params, kind, upstream_id, session_id, asked_ms, state, response, by"
KEYED = "caller, key, body_hash, state, answer, is_error, created_ms, instance"


def task(row: Sequence[Any]) -> TaskRow:
    """Read a task."""
    named = dict(zip(TASK.split(", "), row, strict=True))
    named["kinds"] = kinds(named["kinds"])
    named["status"] = Status(named["status"])
    for flag in ("driven", "cancel_requested", "purged"):
        named[flag] = bool(named[flag])
    return TaskRow(**named)


def session(row: Sequence[Any]) -> SessionRow:
    """Read a session."""
    named = dict(zip(SESSION.split(", "), row, strict=True))
    named["kinds"] = kinds(named["kinds"])
    named["closed"] = bool(named["closed"])
    return SessionRow(**named)


def question(row: Sequence[Any]) -> InputRow:
    """Read a question."""
    return InputRow(**dict(zip(INPUT.split(", "), row, strict=True)))


def keyed(row: Sequence[Any]) -> IdemRow:
    """Read a keyed call."""
    named = dict(zip(KEYED.split(", "), row, strict=True))
    named["is_error"] = bool(named["is_error"])
    return IdemRow(**named)


def kinds(text: str) -> frozenset[str]:
    """Read a set of question kinds."""
    return frozenset(text.split()) if text else frozenset()


def kinds_text(values: frozenset[str]) -> str:
    """Write a set of question kinds."""
    return " ".join(sorted(values))


def places(columns: str) -> str:
    """Give as many `?` as there are columns."""
    return ", ".join("?" * len(columns.split(", ")))
