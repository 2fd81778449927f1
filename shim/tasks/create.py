"""Making a task: decide whether the call is one, ask upstream, write it down, then answer (ML-CREATE)."""

import asyncio
import secrets
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime

from msgspec.structs import replace

from shim.hub import rawjson
from shim.hub.codec import Reading
from shim.hub.rawjson import Members
from shim.hub.status import TERMINAL, Status
from shim.ledger.protocol import IdCollision
from shim.ledger.records import NewTask, SessionRow, TaskRow
from shim.tasks.room import Room
from shim.upstreams.base import Answered, Context, Upstream
from shim.wire.errors import missing_capability, too_many
from shim.wire.jsonrpc import Response

_ID_BYTES = 16
_HEX_128 = 32


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


async def create(
    room: Room,
    ctx: Context,
    upstream: Upstream,
    params: Members,
    *,
    ttl_ms: int | None,
    session: SessionRow | None = None,
) -> TaskRow | Response:
    """Ask upstream for a task and give its row, committed; or the answer, where upstream gave one at once.

    A client that leaves meanwhile changes nothing: the task is kept and owned (ML-CLOSE).
    """
    work = asyncio.create_task(_create(room, ctx, upstream, params, ttl_ms, session), name="create")
    room.keep(work)
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        ctx.notify = None
        raise


async def _create(
    room: Room,
    ctx: Context,
    upstream: Upstream,
    params: Members,
    ttl_ms: int | None,
    session: SessionRow | None,
) -> TaskRow | Response:
    if await room.ledger.open_count_by_caller(ctx.caller.key) >= room.config.limits.open_tasks_per_caller:
        ctx.trace.denied("limit")
        raise too_many("too many open tasks of this caller (limits.open_tasks_per_caller)", retry_after_s=1)
    session_id = session.session_id if session is not None else None
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


async def record(
    room: Room,
    ctx: Context,
    upstream: Upstream,
    reading: Reading,
    *,
    session_id: str | None,
    driven: bool,
    tool: str | None,
    meta: bytes | None = None,
) -> TaskRow:
    """Commit a task that upstream has just made; the row is on disk when this returns (DUR-1)."""
    task, now_ms = reading.task, room.clock.now_ms()
    for one in reading.lenient:
        ctx.trace.lenient(one.rule, one.detail)
    shown_id = task.task_id if ctx.caller.kind != "none" or _unguessable(task.task_id) else _minted()
    status = Status.WORKING if task.status in TERMINAL else task.status
    # an end is written when its payload is here; a question when it was captured
    status = Status.WORKING if status is Status.INPUT_REQUIRED else status
    new = NewTask(
        task_id=shown_id, upstream=upstream.name,
        upstream_task_id=task.task_id, dialect=upstream.dialect.name,
        session_id=session_id, driven=driven, caller=ctx.caller.key, caller_kind=ctx.caller.kind,
        client_session=ctx.client_session, client_dialect=ctx.client_dialect, tool=tool, kinds=ctx.kinds,
        status=status, status_message=task.status_message, created_at=task.created_at or iso(now_ms),
        last_updated_at=task.last_updated_at or task.created_at or iso(now_ms),
        ttl_ms=task.ttl_ms, poll_interval_ms=task.poll_interval_ms, meta=meta, first_seen_ms=now_ms,
    )  # fmt: skip
    try:
        row = await room.ledger.create_task(new)
    except IdCollision:
        # the id is taken (OWN-ID-MAP): the caller gets a minted one that maps to it
        row = await room.ledger.create_task(_renamed(new))
    ctx.trace.task_id = row.task_id
    ctx.trace.event("task.created", task_id=row.task_id, via=ctx.trace.corner, to=row.status)
    return row


def iso(at_ms: int) -> str:
    """Give a time as ISO 8601 in UTC (HUB-6)."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _renamed(new: NewTask) -> NewTask:
    return replace(new, task_id=_minted())


def _minted() -> str:
    return f"ts-{secrets.token_hex(_ID_BYTES)}"


def _unguessable(task_id: str) -> bool:
    """Tell whether an id has at least 128 random bits by its form: a UUID, or long enough to hold them."""
    try:
        return uuid.UUID(task_id).version == 4  # noqa: PLR2004 - the random one
    except ValueError:
        return len(set(task_id)) > 8 and len(task_id) >= _HEX_128  # noqa: PLR2004
