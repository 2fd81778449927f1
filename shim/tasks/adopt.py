"""Taking over a task from before the shim stood here, while the operator allows it (OWN-ADOPT)."""

from shim.ledger.records import TaskRow
from shim.tasks.recording import is_unguessable, record
from shim.tasks.room import Room
from shim.upstreams.base import Context


async def adopt(room: Room, ctx: Context, task_id: str) -> TaskRow | None:
    """Give a task that the ledger does not know as the caller's from now on; None where it is not to be had.

    The upstream has to know it, asked with the request's own credential over the request's own session.
    """
    until = room.config.ownership.adopt_until
    if until is None or room.clock.now_ms() >= until.timestamp() * 1000:
        return None
    upstream = room.upstreams[ctx.trace.upstream or "", ctx.trace.upstream_dialect or ""]
    if ctx.caller.kind == "none" and not is_unguessable(task_id):
        return None
    async with room.adopting:
        # what goes by another id outwards is in the ledger, too; and two may ask for one task at once
        found = await room.ledger.lookup(ctx.caller.key, task_id)
        if found.reason != "unknown_task" or await room.ledger.renamed(upstream.name, task_id):
            return found.row
        reading = await upstream.find(ctx, task_id)
        if reading is None or reading.task.task_id != task_id:
            return None
        driven = ctx.client_session is not None and upstream.dialect.era == "legacy"
        row = await record(
            room, ctx, upstream, reading,
            session_id=ctx.client_session if driven else None, driven=driven, tool=None,
        )  # fmt: skip
    ctx.trace.rule("OWN-ADOPT")
    ctx.trace.event("adopted", task_id=row.task_id)
    return row
