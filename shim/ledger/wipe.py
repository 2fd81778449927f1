"""What a ledger without payloads in its file takes out of it, and what it reopens at its start (DUR-8).

A payload that SQLite deletes stays in free pages, and in the write-ahead log. So the file is written anew
and the log cut to nothing, once, before `payloads` says that there are none.
"""

import aiosqlite
import structlog

from shim.ledger.protocol import LedgerError

_WIPE = """
BEGIN IMMEDIATE;
UPDATE task SET
    tool_error = CASE WHEN json_valid(CAST(result AS TEXT))
        THEN coalesce(json_extract(CAST(result AS TEXT), '$.isError') = 1, 0) ELSE 0 END,
    status_message = NULL, result = NULL, error = NULL, meta = NULL;
UPDATE input SET params = x'00', response = NULL;
UPDATE keyed SET answer = NULL;
DELETE FROM call;
COMMIT;
VACUUM;
"""
# an answer that was not delivered and is not kept any more was none: the question is open again
_REOPEN = """
BEGIN IMMEDIATE;
DELETE FROM ask WHERE EXISTS (SELECT 1 FROM input WHERE input.task_pk = ask.task_pk AND input.key = ask.key
    AND state = 'answered' AND response IS NULL);
UPDATE input SET state = 'outstanding', by = NULL WHERE state = 'answered' AND response IS NULL;
COMMIT;
"""


log = structlog.get_logger("shim.ledger")


async def settle(db: aiosqlite.Connection, *, in_file: bool) -> None:
    """Make a file that was just opened fit where its payloads are kept now. Raises LedgerError."""
    [[may_hold]] = await db.execute_fetchall("SELECT in_file FROM payloads")
    if may_hold and not in_file:
        [[was_used]] = await db.execute_fetchall("SELECT EXISTS (SELECT 1 FROM epoch)")
        await db.executescript(_WIPE)
        [[busy, _, _]] = await db.execute_fetchall("PRAGMA wal_checkpoint(TRUNCATE)")
        if busy:
            raise LedgerError(
                "somebody reads it while its payloads are taken out (ledger.store_results = false): "
                "let go of it and start again"
            )
        if was_used:
            log.info("what tasks carried was taken out of the ledger (ledger.store_results = false)")
    if bool(may_hold) != in_file:
        await db.execute("UPDATE payloads SET in_file = ?", (in_file,))
    if not (may_hold and in_file):
        await db.executescript(_REOPEN)
