"""The way to a task: whose it is comes first, and everything else looks the same (OWN-CHECK)."""

from shim.ledger.protocol import Ledger
from shim.ledger.records import TaskRow
from shim.upstreams.base import Context
from shim.wire.errors import task_expired, unknown_task


async def own(ledger: Ledger, ctx: Context, task_id: str) -> TaskRow:
    """Give the caller's task. Not theirs and not there raise the same error; only the log tells which."""
    ctx.trace.task_id = task_id
    found = await ledger.lookup(ctx.caller.key, task_id)
    if found.row is None:
        ctx.trace.denied(found.reason or "unknown_task")
        raise unknown_task()
    if found.row.purged:
        raise task_expired()
    return found.row
