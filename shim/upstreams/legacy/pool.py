"""The upstream sessions of one server: who may use which, how many, how long (ML-SESSION).

A session belongs to one caller and one set of question kinds and is never used for another. One that
holds a task, or a call that may be asked something, is not shared with a second such. A caller of kind
`none` equals nobody: its sessions are used once.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import structlog

from shim.clock import Clock
from shim.hub.rawjson import RawJsonError
from shim.ledger.protocol import Ledger
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context
from shim.upstreams.legacy.exchange import Gone
from shim.upstreams.legacy.groups import Group, Groups
from shim.upstreams.legacy.session import LegacySession
from shim.wire.errors import ShimError, all_in_use, too_many

log = structlog.get_logger("shim.upstreams")

Opener = Callable[[Context], Awaitable[LegacySession]]
Adopter = Callable[[SessionRow], LegacySession]


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """Bounds of the pool; all from the config."""

    per_caller: int
    total: int
    tasks_per_session: int
    idle_ms: int
    spares: int


class Pool:
    """Hands out sessions and takes them back."""

    def __init__(
        self,
        upstream: str,
        limits: PoolLimits,
        ledger: Ledger,
        clock: Clock,
        opener: Opener,
        adopter: Adopter,
    ) -> None:
        self._upstream = upstream
        self.limits = limits
        self._ledger = ledger
        self._clock = clock
        self._open = opener
        self._adopt = adopter
        self._groups = Groups()
        self._opening = 0
        self._warming: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._groups.sessions)

    def __iter__(self) -> Iterator[LegacySession]:
        return iter(self._groups.sessions.values())

    def known(self, session_id: str) -> LegacySession | None:
        """Give a session that is at hand."""
        return self._groups.sessions.get(session_id)

    @asynccontextmanager
    async def reader(self, ctx: Context, *, lost: str | None = None) -> AsyncIterator[LegacySession]:
        """Borrow a session for a request that cannot be asked anything; it may be shared.

        `lost` names the session that was lost under the request: only one opened since will do.
        """
        session = await self._take(ctx, _shareable, lost)
        session.readers += 1
        try:
            yield session
        finally:
            session.readers -= 1
            self.give_back(ctx.caller.kind, session)

    @asynccontextmanager
    async def leased(self, ctx: Context, *, lost: str | None = None) -> AsyncIterator[LegacySession]:
        """Borrow a session for a call that may be asked something; it is shared with no task or call."""
        session = await self._take(ctx, _exclusive, lost)
        session.leased = True
        try:
            await _listen(ctx, session, logs=ctx.log_level is not None)
            yield session
        finally:
            session.leased = False
            self.give_back(ctx.caller.kind, session)

    async def reserve(self, ctx: Context, *, lost: str | None = None) -> LegacySession:
        """Take a place for a task; undo it with `unreserve`, or `settle` it when the task is kept."""
        room = self.limits.tasks_per_session
        session = await self._take(
            ctx, lambda one: not one.leased and (one.load < room or not one.wire_id), lost
        )
        session.reserved += 1
        self._warm(ctx)
        await _listen(ctx, session)
        return session

    def unreserve(self, ctx: Context, session: LegacySession) -> None:
        """Give back a place that no task took."""
        session.reserved -= 1
        self.give_back(ctx.caller.kind, session)

    async def settle(self, session: LegacySession, upstream_task_id: str, pk: int) -> None:
        """Turn a reserved place into a task's."""
        session.reserved -= 1
        await session.keep(upstream_task_id, pk)

    async def heir(self, ctx: Context, lost_id: str) -> LegacySession:
        """Give the living session that is asked in a lost one's place; opened once however many ask.

        One that equals nobody shares it with nobody (OWN-NONE).
        """
        group = self._groups.of(ctx)
        if ctx.caller.kind == "none":
            return await self._new(ctx, group)
        async with group.lock:
            if group.heir is None or group.heir.id == lost_id or self.known(group.heir.id) is None:
                group.heir = await self._new(ctx, group)
            return group.heir

    def lose(self, session: LegacySession) -> None:
        """Take a session that the server forgot out of use."""
        session.lose()
        self._forget(session)

    async def sweep(self) -> list[LegacySession]:
        """Drop sessions that nobody used for `idle_ms`; gives them so that the caller can close them."""
        before = self._clock.now_ms() - self.limits.idle_ms
        idle = [one for one in self if one.free and one.idle_since_ms < before]
        for session in idle:
            self._forget(session)
            await session.close()
        self._groups.forget_empty()
        return idle

    async def close(self) -> None:
        """Close every stream; the sessions stay on the server and in the ledger."""
        for task in list(self._warming):
            task.cancel()
        await asyncio.gather(*self._warming, return_exceptions=True)
        await asyncio.gather(*(session.close() for session in self))

    async def _take(
        self, ctx: Context, fits: Callable[[LegacySession], bool], lost: str | None
    ) -> LegacySession:
        group = self._groups.of(ctx)
        if lost is not None:  # with one session the server has forgotten the others too, most likely
            heir = await self.heir(ctx, lost)
            return heir if fits(heir) else await self._new(ctx, group)
        if not group.restored:
            await self._restore(ctx, group)
            group = self._groups.of(ctx, group)
        alone = ctx.caller.kind == "none"  # equals nobody: what is in use is in somebody else's use
        usable = (
            one for one in group.sessions.values() if not one.lost and fits(one) and (one.free or not alone)
        )
        chosen = min(usable, key=_busyness, default=None)
        return chosen or await self._new(ctx, group)

    async def _restore(self, ctx: Context, group: Group) -> None:
        """Take up the caller's sessions of an earlier run of the shim."""
        group.restored = True
        if ctx.caller.kind == "none":
            return
        since = self._clock.now_ms() - self.limits.idle_ms
        rows = await self._ledger.sessions(ctx.caller.key, self._upstream, "pool")
        for row in rows:
            if row.kinds == ctx.kinds and row.used_ms >= since and self.known(row.session_id) is None:
                session = self._adopt(row)
                for task in await self._ledger.open_tasks(
                    upstream=self._upstream, session_id=row.session_id, limit=self.limits.per_caller
                ):
                    session.tasks[task.upstream_task_id] = task.pk
                self._groups.keep(group, session)

    async def _new(self, ctx: Context, group: Group, *, evicts: bool = True) -> LegacySession:
        """Open a session; at a bound one that nothing needs makes way for it, or it is refused."""
        group.opening += 1  # before anything makes way: a group with nothing in it is forgotten
        self._opening += 1
        try:
            self._bound(ctx, evicts=evicts)
            session = await self._open(ctx)
        finally:
            group.opening -= 1
            self._opening -= 1
        self._groups.keep(group, session)
        return session

    def _bound(self, ctx: Context, *, evicts: bool) -> None:
        """Hold the bounds, the session that is being opened counted in. Raises ClientFault."""
        mine = self._groups.count(ctx.caller.key) if ctx.caller.kind != "none" else 0
        if mine > self.limits.per_caller and not (evicts and self._evict(ctx.caller.key)):
            raise too_many(
                "the caller's upstream sessions are all in use (sessions.per_caller): end a task or wait",
                limit="sessions.per_caller",
                retry_after_s=1,
            )
        if len(self) + self._opening > self.limits.total and not (evicts and self._evict(None)):
            raise all_in_use(
                "all upstream sessions are in use (sessions.total): wait",
                limit="sessions.total",
                retry_after_s=1,
            )

    def give_back(self, caller_kind: str, session: LegacySession) -> None:
        """Take a session back; one of a caller that equals nobody is not used a second time (OWN-NONE)."""
        session.idle_since_ms = self._clock.now_ms()
        self._ledger.touch_session(session.id, session.idle_since_ms)
        if caller_kind == "none" and session.free:
            self._retire(session)

    def _evict(self, caller: str | None) -> bool:
        """Drop the session, of a caller or of anyone, that was idle for longest; False if there is none."""
        idle = [one for one in self if one.free and caller in {None, one.row.caller}]
        if idle:
            self._retire(min(idle, key=lambda one: one.idle_since_ms))
        return bool(idle)

    def _retire(self, session: LegacySession) -> None:
        self._forget(session)
        task = asyncio.create_task(self._close(session))
        self._warming.add(task)
        task.add_done_callback(self._warming.discard)

    async def _close(self, session: LegacySession) -> None:
        await session.close()
        await self._ledger.close_session(session.id)

    def _forget(self, session: LegacySession) -> None:
        self._groups.forget(session)
        session.drop()
        if len(self._groups.by_caller) > self.limits.total:
            self._groups.forget_empty()

    def _warm(self, ctx: Context) -> None:
        """Keep a spare ready, so that the caller's next create costs one upstream request."""
        group = self._groups.of(ctx)
        room = self.limits.tasks_per_session
        spare = sum(1 for one in group.sessions.values() if not one.leased and one.load < room)
        if spare + group.opening >= self.limits.spares or ctx.caller.kind == "none":
            return
        task = asyncio.create_task(self._spare(ctx), name="warm-session")
        self._warming.add(task)
        task.add_done_callback(self._warming.discard)

    async def _spare(self, ctx: Context) -> None:
        try:
            await self._new(ctx, self._groups.of(ctx), evicts=False)
        except (ShimError, Gone, RawJsonError, TimeoutError):
            pass  # a spare is a courtesy; the create that needs one reports
        except Exception:
            log.exception("a spare session could not be opened")


async def _listen(ctx: Context, session: LegacySession, *, logs: bool = False) -> None:
    """See that the stream is open before what may be asked, or logged there, goes out (ML-STREAMS)."""
    if ctx.kinds or logs:
        await session.open_stream(ctx)


def _shareable(session: LegacySession) -> bool:
    return not session.leased


def _exclusive(session: LegacySession) -> bool:
    return session.free


def _busyness(session: LegacySession) -> int:
    return session.load * 1_000 + session.readers
