"""What time takes from the ledger: payload first, then the tombstone's row (DUR-4)."""

from dataclasses import dataclass

from shim.ledger.records import Purged
from shim.ledger.writer import Results, Statement

# an ended task's time is over when its largest ttl, or the retention of an unlimited one, has passed
_PAYLOADS = """
UPDATE task SET purged_ms = :now, result = NULL, error = NULL WHERE pk IN (
    SELECT pk FROM (
        SELECT pk FROM task WHERE purged_ms IS NULL AND due_ms IS NOT NULL AND due_ms <= :now
        UNION ALL
        SELECT pk FROM task WHERE purged_ms IS NULL AND max_ttl_ms IS NULL AND ended_ms IS NOT NULL
            AND ended_ms <= :now - :retention)
    LIMIT :limit)
RETURNING pk, task_id
"""
_TOO_OLD = """
UPDATE task SET status = 'failed', ended_ms = :now, purged_ms = :now WHERE pk IN (
    SELECT pk FROM task WHERE ended_ms IS NULL AND first_seen_ms <= :now - :max_age LIMIT :limit)
RETURNING pk, task_id, caller
"""
_ROWS = """
DELETE FROM task WHERE pk IN (
    SELECT pk FROM task WHERE purged_ms IS NOT NULL AND purged_ms <= :now - :tombstone LIMIT :limit)
RETURNING pk
"""
_KEYED = """
DELETE FROM keyed WHERE (caller, key) IN (
    SELECT caller, key FROM keyed WHERE created_ms <= :now - :idempotency LIMIT :limit)
RETURNING caller, key
"""
# a session stays while a task that lives in it, or that its client made, has not ended
_SESSIONS = """
DELETE FROM session WHERE session_id IN (
    SELECT session_id FROM (
        SELECT session_id, caller FROM session WHERE used_ms <= :now - :session
        UNION ALL
        SELECT session_id, caller FROM session WHERE closed = 1 AND used_ms <= :now - :tombstone) AS old
    WHERE NOT EXISTS (SELECT 1 FROM task WHERE task.session_id = old.session_id AND ended_ms IS NULL)
        AND NOT EXISTS (
            SELECT 1 FROM task INDEXED BY task_open_of
            WHERE task.caller = old.caller AND client_session = old.session_id AND ended_ms IS NULL)
    LIMIT :limit)
RETURNING session_id
"""


@dataclass(frozen=True, slots=True)
class Gone:
    """What a purge did, for those who remember rows."""

    purged: Purged
    ended_callers: dict[int, str]
    """Key of a task that was open until now -> its caller."""
    session_ids: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    """Callers and keys of keyed calls."""


def statements(
    now_ms: int, *, retention_ms: int, tombstone_ms: int, max_age_ms: int,
    idempotency_ms: int, session_ms: int, limit: int,
) -> list[Statement]:  # fmt: skip
    """Give the operation that purges once, at most `limit` rows of each kind."""
    values = {
        "now": now_ms, "retention": retention_ms, "tombstone": tombstone_ms, "max_age": max_age_ms,
        "idempotency": idempotency_ms, "session": session_ms, "limit": limit,
    }  # fmt: skip
    return [(sql, values) for sql in (_ROWS, _PAYLOADS, _TOO_OLD, _KEYED, _SESSIONS)]


def gone(results: Results) -> Gone:
    """Read what the operation did."""
    deleted, payloads, old, keyed, sessions = results
    pks = tuple(row[0] for row in (*deleted, *payloads, *old))
    purged = Purged(tuple(row[1] for row in (*payloads, *old)), len(deleted), pks)
    return Gone(
        purged,
        {row[0]: row[2] for row in old},
        tuple(row[0] for row in sessions),
        tuple((row[0], row[1]) for row in keyed),
    )
