"""Cancelling a task (ML-CANCEL): intent is stored, upstream asked, the state is what it makes of it."""

import contextlib

from shim.hub.codec import CodecError
from shim.hub.status import TERMINAL, Status
from shim.ledger.records import TaskRow
from shim.tasks.observe import Observer
from shim.tasks.room import Room
from shim.tasks.terminal import End
from shim.upstreams.base import Context, SessionLost, TaskGone, TaskUnknown
from shim.upstreams.http import Interrupted
from shim.wire.errors import ShimError, unknown_task

_LOOKS = 20
"""How often a cancelled task is looked at again, at its own pace."""


async def cancel(room: Room, observer: Observer, ctx: Context, row: TaskRow, *, pin: bool = False) -> TaskRow:
    """Ask upstream to cancel and give the task as it then is. Raises ShimError.

    `pin`: the client's dialect answers with the cancelled task; a server that only acknowledges is taken
    at its word, and `cancelled` is the task's end for everyone (LM-CANCEL).

    A task that has ended is left alone. On a server with sessions the cancel is on disk before upstream
    hears of it, so that a session that dies of it leaves a cancelled task and not a lost one.
    """
    if row.status in TERMINAL:
        return row
    acknowledged = not row.local and room.upstream(row).dialect.carries.ack
    if not acknowledged:
        await room.ledger.mark_cancel(row.pk)
        row = await room.ledger.own_task(row.pk)
    try:
        if not await _ask(room, observer, ctx, row):
            ctx.trace.loss("ML-CANCEL", "tasks/cancel")
            return row
    except TaskGone:
        # the session died, most likely of the cancel, and took the task along
        return await observer.end(row, End(Status.CANCELLED), ctx=ctx)
    except TaskUnknown:
        raise unknown_task() from None
    except SessionLost:
        pass  # the next look settles it as cancelled
    observer.forget(row.pk)
    if pin and acknowledged:
        row = await observer.end(row, End(Status.CANCELLED), ctx=ctx)
        room.start(_worked_on(room, row), f"after cancel {row.pk}")
        return row
    row = await room.ledger.own_task(row.pk)
    with contextlib.suppress(ShimError):  # the cancel was taken; what came of it is for the next look
        return await observer.current(ctx, row)
    return row


async def _ask(room: Room, observer: Observer, ctx: Context, row: TaskRow) -> bool:
    """Ask upstream; False where it has no cancel. Raises ShimError, TaskUnknown, TaskGone, SessionLost."""
    holder = room.holder(row)
    try:
        return await holder.cancel(ctx, row)
    except TaskGone:
        raise
    except TaskUnknown:
        # -32602 says unknown or already ended: one look tells which
        await room.upstream(row).get(ctx, row)
        return True
    except Interrupted:
        # cut off under way, as by a server that dies of it: one look tells whether it is to be said again
        observer.forget(row.pk)
        if (await observer.current(ctx, row)).status in TERMINAL:
            return True
        return await holder.cancel(ctx, row)


async def _worked_on(room: Room, row: TaskRow) -> None:
    """Look for a while whether the work ends otherwise after all; that is audited and changes nothing."""
    ctx = room.own_context(row)
    hint_ms = row.poll_interval_ms or room.config.tasks.default_poll_interval_ms
    for _ in range(_LOOKS):
        await room.clock.sleep_ms(hint_ms)
        await room.credential(ctx, row)
        try:
            seen = (await room.upstream(row).get(ctx, row)).task.status
        except (ShimError, TaskUnknown, CodecError):
            return
        if seen in TERMINAL:
            if seen is not row.status:
                detail = f"{row.status} -> {seen}"
                ctx.trace.event("hub.illegal_transition", rule="LM-CANCEL", detail=detail)
            return
