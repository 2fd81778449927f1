"""Speaks to a legacy server in its dialect: what the verbs want, as requests over the right session."""

import contextlib

from shim.hub import rawjson
from shim.hub.codec import SECTION_1, Reading, TaskUnknownError, read_task
from shim.hub.dialect import Dialect
from shim.hub.facts import CALL
from shim.hub.rawjson import Members
from shim.ledger.protocol import Ledger
from shim.ledger.records import InputRow, TaskRow
from shim.upstreams.authority import Authority
from shim.upstreams.base import Answered, Context, Created, Facts, Notify, NotYet, SessionLost, TaskUnknown
from shim.upstreams.faults import as_fault, code
from shim.upstreams.legacy.announcing import Announcements
from shim.upstreams.legacy.creates import ATTEMPTS, Creates, forgotten, run_once
from shim.upstreams.legacy.exchange import Gone
from shim.upstreams.legacy.pool import Pool, PoolLimits
from shim.upstreams.legacy.refusals import not_yet, taken, unknown
from shim.upstreams.legacy.session import LegacySession, Parts
from shim.upstreams.legacy.sessions import Sessions
from shim.upstreams.legacy.tools import Catalogs
from shim.wire.envelope import offers_task_calls, with_related_task
from shim.wire.errors import METHOD_NOT_FOUND, UpstreamFault
from shim.wire.jsonrpc import Notification, Response, write_notification, write_result
from shim.wire.methods import CANCELLED, RUN
from shim.wire.subscriptions import LIST_OF, read_filter


