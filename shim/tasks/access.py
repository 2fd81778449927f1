"""The way to a task: whose it is comes first, and everything else looks the same (OWN-CHECK)."""

from shim.ledger.records import TaskRow
from shim.tasks.adopt import adopt
from shim.tasks.room import Room
from shim.upstreams.base import Context
from shim.wire.errors import task_expired, unknown_task


async def own(room: Room, ctx: Context, task_id: str) -> TaskRow:
    """Give the caller's task, which it has touched by that (DUR-6).

    Not theirs and not there raise the same error; only the log tells which.
    """
    ctx.trace.task_id = task_id
    found = await room.ledger.lookup(ctx.caller.key, task_id)
    row = found.row
    if row is None and found.reason == "unknown_task":
        row = await adopt(room, ctx, task_id)
    if row is None:
        ctx.trace.denied(found.reason or "unknown_task")
        raise unknown_task()
    if row.purged:
        raise task_expired()
    room.ledger.touch(row.pk, room.clock.now_ms())
    return row
