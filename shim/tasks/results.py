"""The one open tasks/result of a task (ML-INPUT): payloads come on it, and on most servers questions do.

Two at once on one task can leave the first hanging, and a stale one swallows questions; so there is one
per task however many wait, its id is in the ledger before it is sent, and a stale one is called off first.
"""

import asyncio
import contextlib

from shim.ledger.records import TaskRow
from shim.tasks.room import Room
from shim.upstreams.base import Context, NotYet, SessionLost, TaskUnknown
from shim.upstreams.broken import Interrupted
from shim.wire.errors import ShimError
from shim.wire.jsonrpc import Response

_PAYLOAD_MS = 1_000
_SLOW_PAYLOAD_MS = 20_000
DRAIN_MS = 250
"""Time for what the server wrote to a stream before it heard that the stream is called off."""


class Results:
    """Opens tasks/result streams, shares them, and calls them off."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._open: dict[int, asyncio.Task[Response]] = {}
        self._closing = False

    def ensure(self, row: TaskRow) -> asyncio.Task[Response]:
        """Give the task's open tasks/result, opening it if there is none. Raises Interrupted."""
        if self._closing:
            raise _stopping()
        current = self._open.get(row.pk)
        if current is None or current.done():
            current = asyncio.create_task(self._read(row), name=f"tasks-result {row.pk}")
            self._open[row.pk] = current
            current.add_done_callback(lambda done: self._done(row.pk, done))
        return current

    async def payload(self, row: TaskRow) -> Response | None:
        """Fetch the payload of a task that upstream says has ended; None when it gives none yet.

        Raises ShimError, TaskUnknown, SessionLost.
        """
        for _ in range(2):
            # a stream that was open before the end can hang for ever (measured), or break off: once more;
            # one that was opened after it is only slow, and calling it off can cost its whole session
            patience_ms = _PAYLOAD_MS if row.pk in self._open else _SLOW_PAYLOAD_MS
            with contextlib.suppress(TimeoutError, Interrupted):
                try:
                    async with asyncio.timeout(patience_ms / 1000):
                        return await _read_by_all(self.ensure(row))
                except NotYet:
                    return None
            await self.drop(row.pk)
        return None

    async def drop(self, pk: int) -> None:
        """Call off the open tasks/result of a task, if there is one."""
        stream = self._open.pop(pk, None)
        if stream is not None:
            stream.cancel()
            await asyncio.gather(stream, return_exceptions=True)

    async def close(self) -> None:
        """Call off every open tasks/result, so that the server keeps later questions (DUR-2).

        The server hears of it while the stream is still read: what it asked just before is not lost.
        """
        self._closing = True
        await asyncio.gather(*(self._let_go(pk, stream) for pk, stream in list(self._open.items())))

    async def _let_go(self, pk: int, stream: asyncio.Task[Response]) -> None:
        row = await self._room.ledger.own_task(pk)
        if row.result_request_id is not None:
            await self._call_off(self._room.own_context(row), row, row.result_request_id)
            await asyncio.wait([stream], timeout=DRAIN_MS / 1000)
        await self.drop(pk)

    async def _read(self, row: TaskRow) -> Response:
        room = self._room
        upstream = room.upstream(row)
        ctx = room.own_context(row)
        await room.credential(ctx, row)
        stale = (await room.ledger.own_task(row.pk)).result_request_id
        if stale is not None:
            await upstream.abandon_result(ctx, row, stale)
        request_id = upstream.next_id()
        await room.ledger.set_result_request(row.pk, request_id)
        try:
            response = self._checked(await upstream.result(ctx, row, request_id))
        except (asyncio.CancelledError, ShimError):
            await self._call_off(ctx, row, request_id)
            raise
        except (NotYet, TaskUnknown, SessionLost):
            await room.ledger.set_result_request(row.pk, None)
            raise
        await room.ledger.set_result_request(row.pk, None)
        return response

    def _checked(self, response: Response) -> Response:
        """Refuse an error that says only that the stream was called off: it is not the task's."""
        if self._closing and response.error is not None:
            raise _stopping()
        return response

    async def _call_off(self, ctx: Context, row: TaskRow, request_id: bytes) -> None:
        """Say that nobody reads the stream any more; the id stays in the ledger if that fails."""
        if self._room.waits(ctx, row):
            return
        if (await self._room.ledger.own_task(row.pk)).result_request_id != request_id:
            return  # that was said already
        with contextlib.suppress(ShimError, SessionLost):
            await self._room.upstream(row).abandon_result(ctx, row, request_id)
            await self._room.ledger.set_result_request(row.pk, None)

    def _done(self, pk: int, stream: asyncio.Task[Response]) -> None:
        if self._open.get(pk) is stream:
            del self._open[pk]
        if not stream.cancelled():
            stream.exception()  # those who wait for it were told; nobody else needs to be
        self._room.changes.publish(pk)


async def _read_by_all(stream: asyncio.Task[Response]) -> Response:
    """Wait for what others wait for too. Raises Interrupted where one of them called it off (HUB-2)."""
    try:
        return await asyncio.shield(stream)
    except asyncio.CancelledError:
        waiting = asyncio.current_task()
        if not stream.cancelled() or waiting is None or waiting.cancelling():
            raise
        raise Interrupted("the task ended another way while its result was waited for") from None


def _stopping() -> Interrupted:
    return Interrupted("the shim is stopping", 503)
