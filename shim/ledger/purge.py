"""What time takes from the ledger: payload first, then the row (DUR-4)."""

from dataclasses import dataclass

from shim.ledger.records import Purged
from shim.ledger.writer import Writer

# an ended task's time is over when its largest ttl, or the retention of an unlimited one, has passed
_PAYLOADS = """
UPDATE task SET purged = 1, result = NULL, error = NULL WHERE pk IN (
    SELECT pk FROM (
        SELECT pk FROM task WHERE purged = 0 AND due_ms <= :now
        UNION ALL
        SELECT pk FROM task WHERE purged = 0 AND max_ttl_ms IS NULL AND ended_ms <= :now - :retention)
    LIMIT :limit)
RETURNING pk, task_id
"""
_TOO_OLD = """
UPDATE task SET status = 'failed', ended_ms = :now, purged = 1, result = NULL, error = NULL WHERE pk IN (
    SELECT pk FROM task WHERE ended_ms IS NULL AND first_seen_ms <= :now - :max_age LIMIT :limit)
RETURNING pk, task_id
"""
_ROWS = """
DELETE FROM task WHERE pk IN (
    SELECT pk FROM task
    WHERE purged = 1 AND ended_ms <= :now - :tombstone
        AND ended_ms + coalesce(max_ttl_ms, :retention) + :tombstone <= :now
    LIMIT :limit)
RETURNING pk
"""
_INPUTS = "DELETE FROM input WHERE task_pk IN (SELECT pk FROM task WHERE purged = 1)"
_KEYED = "DELETE FROM keyed WHERE created_ms <= :now - :idempotency"
_SESSIONS = """
DELETE FROM session WHERE used_ms <= :now - :session
AND session_id NOT IN (SELECT session_id FROM task WHERE ended_ms IS NULL AND session_id IS NOT NULL)
"""


@dataclass(frozen=True, slots=True)
class Gone:
    """What a purge did, and the keys of the rows it changed."""

    purged: Purged
    changed: tuple[int, ...]


async def purge(
    writer: Writer, now_ms: int, *, retention_ms: int, tombstone_ms: int, max_age_ms: int,
    idempotency_ms: int, session_ms: int, limit: int,
) -> Gone:  # fmt: skip
    """Purge once, in one operation."""
    values = {
        "now": now_ms, "retention": retention_ms, "tombstone": tombstone_ms, "max_age": max_age_ms,
        "idempotency": idempotency_ms, "session": session_ms, "limit": limit,
    }  # fmt: skip
    payloads, old, _, deleted, *_ = await writer.write(
        (_PAYLOADS, values), (_TOO_OLD, values), (_INPUTS, {}),
        (_ROWS, values), (_KEYED, values), (_SESSIONS, values),
    )  # fmt: skip
    changed = [*payloads, *old]
    keys = (*(row[0] for row in changed), *(row[0] for row in deleted))
    return Gone(Purged(tuple(row[1] for row in changed), len(deleted)), keys)
