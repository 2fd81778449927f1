"""The front for clients of the old API on a legacy server (LL): pass through, and see to whose a task is.

What touches no task is relayed (`relay.py`). What does goes through `legacy_tasks.py`: it is relayed too
where both sides speak the same dialect and the task lives in the asking session, and served from the
hub's verbs where not.
"""

import aiohttp
from aiohttp import web

from shim.callers.resolve import Resolver
from shim.config import Config
from shim.fronts.detect import Detector
from shim.fronts.keyed import LegacyOnce
from shim.fronts.legacy_tasks import LegacyTasks
from shim.fronts.legacy_verbs import Asked
from shim.fronts.relay import Relay
from shim.fronts.reply import Reply
from shim.fronts.sessions import ClientSessions
from shim.fronts.vouching import Vouching
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context, Upstream
from shim.wire.errors import invalid_request
from shim.wire.jsonrpc import Message, Request, Response, write_message

_SESSION = "Mcp-Session-Id"


class LegacyFront:
    """Serves one upstream's legacy clients."""

    def __init__(
        self,
        config: Config,
        upstream: Upstream,
        detector: Detector,
        relay: Relay,
        sessions: ClientSessions,
        tasks: LegacyTasks,
        resolver: Resolver,
        vouching: Vouching,
    ) -> None:
        self._config = config
        self.upstream = upstream
        self._detector = detector
        self._relay = relay
        self._sessions = sessions
        self._tasks = tasks
        self._resolver = resolver
        self._vouching = vouching
        self._once = LegacyOnce(tasks.idempotency, vouching)

    async def handle(
        self,
        http: web.BaseRequest,
        message: Message | None,
        ctx: Context,
        reply: Reply,
        *,
        pinned: str | None,
    ) -> web.StreamResponse:
        """Answer one legacy exchange; `message` is None for GET and DELETE. Raises ShimError."""
        ctx.trace.method = _named(http, message)
        session = await self._sessions.require(http.headers.get(_SESSION), ctx)
        ctx.trace.feature("session" if session is not None else "no session")
        if session is None:
            ctx.kinds = frozenset(self._config.legacy.sessionless_kinds)
            ctx.capabilities = dict.fromkeys(ctx.kinds, b"{}")
        if message is None:
            return await self._without_body(http, ctx, reply, session, pinned)
        if isinstance(message, Request) and message.method == "initialize":
            return await self._initialize(http, message, ctx, reply, pinned)
        if isinstance(message, Response) or self._detector.about_tasks(message.method):
            await self._vouching.ensure(ctx)
        if isinstance(message, Request):
            return await self._request(http, message, ctx, reply, session, pinned)
        if isinstance(message, Response) and session is not None:
            taken = await self._tasks.answered(http, message, ctx, reply, session)
            if taken is not None:
                return taken
        message = await self._tasks.passing.names.inwards(message, ctx)
        return await self._relay.forward(http, ctx, reply, write_message(message))

    async def _request(
        self, http: web.BaseRequest, message: Request, ctx: Context, reply: Reply,
        session: SessionRow | None, pinned: str | None,
    ) -> web.StreamResponse:  # fmt: skip
        dialect = await self._detector.of(message, ctx, session, pinned)
        ctx.trace.dialect = ctx.client_dialect = dialect.name
        if session is not None and self._detector.turns(session, message, dialect):
            await self._sessions.speaks(session, dialect.name)
        asked = Asked(http, message, ctx, reply, session, dialect)
        return await self._once.serve(asked, lambda: self._answer(asked))

    async def _answer(self, asked: Asked) -> web.StreamResponse:
        served = await self._tasks.serve(asked)
        if served is not None:
            return served
        tap = self._tasks.passing.tap(asked.ctx, asked.session, asked.dialect)
        message = await self._tasks.passing.names.inwards(asked.message, asked.ctx)
        return await self._relay.forward(asked.http, asked.ctx, asked.reply, write_message(message), tap=tap)

    async def _without_body(
        self,
        http: web.BaseRequest,
        ctx: Context,
        reply: Reply,
        session: SessionRow | None,
        pinned: str | None,
    ) -> web.StreamResponse:
        if http.method == "DELETE" and session is not None:
            answer = await self._relay.forward(http, ctx, reply, None)
            if answer.status < 300:  # noqa: PLR2004 - a 2xx
                await self._sessions.close(session, ctx)
            return answer
        dialect = self._detector.of_session(session, pinned)
        tap = self._tasks.resumed(session, self._tasks.passing.tap(ctx, session, dialect, alone=True))
        return await self._relay.forward(http, ctx, reply, None, tap=tap)

    async def _initialize(
        self, http: web.BaseRequest, message: Request, ctx: Context, reply: Reply, pinned: str | None
    ) -> web.StreamResponse:
        await self._sessions.room_for_one_more(ctx)
        self._sessions.fill(ctx, message.params)
        dialect = self._detector.of_session(None, pinned)

        async def opened(response: aiohttp.ClientResponse, body: bytes) -> bytes | None:
            session_id = response.headers.get(_SESSION)
            return await self._sessions.opened(session_id, body, ctx, dialect, self._resolver)

        async def streamed(data: bytes) -> bytes | None:
            return await self._sessions.opened(reply.header(_SESSION), data, ctx, dialect, self._resolver)

        return await self._relay.forward(
            http, ctx, reply, write_message(message), tap=streamed, opened=opened
        )


def _named(http: web.BaseRequest, message: Message | None) -> str | None:
    """Give what the log calls the exchange; an answer to a server's request has no name."""
    if message is None:
        return http.method
    return None if isinstance(message, Response) else message.method


def session_header(http: web.BaseRequest) -> str | None:
    """Give the session id of a request; a doubled header is refused."""
    values = http.headers.getall(_SESSION, ())
    if len(set(values)) > 1:
        raise invalid_request("Mcp-Session-Id: stands twice with different values")
    return values[0] if values else None
