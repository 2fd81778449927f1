"""Cancelling a task (ML-CANCEL): intent is stored, upstream asked, the state is what it makes of it."""

import contextlib
from typing import Literal

from shim.hub.codec import CodecError
from shim.hub.status import TERMINAL, Status
from shim.ledger.records import TaskRow
from shim.tasks.observe import Observer
from shim.tasks.room import Room
from shim.tasks.terminal import End
from shim.upstreams.base import Context, SessionLost, TaskGone, TaskUnknown
from shim.upstreams.broken import Interrupted
from shim.wire.errors import ShimError, UpstreamFault, unknown_task

_LOOKS = 20
"""How often a cancelled task is looked at again, at its own pace."""


async def cancel(room: Room, observer: Observer, ctx: Context, row: TaskRow, *, pin: bool = False) -> TaskRow:
    """Ask upstream to cancel and give the task as it then is. Raises ShimError.

    `pin`: the client's dialect answers with the cancelled task; a server that only acknowledges is taken
    at its word, and `cancelled` is the task's end for everyone (LM-CANCEL). It must have taken the cancel:
    a server that refuses, or cannot be reached, leaves the task as it is.

    A task that has ended is left alone. On a server with sessions the cancel is on disk before upstream
    hears of it, so that a session that dies of it leaves a cancelled task and not a lost one.
    """
    if row.status in TERMINAL:
        return row
    acknowledged = not row.local and room.upstream(row).dialect.carries.ack
    asked_before = row.cancel_requested
    if not acknowledged:
        await room.ledger.mark_cancel(row.pk)
        row = await room.ledger.own_task(row.pk)
    try:
        answer = await _ask(room, observer, ctx, row)
    except TaskGone:
        # the session died, most likely of the cancel, and took the task along
        return await observer.end(row, End(Status.CANCELLED), ctx=ctx)
    except TaskUnknown:
        raise unknown_task() from None
    except SessionLost:
        answer = "ack"  # the next look settles it as cancelled
    if answer == "none":
        ctx.trace.loss("ML-CANCEL", "tasks/cancel")
        return row
    observer.forget(row.pk)
    if answer == "known" and not acknowledged and not asked_before:
        # it ended of itself: a dialect without the state would have its error taken for the cancel's
        await room.ledger.mark_cancel(row.pk, asked=False)
    if pin and acknowledged:
        if answer == "known":
            if (row := await observer.current(ctx, row)).status in TERMINAL:
                return row
            raise UpstreamFault("the upstream refused to cancel a task that goes on")
        row = await observer.end(row, End(Status.CANCELLED), ctx=ctx)
        room.start(_worked_on(room, row), f"after cancel {row.pk}")
        return row
    row = await room.ledger.own_task(row.pk)
    with contextlib.suppress(ShimError):  # the cancel was taken; what came of it is for the next look
        return await observer.current(ctx, row)
    return row


async def _ask(room: Room, observer: Observer, ctx: Context, row: TaskRow) -> Literal["ack", "known", "none"]:
    """Ask upstream and say what it answered. Raises ShimError, TaskUnknown, TaskGone, SessionLost.

    "known": it refused, and knows the task, which may have ended. "none": it has no cancel.
    """
    holder = room.holder(row)
    try:
        return "ack" if await holder.cancel(ctx, row) else "none"
    except TaskUnknown:
        # -32602 says unknown or already ended: one look tells which, also where the session is gone
        await room.upstream(row).get(ctx, row)
        return "known"
    except Interrupted:
        # cut off under way, as by a server that dies of it: one look tells whether it is to be said again
        observer.forget(row.pk)
        if (await observer.current(ctx, row)).status in TERMINAL:
            return "known"
        return "ack" if await holder.cancel(ctx, row) else "none"


async def _worked_on(room: Room, row: TaskRow) -> None:
    """Look for a while whether the work ends otherwise after all; that is audited and changes nothing."""
    ctx = room.own_context(row)
    hint_ms = row.poll_interval_ms or room.config.tasks.default_poll_interval_ms
    for _ in range(_LOOKS):
        await room.clock.sleep_ms(hint_ms)
        if room.waits(ctx, row):
            return
        try:
            seen = (await room.upstream(row).get(ctx, row)).task.status
        except (ShimError, TaskUnknown, CodecError):
            return
        if seen in TERMINAL:
            if seen is not row.status:
                detail = f"{row.status} -> {seen}"
                ctx.trace.event("hub.illegal_transition", rule="LM-CANCEL", detail=detail)
            return
