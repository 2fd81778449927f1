"""Making a task: decide whether the call is one, ask upstream, write it down, then answer (ML-CREATE)."""

import asyncio
from dataclasses import dataclass

from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.ledger.records import SessionRow, TaskRow
from shim.tasks.local import LocalTasks
from shim.tasks.promote import is_promoted, supported
from shim.tasks.recording import record
from shim.tasks.room import Room
from shim.upstreams.base import Answered, Context, Upstream
from shim.wire.errors import ClientFault, missing_capability, too_many
from shim.wire.jsonrpc import Response


@dataclass(frozen=True, slots=True)
class Plan:
    """How a tools/call runs: as a task, plain, or (`wait`) as a task whose result the caller waits for."""

    as_task: bool
    wait: bool = False
    promoted: bool = False
    """True where the server has no task for it, and the shim runs the plain call as one (PROMOTE-1)."""


async def plan(room: Room, ctx: Context, upstream: Upstream, tool: str, *, declared: bool) -> Plan:
    """Decide by what the server offers, the tool supports, the client declared and the policy says.

    Raises missing_capability (ML-UNDECLARED) before the server has seen anything of the call.
    """
    support = await supported(upstream, ctx, tool)
    if support == "required":
        if declared:
            return Plan(as_task=True)
        if room.config.tasks.undeclared == "wait":
            return Plan(as_task=True, wait=True)
        raise missing_capability()
    if support == "optional":
        return Plan(as_task=declared and room.config.tasks.optional == "task")
    promoted = declared and is_promoted(room.config, tool)
    return Plan(as_task=promoted, promoted=promoted)


async def has_room(room: Room, ctx: Context) -> bool:
    """Tell whether a caller may have one more task open (`limits.open_tasks_per_caller`)."""
    there_are = await room.ledger.open_count_by_caller(ctx.caller.key) + room.creating[ctx.caller.key]
    return there_are < room.config.limits.open_tasks_per_caller


async def room_for_one_more(room: Room, ctx: Context) -> None:
    """Refuse a task of a caller that has as many open as it may. Raises ClientFault."""
    if not await has_room(room, ctx):
        raise no_room(ctx)


def no_room(ctx: Context) -> ClientFault:
    """Refuse a task, which must not be made or cannot do without."""
    limit = "limits.open_tasks_per_caller"
    ctx.trace.denied("limit", limit)
    return too_many(
        f"too many open tasks of this caller ({limit})", limit=limit, retry_after_s=1,
    )  # fmt: skip


async def create(
    room: Room,
    local: LocalTasks,
    ctx: Context,
    upstream: Upstream,
    params: Members,
    *,
    ttl_ms: int | None,
    session: SessionRow | None = None,
    handle: bool = False,
    promoted: bool = False,
) -> TaskRow | Response:
    """Ask upstream for a task and give its row, committed; or the answer, where upstream gave one at once.

    `handle`: one is given in any case, but for an error that comes first (LM-CREATE). `promoted`: the shim
    runs a plain call behind the handle (PROMOTE-1).

    A client that leaves meanwhile changes nothing: the task is kept and owned (ML-CLOSE). What asked its
    client something and is called off ends at the server too (ML-MRTR).
    """
    session_id = session.session_id if session is not None else None

    async def made() -> TaskRow | Response:
        await room_for_one_more(room, ctx)
        room.creating[ctx.caller.key] += 1
        try:
            if promoted:
                return await local.promote(ctx, upstream, params, ttl_ms=ttl_ms, handle=handle)
            if handle:
                return await local.create(ctx, upstream, params, ttl_ms=ttl_ms, session_id=session_id)
            return await _create(room, ctx, upstream, params, ttl_ms, session_id)
        finally:
            room.creating[ctx.caller.key] -= 1
            if not room.creating[ctx.caller.key]:
                del room.creating[ctx.caller.key]

    work = asyncio.create_task(made(), name="create")
    room.keep(work)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        ctx.notify = None
        if ctx.asking is not None and ctx.asking.called_off:
            work.cancel()
            await asyncio.wait([work])
        raise


async def _create(
    room: Room, ctx: Context, upstream: Upstream, params: Members, ttl_ms: int | None, session_id: str | None
) -> TaskRow | Response:
    made = await upstream.create(ctx, params, ttl_ms, session_id=session_id)
    if isinstance(made, Answered):
        return made.response
    row = await record(
        room, ctx, upstream, made.reading,
        session_id=made.session_id, driven=session_id is not None,
        tool=rawjson.string(params.get("name")), meta=made.meta,
    )  # fmt: skip
    await upstream.keep(row)
    return row