class LegacyUpstream:
    """A server of the old API behind the shim. Implements `Upstream`."""

    def __init__(
        self,
        name: str,
        dialect: Dialect,
        parts: Parts,
        ledger: Ledger,
        limits: PoolLimits,
        catalogs: Catalogs,
        *,
        sessions: bool = True,
    ) -> None:
        self.name = name
        self.has_sessions = sessions
        self.dialect = dialect
        self.parts = parts
        self._catalogs = catalogs
        self._sessions = Sessions(name, parts, ledger, limits, handshake=sessions)
        self._creates = Creates(dialect, self._sessions, catalogs)
        self._announcements = Announcements(self._sessions, parts)
        parts.announced = self._announced

    @property
    def pool(self) -> Pool:
        """The sessions that the shim opened itself."""
        return self._sessions.pool

    @property
    def credentials(self) -> Authority:
        """Whose credentials there are for the shim's own work."""
        return self.parts.authority

    def next_id(self) -> bytes:
        """Make a JSON-RPC id that no session has seen."""
        return self.parts.ids.next()

    # -- the handshake and what needs no task --------------------------------------------------

    async def facts(self, ctx: Context) -> Facts:
        """Give the initialize result of one of the caller's sessions."""
        async with self.pool.reader(ctx) as session:
            return Facts(session.init, session.row.version, self._has_tasks(session))

    async def judge(self, ctx: Context) -> None:
        """Ping."""
        await self.plain(ctx, "ping", {})

    async def plain(self, ctx: Context, method: str, params: Members) -> Response:
        """Send a request over a session of the caller.

        One that may be asked something, or that is logged about, has it to itself.
        """
        alone = method in RUN and (bool(ctx.kinds) or ctx.log_level is not None)
        borrow = self.pool.leased if alone else self.pool.reader

        async def send(session: LegacySession) -> Response:
            if method == CALL:
                return await run_once(ctx, session, method, params)
            if method in RUN:
                await session.set_level(ctx)
            return await session.request(ctx, method, params, patient=True, reports=method in RUN)

        lost = None
        for _ in range(ATTEMPTS):
            async with borrow(ctx, lost=lost) as session:
                lost = session.id
                with contextlib.suppress(SessionLost):  # a 404 came before any byte of an answer: nothing ran
                    return await self._sessions.on(ctx, session, send)
        raise forgotten()

    async def listen(self, ctx: Context, params: Members, heard: Notify) -> bool:
        """Listen on a session's own stream, with a subscription to each resource (ML-LISTEN)."""
        await self._announcements.listen(ctx, read_filter(params), heard)
        return True

    async def tool_support(self, ctx: Context, tool: str) -> str:
        """Tell a tool's task support, from the operator, the dialect, or the caller's tools/list."""
        catalog = self._catalogs.of(ctx)
        if self.dialect.tool_support != "listed":
            return catalog.override(tool) or self.dialect.tool_support
        support = await catalog.support(tool, lambda params: self.plain(ctx, "tools/list", params))
        if catalog.cut is not None:
            ctx.trace.reached(catalog.cut)
            catalog.cut = None
        return support

    async def accepts_session(self, ctx: Context, session_id: str) -> bool:
        """Tell whether the server takes a ping of this caller's on a session (OWN-ADOPT)."""
        session = LegacySession.named(self.parts, session_id)
        try:
            return (await session.request(ctx, "ping", {})).result is not None
        except (Gone, UpstreamFault):
            return False

    # -- tasks ---------------------------------------------------------------------------------

    async def create(
        self, ctx: Context, params: Members, ttl_ms: int | None, *, session_id: str | None = None
    ) -> Created | Answered:
        """Send the call as a task, on the client's own session or on one that has room for it."""
        return await self._creates.create(ctx, params, ttl_ms, session_id=session_id)

    async def keep(self, row: TaskRow) -> None:
        """Bind the task that is in the ledger now to its session."""
        session = self.pool.known(row.session_id or "")
        if session is not None:
            await self.pool.settle(session, row.upstream_task_id, row.pk)
        elif row.session_id is not None:
            await (await self._sessions.driven(row.session_id)).keep(row.upstream_task_id, row.pk)

    async def find(self, ctx: Context, task_id: str) -> Reading | None:
        """Look for a task on the client's own session, or where it has none on one of the caller's."""
        params = self.dialect.naming(task_id)

        async def ask(session: LegacySession) -> Response:
            return await session.request(ctx, self.dialect.methods.get, params)

        try:
            if ctx.client_session is not None:
                response = await self._sessions.on(ctx, await self._sessions.driven(ctx.client_session), ask)
            else:
                async with self.pool.reader(ctx) as session:
                    response = await self._sessions.on(ctx, session, ask)
            if unknown(response):
                return None
            if response.result is None:
                raise as_fault(response)
            return read_task(self.dialect, rawjson.members(response.result))
        except (SessionLost, TaskUnknownError):
            return None

    async def get(self, ctx: Context, row: TaskRow) -> Reading:
        """Read the task's state."""
        params = self.dialect.naming(row.upstream_task_id)
        response = await self._on_task(ctx, row, self.dialect.methods.get, params)
        if response.result is None:
            raise as_fault(response)
        try:
            return read_task(self.dialect, rawjson.members(response.result))
        except TaskUnknownError as exc:
            ctx.trace.lenient(SECTION_1, str(exc))
            raise TaskUnknown from None

    async def result(self, ctx: Context, row: TaskRow, request_id: bytes) -> Response:
        """Wait for the task's payload; questions on the way are taken up."""
        method = self.dialect.methods.result
        if not method:
            raise NotYet
        params = self.dialect.naming(row.upstream_task_id)
        response = await self._sessions.on_task(
            ctx,
            row,
            lambda session: session.request(
                ctx, method, params,
                request_id=request_id, task_pk=row.pk, patient=True,
            ),
            unknown_is_answer=True,
        )  # fmt: skip
        if response.error is not None and not_yet(response.error):
            raise NotYet
        return response

    async def abandon_result(self, ctx: Context, row: TaskRow, request_id: bytes) -> None:
        """Send `notifications/cancelled` for a tasks/result (ML-INPUT). Raises UpstreamFault."""
        message = write_notification(CANCELLED, {"requestId": request_id})
        with contextlib.suppress(Gone, SessionLost):  # the stream went with its session
            taken(await (await self._sessions.of(ctx, row)).post(ctx, message))

    async def cancel(self, ctx: Context, row: TaskRow) -> bool:
        """Ask to cancel, where the dialect has it."""
        method = self.dialect.methods.cancel
        if not method:
            return False
        response = await self._on_task(ctx, row, method, self.dialect.naming(row.upstream_task_id))
        if response.error is not None:
            if code(response.error) == METHOD_NOT_FOUND:
                return False
            raise as_fault(response)
        return True

    async def answer(self, ctx: Context, row: TaskRow, asked: InputRow) -> bool:
        """Deliver an answer as the JSON-RPC response on the session, or by the dialect's own method."""
        if asked.upstream_id is None:
            return await self._answer_by_method(ctx, row, asked)
        response = asked.response or b"{}"
        if self.dialect.related_task:
            response = with_related_task(response, row.upstream_task_id)
        message = write_result(asked.upstream_id, response)
        # no other session than the one that asked can take it
        session = await self._sessions.of(ctx, row)
        status = await self._sessions.on(ctx, session, lambda one: one.post(ctx, message))
        return taken(status)

    async def ended(self, row: TaskRow) -> None:
        """Free the task's place in its session."""
        self._sessions.free(row)

    async def sweep(self, *, delete: bool) -> None:
        """Drop idle sessions; the server is told only if the operator wants it."""
        await self._sessions.sweep(delete=delete)
        self._catalogs.sweep(self.pool.limits.idle_ms)

    async def close(self) -> None:
        """Close the shim's own streams."""
        await self._announcements.close()
        await self._sessions.close()

    async def _answer_by_method(self, ctx: Context, row: TaskRow, asked: InputRow) -> bool:
        method = self.dialect.methods.answer
        if not method:
            return False
        params = self.dialect.answering(row.upstream_task_id, {asked.key: asked.response or b"{}"})
        return (await self._on_task(ctx, row, method, params)).error is None

    async def _on_task(self, ctx: Context, row: TaskRow, method: str, params: Members) -> Response:
        return await self._sessions.on_task(ctx, row, lambda session: session.request(ctx, method, params))

    async def _announced(self, session: LegacySession, message: Notification) -> None:
        if LIST_OF.get(message.method) == "toolsListChanged":
            self._catalogs.forget(session.row.caller, session.row.kinds)
        await self._announcements.announce(session, message)

    def _has_tasks(self, session: LegacySession) -> bool:
        if self.dialect.tool_support != "listed":
            return True
        return offers_task_calls(rawjson.join(session.init))
