"""Making a task: decide whether the call is one, ask upstream, write it down, then answer (ML-CREATE)."""

import asyncio
from dataclasses import dataclass

from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.ledger.records import SessionRow, TaskRow
from shim.tasks.local import LocalTasks
from shim.tasks.recording import record
from shim.tasks.room import Room
from shim.upstreams.base import Answered, Context, Upstream
from shim.wire.errors import missing_capability, too_many
from shim.wire.jsonrpc import Response


@dataclass(frozen=True, slots=True)
class Plan:
    """How a tools/call runs: as a task, plain, or (`wait`) as a task whose result the caller waits for."""

    as_task: bool
    wait: bool = False


async def plan(room: Room, ctx: Context, upstream: Upstream, tool: str, *, declared: bool) -> Plan:
    """Decide by what the server offers, the tool supports, the client declared and the policy says.

    Raises missing_capability (ML-UNDECLARED) before the server has seen anything of the call.
    """
    if not (await upstream.facts(ctx)).has_tasks:
        return Plan(as_task=False)
    support = await upstream.tool_support(ctx, tool)
    if support == "required":
        if declared:
            return Plan(as_task=True)
        if room.config.tasks.undeclared == "wait":
            return Plan(as_task=True, wait=True)
        raise missing_capability()
    return Plan(as_task=support == "optional" and declared and room.config.tasks.optional == "task")


async def room_for_one_more(room: Room, ctx: Context) -> None:
    """Refuse a task of a caller that has `limits.open_tasks_per_caller` open. Raises ClientFault."""
    if await room.ledger.open_count_by_caller(ctx.caller.key) >= room.config.limits.open_tasks_per_caller:
        ctx.trace.denied("limit")
        raise too_many("too many open tasks of this caller (limits.open_tasks_per_caller)", retry_after_s=1)


async def create(
    room: Room,
    ctx: Context,
    upstream: Upstream,
    params: Members,
    *,
    ttl_ms: int | None,
    session: SessionRow | None = None,
    local: LocalTasks | None = None,
) -> TaskRow | Response:
    """Ask upstream for a task and give its row, committed; or the answer, where upstream gave one at once.

    With `local` a handle is given in any case, but for an error that comes first (LM-CREATE).

    A client that leaves meanwhile changes nothing: the task is kept and owned (ML-CLOSE). What asked its
    client something and is called off ends at the server too (ML-MRTR).
    """
    work = asyncio.create_task(_create(room, ctx, upstream, params, ttl_ms, session, local), name="create")
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
    room: Room,
    ctx: Context,
    upstream: Upstream,
    params: Members,
    ttl_ms: int | None,
    session: SessionRow | None,
    local: LocalTasks | None,
) -> TaskRow | Response:
    await room_for_one_more(room, ctx)
    session_id = session.session_id if session is not None else None
    if local is not None:
        return await local.create(ctx, upstream, params, ttl_ms=ttl_ms, session_id=session_id)
    made = await upstream.create(ctx, params, ttl_ms, session_id=session_id)
    if isinstance(made, Answered):
        return made.response
    row = await record(
        room, ctx, upstream, made.reading,
        session_id=made.session_id, driven=session is not None,
        tool=rawjson.string(params.get("name")), meta=made.meta,
    )  # fmt: skip
    await upstream.keep(row)
    return row
