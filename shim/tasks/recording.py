"""Writing a new task down, under an id that its owner may know (DUR-1, OWN-ID-MAP)."""

import secrets
import uuid
from datetime import UTC, datetime

from msgspec.structs import replace

from shim.hub.codec import Reading
from shim.hub.status import TERMINAL, Status
from shim.ledger.protocol import IdCollision
from shim.ledger.records import NewTask, TaskRow
from shim.tasks.room import Room
from shim.upstreams.base import Context, Upstream

_ID_BYTES = 16
_HEX_128 = 32


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
    local: bool = False,
) -> TaskRow:
    """Commit a task that upstream has just made; the row is on disk when this returns (DUR-1)."""
    task, now_ms = reading.task, room.clock.now_ms()
    for one in reading.lenient:
        ctx.trace.lenient(one.rule, one.detail)
    shown_id = task.task_id if ctx.caller.kind != "none" or is_unguessable(task.task_id) else _minted()
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
        local=local,
    )  # fmt: skip
    try:
        row = await room.ledger.create_task(new)
    except IdCollision:
        # the id is taken (OWN-ID-MAP): the caller gets a minted one that maps to it
        row = await room.ledger.create_task(_renamed(new))
    room.changes.made(row.caller, row.pk)
    ctx.trace.task_id = row.task_id
    ctx.trace.event("task.created", task_id=row.task_id, via=ctx.trace.corner, to=row.status, local=local)
    return row


def iso(at_ms: int) -> str:
    """Give a time as ISO 8601 in UTC (HUB-6)."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _renamed(new: NewTask) -> NewTask:
    return replace(new, task_id=_minted())


def _minted() -> str:
    return f"ts-{secrets.token_hex(_ID_BYTES)}"


def is_unguessable(task_id: str) -> bool:
    """Tell whether an id has at least 128 random bits by its form: a UUID, or long enough to hold them."""
    try:
        return uuid.UUID(task_id).version == 4  # noqa: PLR2004 - the random one
    except ValueError:
        return len(set(task_id)) > 8 and len(task_id) >= _HEX_128  # noqa: PLR2004
