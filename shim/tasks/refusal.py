"""A question that its client refuses, which the new API has no form for: it is the task's end (LM-INPUT)."""

import contextlib

from shim.hub import rawjson
from shim.hub.codec import CodecError
from shim.hub.status import Status
from shim.ledger.records import TaskRow
from shim.tasks.observe import Observer
from shim.tasks.room import Room
from shim.tasks.terminal import End
from shim.upstreams.base import Context, SessionLost, TaskUnknown
from shim.wire.errors import ShimError, UpstreamFault

_SHOWN_CHARS = 200


def refused(kind: str, error: bytes | None) -> UpstreamFault:
    """Say that a client refused a question, in its own words, with its error as data."""
    said = rawjson.string(rawjson.object_or_empty(error).get("message"))
    why = f": {said[:_SHOWN_CHARS]}" if said else ""
    message = f"the client refused {kind}, which cannot be told to the server{why}"
    recorded = "the client refused a question, which cannot be told to the server"
    return UpstreamFault(message, data=error, recorded=recorded)


async def end_refused(
    room: Room, observer: Observer, ctx: Context, row: TaskRow, kind: str, error: bytes | None
) -> None:
    """End a task whose question was refused, on disk first, then at the server, which would ask for ever."""
    fault = refused(kind, error)
    row = await observer.end(row, End(Status.FAILED, error=fault.error_object()), ctx=ctx)
    if not row.local:  # the call of a local one was left with its end
        with contextlib.suppress(ShimError, TaskUnknown, SessionLost, CodecError):
            await room.upstream(row).cancel(ctx, row)
