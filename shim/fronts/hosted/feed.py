"""The GET stream of a session that the shim serves itself (LM-STREAM, LM-INPUT, LM-RESUME).

It carries what concerns the session's tasks, changes of state and questions, and what the server announces.
When its client leaves it goes on for a while without one, and what it then says is kept for who comes back
with the id of its last event. Questions are not kept: they are sent again, on whichever stream is there.
"""

import asyncio
from dataclasses import dataclass

from aiohttp import web

from shim.config import Config
from shim.fronts.hosted.asking import Asking
from shim.fronts.hosted.listening import Listening
from shim.fronts.hosted.replay import Kept, Replays
from shim.fronts.hosted.streams import Open
from shim.fronts.hosted.task_news import Had, TaskNews
from shim.fronts.open_streams import Held, OpenStreams
from shim.fronts.reply import Reply, SlowReader
from shim.hub.dialect import Dialect
from shim.hub.status import TERMINAL
from shim.ledger.records import SessionRow
from shim.tasks.service import Tasks
from shim.upstreams.base import Context
from shim.wire.era import knows_tasks


@dataclass(slots=True)
class _Channel:
    """A session's stream, whether its client is there or not."""

    session: SessionRow
    stream: Open
    kept: Kept
    listening: asyncio.Task[None]
    news: TaskNews
    away: asyncio.Task[None] | None = None
    """Goes on while its client is away."""


