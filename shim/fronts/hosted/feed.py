"""The GET stream of a session that the shim serves itself (LM-STREAM, LM-INPUT).

It carries what concerns the session's tasks, changes of state and questions, and what the server announces.
"""

import asyncio
import contextlib
from dataclasses import dataclass

from aiohttp import web

from shim.config import Config
from shim.fronts.hosted.asking import Asking
from shim.fronts.hosted.listening import Listening
from shim.fronts.hosted.streams import EventIds, Open, Streams
from shim.fronts.reply import Reply
from shim.hub.codec import write_task
from shim.hub.dialect import Dialect
from shim.hub.rawjson import members
from shim.hub.status import TERMINAL
from shim.ledger.records import AskRow, SessionRow, TaskRow
from shim.tasks.service import Tasks
from shim.tasks.view import task_of, with_tool_error
from shim.upstreams.base import Context
from shim.wire.jsonrpc import write_notification


@dataclass(slots=True)
class _Shown:
    """What the stream has said of a task."""

    row: TaskRow
    watch: contextlib.ExitStack
    sent: dict[str, AskRow]


class Feed:
    """Serves GET streams."""

    def __init__(
        self, config: Config, tasks: Tasks, asking: Asking, listening: Listening, events: EventIds,
        streams: Streams,
    ) -> None:  # fmt: skip
        self._keepalive_s = config.legacy.keepalive_ms / 1000
        self._tool_error_status = config.legacy.tool_error_status
        self._tasks_at_most = config.limits.open_tasks_per_caller
        self._tasks = tasks
        self._asking = asking
        self._listening = listening
        self._events = events
        self._streams = streams

    async def serve(
        self, ctx: Context, reply: Reply, session: SessionRow, dialect: Dialect, last_event_id: str | None
    ) -> web.StreamResponse:
        """Send until the client leaves or the session is closed. Raises ClientFault for a second stream."""
        with self._streams.opening(session.session_id) as stream:
            await reply.open_stream()
            had = await self._asking.back(session.session_id, last_event_id)
            shown: dict[int, _Shown] = {}
            listening = self._tasks.room.start(
                self._listening.run(ctx, session.session_id, stream), "listen for a session"
            )
            try:
                while not await self._closed(session):
                    await self._follow(ctx, session, stream, shown, had)
                    for pk in list(shown):
                        if (await self._look(shown[pk], session, dialect, reply)).status in TERMINAL:
                            shown.pop(pk).watch.close()
                    while stream.news:
                        await reply.event(stream.news.popleft(), self._events.next())
                    await self._rest(stream, reply)
            finally:
                listening.cancel()
                for one in shown.values():
                    one.watch.close()
        return await reply.end_stream()

    async def _closed(self, session: SessionRow) -> bool:
        row = await self._tasks.room.ledger.session(session.session_id)
        return row is None or row.closed

    async def _follow(
        self, ctx: Context, session: SessionRow, stream: Open, shown: dict[int, _Shown],
        had: dict[int, dict[str, AskRow]],
    ) -> None:  # fmt: skip
        """Watch the session's open tasks, and those it asked for whose own session is not there."""
        ledger = self._tasks.room.ledger
        rows = await ledger.open_tasks_of(
            ctx.caller.key, client_session=session.session_id, limit=self._tasks_at_most
        )
        for pk in [pk for pk in stream.touched if pk not in shown]:
            row = await ledger.own_task(pk)
            if row.status in TERMINAL:
                stream.touched.pop(pk, None)
            elif not self._streams.is_open(row.client_session):
                rows.append(row)
        for row in rows:
            if row.pk not in shown:
                one = shown[row.pk] = _Shown(row, contextlib.ExitStack(), had.pop(row.pk, {}))
                one.watch.enter_context(self._tasks.watchers.watching(row, stream.wake))

    async def _look(self, one: _Shown, session: SessionRow, dialect: Dialect, reply: Reply) -> TaskRow:
        """Say what is new of a task: its questions before its state, as servers do."""
        row = await self._tasks.room.ledger.own_task(one.row.pk)
        await self._asking.task(row, session, reply.event, one.sent, related=dialect.related_task)
        changed = (row.status, row.status_message) != (one.row.status, one.row.status_message)
        if changed and dialect.carries.announces and dialect.methods.status_notification:
            asked = () if row.status in TERMINAL else await self._tasks.room.ledger.inputs(row.pk)
            task = write_task(dialect, with_tool_error(task_of(row, asked), self._tool_error_status))
            note = write_notification(dialect.methods.status_notification, members(task))
            await reply.event(note, self._events.next())
        one.row = row
        return row

    async def _rest(self, stream: Open, reply: Reply) -> None:
        """Wait for news; a comment keeps a quiet stream alive."""
        try:
            async with asyncio.timeout(self._keepalive_s):
                await stream.wake.wait()
        except TimeoutError:
            await reply.comment()
        stream.wake.clear()
