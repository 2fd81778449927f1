"""Which session a request goes over, and when a session counts as lost (ML-SESSION, ML-SESSION-LOST)."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar, cast

from shim.audit.sink import NullSink
from shim.audit.trace import Trace
from shim.callers.caller import Caller, Kind
from shim.ledger.protocol import Ledger
from shim.ledger.records import SessionRow, TaskRow
from shim.upstreams.base import Context, SessionLost, TaskGone, TaskUnknown
from shim.upstreams.legacy.exchange import Gone
from shim.upstreams.legacy.pool import Pool, PoolLimits
from shim.upstreams.legacy.refusals import unknown
from shim.upstreams.legacy.session import LegacySession, Parts
from shim.wire.envelope import initialize_params
from shim.wire.era import LEGACY_VERSIONS
from shim.wire.errors import UpstreamFault
from shim.wire.jsonrpc import write_notification
from shim.wire.methods import INITIALIZED

T = TypeVar("T")

_REMEMBERED = 10_000
"""Sessions of clients that are kept at hand."""
_LEFT_AT_ONCE = 100
"""Sessions of an earlier run that one sweep closes at most."""


class Sessions:
    """The sessions with one server: the pool's, and those that clients drive."""

    def __init__(
        self, name: str, parts: Parts, ledger: Ledger, limits: PoolLimits, *, handshake: bool
    ) -> None:
        self.pool = Pool(name, limits, ledger, parts.clock, self._open, self._adopt)
        self._name = name
        self._parts = parts
        self._ledger = ledger
        self._handshake = handshake
        self._driven: OrderedDict[str, LegacySession] = OrderedDict()

    async def of(self, ctx: Context, row: TaskRow) -> LegacySession:
        """Give the session a task lives in, at hand or from the ledger. Raises SessionLost."""
        if row.session_id is None:
            async with self.pool.reader(ctx) as session:
                return session
        session = self.pool.known(row.session_id) or await self.driven(row.session_id)
        session.tasks.setdefault(row.upstream_task_id, row.pk)
        if session.row.side == "pool" and row.kinds:
            await session.open_stream(ctx)
        return session

    async def driven(self, session_id: str) -> LegacySession:
        """Give a session that is not the pool's: a client's, or one of an earlier run. Raises SessionLost."""
        known = self._driven.get(session_id)
        if known is not None:
            self._driven.move_to_end(session_id)
            return known
        stored = await self._ledger.session(session_id)
        if stored is None or stored.closed:
            raise SessionLost
        session = self._driven[session_id] = LegacySession(self._parts, stored)
        if len(self._driven) > _REMEMBERED:
            _, old = self._driven.popitem(last=False)
            await old.close()
        return session

    async def on(
        self, ctx: Context, session: LegacySession, send: Callable[[LegacySession], Awaitable[T]]
    ) -> T:
        """Send on a session; it is lost only if a second request gets the same (ML-SESSION-LOST)."""
        try:
            return await send(session)
        except Gone:
            pass
        try:
            await session.request(ctx, "ping", {})
        except Gone:
            if not session.lost:
                self.pool.lose(session)
                self._driven.pop(session.id, None)
                await self._ledger.close_session(session.id)
                ctx.trace.event("session.lost", side="upstream", reason="unknown_twice")
            raise SessionLost from None
        try:
            return await send(session)
        except Gone:
            raise UpstreamFault("the upstream answers 404 on a living session") from None

    async def on_task(
        self,
        ctx: Context,
        row: TaskRow,
        send: Callable[[LegacySession], Awaitable[T]],
        *,
        unknown_is_answer: bool = False,
    ) -> T:
        """Send on the task's session, or on a living one in its place. Raises TaskUnknown, TaskGone."""
        refused: type[TaskUnknown] = TaskUnknown
        try:
            session = await self.of(ctx, row)
            answer = await self.on(ctx, session, send)
        except SessionLost:
            refused = TaskGone
            answer = await self._on_heir(ctx, row, send)
        if unknown(answer) and not unknown_is_answer:
            raise refused
        return answer

    async def _on_heir(self, ctx: Context, row: TaskRow, send: Callable[[LegacySession], Awaitable[T]]) -> T:
        """Send on a living session in place of a task's lost one, and let the task live there if it does."""
        opener = await self._opener(ctx, row)
        session = await self.pool.heir(opener, row.session_id or "")
        try:
            answer = await self.on(ctx, session, send)
        except SessionLost:  # it was opened after an earlier loss, and is lost by now as well
            session = await self.pool.heir(opener, session.id)
            answer = await self.on(ctx, session, send)
        if not unknown(answer):
            session.tasks[row.upstream_task_id] = row.pk
            await self._ledger.set_session(row.pk, session.id)
        self.pool.give_back(row.caller_kind, session)
        return answer

    async def _opener(self, ctx: Context, row: TaskRow) -> Context:
        """Give the context that a task's session is opened anew in: its client's, whoever asks now."""
        lost = await self._ledger.session(row.session_id or "")
        if lost is None or (ctx.client_name == lost.client_name and ctx.kinds == lost.kinds):
            return ctx
        return replace(
            ctx, client_name=lost.client_name, client_version=lost.client_version, kinds=lost.kinds,
            capabilities=dict.fromkeys(lost.kinds, b"{}"),
        )  # fmt: skip

    def free(self, row: TaskRow) -> None:
        """Free the task's place in its session."""
        session = self.pool.known(row.session_id or "")
        if session is not None:
            session.tasks.pop(row.upstream_task_id, None)
            self.pool.give_back(row.caller_kind, session)
        elif (driven := self._driven.get(row.session_id or "")) is not None:
            driven.tasks.pop(row.upstream_task_id, None)

    async def sweep(self, *, delete: bool) -> None:
        """Drop idle sessions without an open task; the server is told only if the operator wants it."""
        await self._forget_ended()
        before_ms = self._parts.clock.now_ms() - self.pool.limits.idle_ms
        await self._let_go_of_driven(before_ms)
        unused = await self._ledger.unused_sessions(self._name, before_ms, limit=_LEFT_AT_ONCE)
        left = [LegacySession(self._parts, row) for row in unused if not self._at_hand(row.session_id)]
        for session in (*await self.pool.sweep(), *left):
            await self._ledger.close_session(session.id)
            if delete and session.wire_id is not None:
                caller = Caller(session.row.caller, cast("Kind", session.row.caller_kind))
                ctx = Context(caller, Trace.background(NullSink(), upstream=self._name))
                if not self._parts.authority.waiting(ctx):
                    await session.delete(ctx)

    async def _forget_ended(self) -> None:
        """Let tasks that have ended hold no session, by whatever way they ended."""
        sessions = (*self.pool, *self._driven.values())
        held = {pk for session in sessions for pk in session.tasks.values()}
        ended = held - await self._ledger.open_among(tuple(held)) if held else held
        for session in sessions:
            session.forget_tasks(ended)

    async def _let_go_of_driven(self, before_ms: int) -> None:
        """Forget the sessions of clients that nobody used since: who comes back finds them in the ledger."""
        for session in [one for one in self._driven.values() if one.free and one.idle_since_ms < before_ms]:
            del self._driven[session.id]
            await session.close()

    def _at_hand(self, session_id: str) -> bool:
        return self.pool.known(session_id) is not None or session_id in self._driven

    async def close(self) -> None:
        """Close the shim's own streams."""
        await self.pool.close()
        for session in self._driven.values():
            await session.close()

    async def _open(self, ctx: Context) -> LegacySession:
        now_ms = self._parts.clock.now_ms()
        params = initialize_params(ctx.client_name, ctx.client_version, ctx.capabilities, LEGACY_VERSIONS[0])
        if not self._handshake:
            return LegacySession.without(self._parts)
        session = await LegacySession.handshake(self._parts, ctx, params)
        session.row = SessionRow(
            session_id=session.id, upstream=self._name, caller=ctx.caller.key, caller_kind=ctx.caller.kind,
            side="pool", dialect=None, client_name=ctx.client_name, client_version=ctx.client_version,
            kinds=ctx.kinds, version=session.row.version, init=session.row.init, created_ms=now_ms,
            used_ms=now_ms, closed=False,
        )  # fmt: skip
        if session.wire_id is not None:
            await self._ledger.add_session(session.row)
        try:
            await session.post(ctx, write_notification(INITIALIZED, {}))
            if ctx.kinds:
                await session.open_stream(ctx)
        except Gone:
            await self._ledger.close_session(session.id)
            fault = "the upstream forgot a session while it was being opened: has it several instances?"
            raise UpstreamFault(fault) from None
        ctx.trace.event("session.opened", side="upstream", reason="pool")
        return session

    def _adopt(self, row: SessionRow) -> LegacySession:
        return self._driven.pop(row.session_id, None) or LegacySession(self._parts, row)
