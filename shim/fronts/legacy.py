"""The front for clients of the old API on a legacy server (LL): pass through, and see to whose a task is.

What touches no task is relayed (`relay.py`). What does goes through `legacy_tasks.py`: it is relayed too
where both sides speak the same dialect and the task lives in the asking session, and served from the
hub's verbs where not.
"""

from collections.abc import Mapping

import aiohttp
from aiohttp import web

from shim.callers.resolve import Resolver
from shim.config import Config
from shim.fronts.legacy_tasks import LegacyTasks
from shim.fronts.relay import Relay
from shim.fronts.reply import Reply
from shim.fronts.sessions import ClientSessions
from shim.hub import rawjson
from shim.hub.dialect import Dialect
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context, Upstream
from shim.wire.errors import invalid_request
from shim.wire.jsonrpc import Message, Notification, Request, Response, write_message

_SESSION = "Mcp-Session-Id"


class LegacyFront:
    """Serves one upstream's legacy clients."""

    def __init__(
        self,
        config: Config,
        upstream: Upstream,
        dialects: Mapping[str, Dialect],
        relay: Relay,
        sessions: ClientSessions,
        tasks: LegacyTasks,
        resolver: Resolver,
    ) -> None:
        self._config = config
        self._upstream = upstream
        self._dialects = dialects
        self._relay = relay
        self._sessions = sessions
        self._tasks = tasks
        self._resolver = resolver
        self._by_method = {
            method: name
            for name in ("create", "get")
            for dialect in dialects.values()
            if dialect.era == "legacy" and (method := getattr(dialect.methods, name)) and name
        }

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
        session = await self._sessions.require(http.headers.get(_SESSION), ctx)
        ctx.trace.feature("session" if session is not None else "no session")
        if message is None:
            return await self._without_body(http, ctx, reply, session)
        if isinstance(message, Request) and message.method == "initialize":
            return await self._initialize(http, message, ctx, reply, pinned)
        if isinstance(message, Request):
            dialect = self._dialect(message, session, pinned)
            ctx.trace.method, ctx.trace.dialect = message.method, dialect.name
            if session is not None and session.dialect != dialect.name:
                await self._sessions.speaks(session, dialect.name)
            served = await self._tasks.serve(http, message, ctx, reply, session, dialect)
            if served is not None:
                return served
        elif isinstance(message, Response) and session is not None:
            if not await self._tasks.answered(message, ctx, session):
                return reply.empty(202)
        elif isinstance(message, Notification):
            ctx.trace.method = message.method
        return await self._relay.forward(
            http, ctx, reply, write_message(message), tap=self._tasks.tap(ctx, session)
        )

    async def _without_body(
        self, http: web.BaseRequest, ctx: Context, reply: Reply, session: SessionRow | None
    ) -> web.StreamResponse:
        ctx.trace.method = http.method
        if http.method == "DELETE" and session is not None:
            answer = await self._relay.forward(http, ctx, reply, None)
            if answer.status < 300:  # noqa: PLR2004 - a 2xx
                await self._sessions.close(session, ctx)
            return answer
        return await self._relay.forward(http, ctx, reply, None, tap=self._tasks.tap(ctx, session))

    async def _initialize(
        self, http: web.BaseRequest, message: Request, ctx: Context, reply: Reply, pinned: str | None
    ) -> web.StreamResponse:
        ctx.trace.method = message.method
        await self._sessions.room_for_one_more(ctx)
        self._sessions.fill(ctx, message.params)
        dialect = self._dialects[pinned or self._config.legacy.dialect]

        async def opened(response: aiohttp.ClientResponse, body: bytes) -> bytes | None:
            session_id = response.headers.get(_SESSION)
            return await self._sessions.opened(session_id, body, ctx, dialect, self._resolver)

        async def streamed(data: bytes) -> bytes | None:
            return await self._sessions.opened(reply.header(_SESSION), data, ctx, dialect, self._resolver)

        return await self._relay.forward(
            http, ctx, reply, write_message(message), tap=streamed, opened=opened
        )

    def _dialect(self, message: Request, session: SessionRow | None, pinned: str | None) -> Dialect:
        """Tell which legacy dialect a request is in (CS-DETECT)."""
        if pinned is not None:
            return self._dialects[pinned]
        named = self._dialects_naming(message)
        if len(named) == 1:
            return self._dialects[named[0]]
        last = session.dialect if session is not None else None
        return self._dialects[last or self._config.legacy.dialect]

    def _dialects_naming(self, message: Request) -> list[str]:
        """Give the legacy dialects that have the method as their own and share it with no other."""
        if not message.method.startswith("tasks/"):
            return []
        having = [
            name
            for name, dialect in self._dialects.items()
            if dialect.era == "legacy" and message.method in dialect.methods.names()
        ]
        return having if len(having) == 1 else []


def session_header(http: web.BaseRequest) -> str | None:
    """Give the session id of a request; a doubled header is refused."""
    values = http.headers.getall(_SESSION, ())
    if len(set(values)) > 1:
        raise invalid_request("Mcp-Session-Id: stands twice with different values")
    return values[0] if values else None


def is_json_object(data: bytes) -> bool:
    """Tell whether the data can be a JSON-RPC message."""
    try:
        rawjson.members(data)
    except rawjson.RawJsonError:
        return False
    return True