class Feed:
    """Serves GET streams."""

    def __init__(
        self, config: Config, tasks: Tasks, asking: Asking, listening: Listening, replays: Replays,
        open_streams: OpenStreams,
    ) -> None:  # fmt: skip
        self._keepalive_s = config.legacy.keepalive_ms / 1000
        self._config = config
        self._tasks = tasks
        self._asking = asking
        self._listening = listening
        self._streams = asking.streams
        self._replays = replays
        self._open_streams = open_streams
        self._channels: dict[str, _Channel] = {}

    async def serve(
        self, ctx: Context, reply: Reply, session: SessionRow, dialect: Dialect, last_event_id: str | None
    ) -> web.StreamResponse:
        """Send until the client leaves, its credential expires, the session is closed or the shim stops.

        A client that names an event of a call's stream gets the rest of that instead. Raises ShimError.
        """
        call = self._replays.find(session.session_id, last_event_id)
        if call is not None and last_event_id is not None:
            ctx.trace.rule("LM-RESUME")
            return await self._replays.serve(call, reply, last_event_id)
        with (
            self._streams.opening(session.session_id) as stream,
            self._open_streams.ending(ctx.caller, stream.wake) as held,
        ):
            await reply.open_stream()
            channel, missed = await self._channel(ctx, session, dialect, stream, last_event_id)
            try:
                carried = {event_id for _, event_id, _ in channel.kept.events} or None
                had = await self._asking.back(session.session_id, last_event_id, carried)
                await self._follow_ended(channel, had)
                for event_id, message in missed:
                    ctx.trace.rule("LM-RESUME")
                    await reply.event(message, event_id)
                if not channel.kept.events and knows_tasks(session.version):
                    await self._prime(channel, reply)
                await self._run(channel, reply, had, held)
            except BaseException:
                # what was not kept for it cannot be told to a client that comes back
                (self._leave if stream.overflown is None else self._end)(channel)
                raise
            (self._leave if held.expired else self._end)(channel)
        return await reply.end_stream()

    # -- a stream and its client -----------------------------------------------------------------

    async def _channel(
        self, ctx: Context, session: SessionRow, dialect: Dialect, stream: Open, last_event_id: str | None
    ) -> tuple[_Channel, list[tuple[str, bytes]]]:
        """Give the stream that a client comes back to, and what it has missed; else a new one."""
        channel = self._channels.get(session.session_id)
        if channel is not None and channel.away is not None:
            channel.away.cancel()
            try:
                await asyncio.wait([channel.away])
            except asyncio.CancelledError:  # this client has left already: the stream goes on as before
                self._leave(channel)
                raise
            channel = self._channels.get(session.session_id)  # it may have ended in that moment
        if channel is not None:
            missed = self._replays.after(channel.kept, last_event_id)
            if missed is not None:
                return channel, missed
            self._end(channel)
            stream.forget_news()  # a client that does not say where it was begins anew
        stream.stays = True
        listening = self._listening.run(ctx, session.session_id, stream)
        channel = self._channels[session.session_id] = _Channel(
            session, stream, self._replays.own(session.session_id),
            self._tasks.room.start(listening, "listen for a session"),
            TaskNews(self._config, self._tasks, self._asking, session, dialect, stream),
        )  # fmt: skip
        return channel, []

    async def _prime(self, channel: _Channel, reply: Reply) -> None:
        """Give the client an id to come back with, before there is anything to say."""
        event_id = self._streams.ids.next()
        self._replays.add(channel.kept, event_id, None)
        await reply.prime(event_id)

    def _leave(self, channel: _Channel) -> None:
        """Let a stream go on without its client, if that has an id to come back with."""
        if channel.kept.events and not self._open_streams.stopping:
            channel.away = self._tasks.room.start(self._go_on(channel), "a stream without its client")
        else:
            self._end(channel)

    async def _go_on(self, channel: _Channel) -> None:
        """Keep what the stream says while its client is away, for `legacy.replay_ms`."""
        running = asyncio.ensure_future(self._run(channel, None, {}))
        nap = asyncio.ensure_future(self._tasks.room.clock.sleep_ms(self._config.legacy.replay_ms))
        try:
            await asyncio.wait((running, nap), return_when=asyncio.FIRST_COMPLETED)
        finally:
            nap.cancel()
            running.cancel()
            await asyncio.wait((running,))
        self._end(channel)
        if not running.cancelled():
            running.result()  # a failure of it is logged with this work

    def _end(self, channel: _Channel) -> None:
        channel.listening.cancel()
        channel.news.close()
        self._replays.drop(channel.kept)
        session_id = channel.session.session_id
        if self._channels.get(session_id) is channel:
            del self._channels[session_id]
            self._streams.forget(session_id)

    # -- what it says ----------------------------------------------------------------------------

    async def _run(self, channel: _Channel, reply: Reply | None, had: Had, held: Held | None = None) -> None:
        """Say what is new; without a client it is kept only, and nothing is asked."""
        stream = channel.stream

        async def ask(message: bytes, event_id: str) -> None:
            self._replays.add(channel.kept, event_id, None)
            if reply is not None:
                await reply.event(message, event_id)

        async def say(message: bytes) -> None:
            event_id = self._streams.ids.next()
            self._replays.add(channel.kept, event_id, message)
            if reply is not None:
                await reply.event(message, event_id)

        while not self._open_streams.stopping and not await self._closed(channel.session):
            if held is not None and held.expired:
                return
            await self._follow(channel)
            await channel.news.tell(say, ask if reply is not None else None, had)
            while stream.news:
                await say(stream.next_news())
            if stream.overflown is not None:
                self._tasks.room.sink.reached[stream.overflown] += 1
                if reply is None:
                    return
                raise SlowReader("more is announced than the client reads")
            await self._rest(stream, reply)

    async def _closed(self, session: SessionRow) -> bool:
        row = await self._tasks.room.ledger.session(session.session_id)
        return row is None or row.closed

    async def _follow(self, channel: _Channel) -> None:
        """Watch the session's open tasks, and those it asked for whose own session is not there."""
        ledger, stream, news = self._tasks.room.ledger, channel.stream, channel.news
        for row in await news.open_tasks():
            news.follow(row)
        for pk in [pk for pk in stream.touched if pk not in news.shown]:
            row = await ledger.own_task(pk)
            if row.status in TERMINAL:
                stream.touched.pop(pk, None)
            elif not self._streams.is_open(row.client_session):
                news.follow(row)

    async def _follow_ended(self, channel: _Channel, had: Had) -> None:
        """Look once more at tasks that ended while the client was away with their questions open."""
        for pk in had:
            row = await self._tasks.room.ledger.own_task(pk)
            if row.status in TERMINAL:
                channel.news.follow(row)

    async def _rest(self, stream: Open, reply: Reply | None) -> None:
        """Wait for news; a comment keeps a quiet stream alive."""
        try:
            async with asyncio.timeout(self._keepalive_s if reply is not None else None):
                await stream.wake.wait()
        except TimeoutError:
            if reply is not None:
                await reply.comment()
        stream.wake.clear()
