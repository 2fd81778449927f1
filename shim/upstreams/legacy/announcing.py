"""Changes that a legacy server announces, for whoever listens for them (ML-LISTEN).

One session listens for all of a caller's subscriptions that may share it: its GET stream is held open, and
each resource is subscribed to once. What is announced on another session of the caller is heard as well: to
the server they are one client. When the session is lost, another takes its place.
"""

import asyncio
import contextlib
from collections.abc import Collection, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any

from shim.clock import retry_ms
from shim.hub import rawjson
from shim.upstreams.base import Context, Notify, SessionLost
from shim.upstreams.legacy.exchange import Gone
from shim.upstreams.legacy.session import LegacySession, Parts
from shim.upstreams.legacy.sessions import Sessions
from shim.wire.errors import ShimError
from shim.wire.jsonrpc import Notification
from shim.wire.subscriptions import (
    ACKNOWLEDGED,
    FILTER,
    LIST_OF,
    LISTS,
    RESOURCE_UPDATED,
    Wanted,
    offered,
    write_filter,
)

_ATTEMPTS = 3
_RETRY_MS = (0, 1_000, 5_000, 30_000)
_QUICK_MS = 1_000
"""A stream that lasted no longer is not opened again at once."""
_FAULTS = (ShimError, SessionLost, Gone)


@dataclass(eq=False, slots=True)
class _Listener:
    """One subscription: what it was promised, and who hears it."""

    heard: Notify
    lists: frozenset[str] = frozenset()
    uris: frozenset[str] = frozenset()

    def wants(self, message: Notification) -> bool:
        if message.method != RESOURCE_UPDATED:
            return LIST_OF.get(message.method) in self.lists
        uri = rawjson.string(message.params.get("uri")) or ""
        # what is updated may be a part of what was subscribed to
        return uri in self.uris or any(uri.startswith(f"{one.rstrip('/')}/") for one in self.uris)


@dataclass(eq=False, slots=True)
class _Shared:
    """The session that listens for the subscriptions of one caller with the same question kinds."""

    ctx: Context
    """The caller's, without a credential: it outlives the request that it came from."""
    listeners: set[_Listener] = field(default_factory=set)
    subscribed: set[str] = field(default_factory=set)
    """The resources that the server was asked for on the session."""
    session: LegacySession | None = None
    missed: bool = False
    """True while it is not said yet that something may have been missed."""
    lease: contextlib.AsyncExitStack = field(default_factory=contextlib.AsyncExitStack)
    keeper: asyncio.Task[None] | None = None
    over: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the server stopped having streams."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def alone(self) -> bool:
        return self.ctx.caller.kind == "none"

    def hears(self, session: LegacySession) -> bool:
        return session is self.session or not self.alone


