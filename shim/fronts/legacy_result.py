"""A blocking `tasks/result` served from the hub (LL-ROUTE, CS-RESULT)."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from shim.config import Config
from shim.fronts.reply import Reply
from shim.hub.dialect import Dialect
from shim.hub.status import TERMINAL
from shim.ledger.records import TaskRow
from shim.tasks.service import Tasks
from shim.tasks.terminal import CANCELLED
from shim.upstreams.base import Context
from shim.wire.envelope import legacy_error, with_related_task
from shim.wire.errors import stopping
from shim.wire.hosting import legacy_result
from shim.wire.jsonrpc import write_error, write_result

Ask = Callable[[TaskRow], Awaitable[None]]
"""Sends what a task asks to the client that waits for it."""


async def wait_for_result(
    config: Config, tasks: Tasks, ctx: Context, row: TaskRow, reply: Reply, message_id: bytes,
    *, dialect: Dialect, ask: Ask | None,
) -> web.StreamResponse:  # fmt: skip
    """Answer once the task has ended; headers go at once, a comment keeps the stream alive.

    `ask` sends the task's questions on this stream, under the upstream's own ids; given where the asking
    session is the one the task lives in, so that its client can answer. A waiter that leaves ends nothing.
    When the shim stops, the stream ends without an answer: an error would be taken for the task's own.
    Raises UpstreamFault for a wait that would begin then.
    """
    if row.status not in TERMINAL or row.lacks_payload:
        if tasks.hand_back.stopping.is_set():
            raise stopping()
        await reply.open_stream()
        ended = await _wait(config, tasks, ctx, row, reply, ask=ask)
        if ended is None:
            return await reply.end_stream()
        row = ended
    if row.result is not None:
        result, dropped = legacy_result(row.result)
        if dropped is not None:
            ctx.trace.loss("LM-LOCAL", dropped)
        if dialect.related_task:
            result = with_related_task(result, row.task_id)
        return await reply.send(write_result(message_id, result))
    return await reply.send(write_error(message_id, *legacy_error(row.error or CANCELLED)))


async def _wait(
    config: Config, tasks: Tasks, ctx: Context, row: TaskRow, reply: Reply, *, ask: Ask | None
) -> TaskRow | None:
    """Give the task once it has ended; None when the shim stops before."""
    end = asyncio.ensure_future(tasks.ended(ctx, row))
    stop = asyncio.ensure_future(tasks.hand_back.stopping.wait())
    keepalive_s = config.legacy.keepalive_ms / 1000
    try:
        with tasks.room.changes.watching(row.pk) as changed:
            while True:
                if ask is not None:
                    await ask(row)
                news = asyncio.ensure_future(changed.wait())
                try:
                    done, _ = await asyncio.wait(
                        (end, news, stop), timeout=keepalive_s, return_when=asyncio.FIRST_COMPLETED
                    )
                finally:
                    news.cancel()  # a client that leaves ends the waiting from outside
                changed.clear()
                if end in done:
                    row = end.result()
                    if ask is not None:
                        await ask(row)  # calls off what was asked and not answered (INPUT-END)
                    return row
                if stop in done:
                    return None
                if not done:
                    await reply.comment()
    finally:
        end.cancel()
        stop.cancel()
