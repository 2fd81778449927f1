"""Streams that can be taken up again: what a client missed is kept for a while (LM-RESUME).

A call whose stream has carried an event id goes on when its client's connection breaks; a GET with
`Last-Event-ID` gets the rest of it. What a session's own stream said is kept here too. Everything is bounded,
by count, bytes and time.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from aiohttp import web

from shim.config import Config
from shim.fronts.hosted.streams import EventIds
from shim.fronts.reply import Reply
from shim.tasks.room import Room
from shim.wire.budget import KEY as BUFFERS
from shim.wire.budget import Holding

Call = asyncio.Task[web.StreamResponse]


@dataclass(slots=True, eq=False)
class Kept:
    """What one stream has carried."""

    session_id: str
    reply: Reply | None
    """Where a call's goes at first; None for the session's own."""
    events: deque[tuple[int, str, bytes | None]] = field(default_factory=deque)
    """Place in the stream, id, message; None in place of one that is not sent again from here."""
    count: int = 0
    ended: bool = False
    left_ms: int | None = None
    """When the last reader was gone; None while there is one."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)


class Replays:
    """Keeps the streams of calls and sessions."""

    def __init__(self, config: Config, room: Room, ids: EventIds) -> None:
        self._config = config
        self._room = room
        self._ids = ids
        self._kept: OrderedDict[int, Kept] = OrderedDict()
        self._held = Holding(room.budget)
        self._bytes = 0

    def open(self, session_id: str, reply: Reply) -> Kept:
        """Keep what a reply's stream will carry."""
        kept = Kept(session_id, reply)

        def carried(message: bytes, event_id: str | None) -> str:
            event_id = event_id or self._ids.next()
            self.add(kept, event_id, message)
            return event_id

        reply.keep(carried)
        return kept

    def own(self, session_id: str) -> Kept:
        """Keep what a session's own stream will carry, until it is dropped."""
        return Kept(session_id, None)

    def after(self, kept: Kept, last_event_id: str | None) -> list[tuple[str, bytes]] | None:
        """Give what a stream has carried since an event, by id; None where that is not kept any more."""
        at = next((place for place, one, _ in kept.events if one == last_event_id), None)
        if at is None:
            return None
        return [(one, said) for place, one, said in kept.events if place > at and said is not None]

    def find(self, session_id: str, last_event_id: str | None) -> Kept | None:
        """Give the call's stream in a session that carried an event, if it is still kept."""
        for kept in self._kept.values() if last_event_id else ():
            if kept.reply is None:
                continue
            if kept.session_id == session_id and any(one == last_event_id for _, one, _ in kept.events):
                return kept
        return None

    async def serve(self, kept: Kept, reply: Reply, last_event_id: str) -> web.StreamResponse:
        """Send the rest of a stream after an event. Whoever read it before reads no more."""
        if kept.reply is not None:
            kept.reply.let_go()
        kept.reply, kept.left_ms = reply, None
        at = next(place for place, one, _ in kept.events if one == last_event_id)
        keepalive_s = self._config.legacy.keepalive_ms / 1000
        await reply.open_stream()
        try:
            while True:
                for place, event_id, message in [one for one in kept.events if one[0] > at]:
                    at = place
                    if message is not None:
                        await reply.event(message, event_id)
                if kept.ended and (not kept.events or kept.events[-1][0] <= at):
                    return await reply.end_stream()
                kept.wake.clear()
                try:
                    async with asyncio.timeout(keepalive_s):
                        await kept.wake.wait()
                except TimeoutError:
                    await reply.comment()
        finally:
            if kept.reply is reply:
                self.left(kept)

    def left(self, kept: Kept) -> None:
        """Note that nobody reads a stream for now."""
        kept.left_ms = self._room.clock.now_ms()

    def end(self, kept: Kept) -> None:
        """Note that a stream has carried its answer; it is dropped in a while."""
        kept.ended = True
        kept.wake.set()
        if kept.events:
            self._room.start(self._forget(kept), "forget a stream")

    def lingering(self, kept: Kept, call: Call, done: Callable[[], bytes | None]) -> None:
        """Let a call go on that nobody reads, and end it if nobody comes back for it.

        `done` is told that it is over, and gives the error that it failed with, as its answer.
        """
        self.left(kept)
        self._room.keep(call)
        self._room.start(self._linger(kept, call, done), "a call without its client")

    async def _linger(self, kept: Kept, call: Call, done: Callable[[], bytes | None]) -> None:
        window_ms = self._config.legacy.replay_ms
        while not call.done():
            nap = asyncio.ensure_future(self._room.clock.sleep_ms(window_ms))
            try:
                await asyncio.wait((call, nap), return_when=asyncio.FIRST_COMPLETED)
            finally:
                nap.cancel()
            if kept.left_ms is not None and self._room.clock.now_ms() - kept.left_ms >= window_ms:
                call.cancel()
                await asyncio.wait((call,))
        if (failed := done()) is not None:
            self.add(kept, self._ids.next(), failed)
        self.end(kept)

    async def _forget(self, kept: Kept) -> None:
        await self._room.clock.sleep_ms(self._config.legacy.replay_ms)
        self.drop(kept)

    def add(self, kept: Kept, event_id: str, message: bytes | None) -> None:
        """Keep an event of a stream; of too many the oldest go, and at the limit the oldest stream."""
        kept.count += 1
        kept.events.append((kept.count, event_id, message))
        self._kept.setdefault(id(kept), kept)
        self._bytes += len(message or b"")
        if len(kept.events) > self._config.limits.replay_events:
            self._room.sink.reached["limits.replay_events"] += 1
            self._bytes -= len(kept.events.popleft()[2] or b"")
        self._held.set(self._bytes)
        while self._kept and (key := self._beyond()) is not None:
            self._room.sink.reached[key] += 1
            self.drop(next(iter(self._kept.values())))
        kept.wake.set()

    def _beyond(self) -> str | None:
        """Name the bound that what is kept is beyond."""
        if self._bytes > self._config.limits.replay_bytes:
            return "limits.replay_bytes"
        return None if self._room.budget.fits(0) else BUFFERS

    def drop(self, kept: Kept) -> None:
        """Forget what a stream has carried."""
        if self._kept.pop(id(kept), None) is not None:
            self._bytes -= sum(len(message or b"") for _, _, message in kept.events)
            self._held.set(self._bytes)
            kept.events.clear()