class Announcements:
    """Holds the subscriptions with one server."""

    def __init__(self, sessions: Sessions, parts: Parts) -> None:
        self._sessions = sessions
        self._authority = parts.authority
        self._clock = parts.clock
        self._shared: dict[str, list[_Shared]] = {}
        """By caller; one that equals nobody has one for each of its subscriptions (OWN-NONE)."""
        self._work: set[asyncio.Task[None]] = set()

    async def listen(self, ctx: Context, wanted: Wanted, heard: Notify) -> None:
        """Say what is honoured, as an acknowledgement, then what is announced; returns when it is over.

        Raises ShimError before the acknowledgement only.
        """
        shared = self._of(ctx)
        listener = _Listener(heard)
        shared.listeners.add(listener)
        try:
            async with shared.lock:
                try:
                    await self._join(ctx, shared, listener, wanted)
                except SessionLost:
                    await self._again(shared)
                    await self._join(ctx, shared, listener, wanted)
            honoured = write_filter(listener.lists, [uri for uri in wanted.uris if uri in listener.uris])
            await heard(Notification(ACKNOWLEDGED, {FILTER: honoured}))
            if listener.lists or listener.uris:
                await shared.over.wait()
        finally:
            shared.listeners.discard(listener)
            self._later(self._leave(shared))

    async def announce(self, session: LegacySession, message: Notification) -> None:
        """Tell those who listen what a session's server announced."""
        for shared in self._shared.get(session.row.caller, ()):
            if shared.hears(session):
                await _tell(shared, message)

    async def close(self) -> None:
        """Stop listening; the sessions stay on the server."""
        work = [*self._work, *(one.keeper for all_ in self._shared.values() for one in all_ if one.keeper)]
        for task in work:
            task.cancel()
        await asyncio.gather(*work, return_exceptions=True)

    def _of(self, ctx: Context) -> _Shared:
        """Give what a subscription may share."""
        every = self._shared.setdefault(ctx.caller.key, [])
        for one in every:
            if not one.alone and one.ctx.kinds == ctx.kinds and not one.over.is_set():
                return one
        lasting = replace(
            ctx,
            caller=replace(ctx.caller, credential=None),
            notify=None,
            asking=None,
            progress_token=None,
            log_level=None,
        )
        shared = _Shared(lasting)
        every.append(shared)
        return shared

    async def _join(self, ctx: Context, shared: _Shared, listener: _Listener, wanted: Wanted) -> None:
        if shared.session is None:
            await self._open(ctx, shared, None)
            shared.keeper = asyncio.create_task(self._keep(shared), name="listen upstream")
        session = shared.session
        assert session is not None  # noqa: S101 - it was opened right now
        if not session.listens:
            return
        lists, has_resources = offered(session.init.get("capabilities", b"{}"))
        listener.lists = wanted.lists & lists
        if has_resources:  # mcp 1.30 says that it has no subscriptions, and has them
            listener.uris = frozenset(wanted.uris)  # a server may announce before it answers
            await self._subscribe(ctx, shared, wanted.uris)
            listener.uris &= shared.subscribed
        if len(listener.uris) < len(wanted.uris):
            ctx.trace.loss("ML-LISTEN", "resourceSubscriptions")

    async def _open(self, ctx: Context, shared: _Shared, lost: str | None) -> None:
        """Take a session of the caller's, in place of a lost one if there was one, and open its stream."""
        for _ in range(_ATTEMPTS):
            await shared.lease.aclose()
            shared.session, shared.subscribed = None, set()
            session = await shared.lease.enter_async_context(self._sessions.pool.reader(ctx, lost=lost))
            await session.open_stream(ctx)
            shared.session = session
            if session.listens or await self._lives(ctx, session):
                return
            lost = session.id
        raise SessionLost

    async def _lives(self, ctx: Context, session: LegacySession) -> bool:
        try:
            await self._sessions.on(ctx, session, lambda one: one.request(ctx, "ping", {}))
        except SessionLost:
            return False
        return True

    async def _subscribe(self, ctx: Context, shared: _Shared, uris: Collection[str]) -> None:
        for uri in uris:
            if uri not in shared.subscribed and await self._ask(ctx, shared, "resources/subscribe", uri):
                shared.subscribed.add(uri)

    async def _ask(self, ctx: Context, shared: _Shared, method: str, uri: str) -> bool:
        session = shared.session
        assert session is not None  # noqa: S101 - it is held while there are listeners
        params = {"uri": rawjson.encode(uri)}
        response = await self._sessions.on(ctx, session, lambda one: one.request(ctx, method, params))
        return response.error is None

    async def _keep(self, shared: _Shared) -> None:
        """Keep the stream open, or one in its place, until the server has none any more."""
        attempt, failed = 0, False
        while (session := shared.session) is None or session.listens or failed:
            began = self._clock.ticks_ms()
            if session is not None and not failed:
                await session.stream_over()
            if self._authority.waiting(shared.ctx):
                await self._authority.renewed(shared.ctx)
            if (wait_ms := retry_ms(_RETRY_MS, attempt)) > 0:
                await self._clock.sleep_ms(wait_ms)
            attempt = attempt + 1 if self._clock.ticks_ms() - began < _QUICK_MS + wait_ms else 0
            failed = True
            with contextlib.suppress(*_FAULTS):
                async with shared.lock:
                    await self._again(shared)
                failed = False
        shared.over.set()

    async def _again(self, shared: _Shared) -> None:
        """Open the stream again where the session lives; else listen on another, and make up for the gap."""
        session, ctx = shared.session, shared.ctx
        if session is not None and await self._lives(ctx, session):
            await session.open_stream(ctx)
        else:
            shared.missed = True
            await self._open(ctx, shared, session.id if session is not None else None)
        await self._subscribe(ctx, shared, _uris(shared))
        if not shared.missed:
            return
        shared.missed = False
        for change in LISTS.values():
            await _tell(shared, Notification(change.method, {}))
        for uri in list(shared.subscribed):
            await _tell(shared, Notification(RESOURCE_UPDATED, {"uri": rawjson.encode(uri)}))

    async def _leave(self, shared: _Shared) -> None:
        """Unsubscribe from what nobody listens for any more, and give the session back with the last one."""
        async with shared.lock:
            for uri in shared.subscribed - _uris(shared):
                with contextlib.suppress(*_FAULTS):
                    await self._ask(shared.ctx, shared, "resources/unsubscribe", uri)
                shared.subscribed.discard(uri)
            if not shared.listeners:
                await self._end(shared)

    async def _end(self, shared: _Shared) -> None:
        every = self._shared.get(shared.ctx.caller.key, [])
        if shared in every:
            every.remove(shared)
        if not every:
            self._shared.pop(shared.ctx.caller.key, None)
        if shared.keeper is not None:
            shared.keeper.cancel()
        session, shared.session = shared.session, None
        if session is not None and not shared.ctx.kinds:
            await session.close()  # nothing else is heard on it
        await shared.lease.aclose()

    def _later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="leave a subscription")
        self._work.add(task)
        task.add_done_callback(self._work.discard)


async def _tell(shared: _Shared, message: Notification) -> None:
    for listener in list(shared.listeners):
        if listener.wants(message):
            await listener.heard(message)


def _uris(shared: _Shared) -> set[str]:
    return set().union(*(one.uris for one in shared.listeners))
