"""The front for clients of the old API on a legacy server (LL): pass through, and see to whose a task is.

What touches no task is relayed (`relay.py`). What does goes through `legacy_tasks.py`: it is relayed too
where both sides speak the same dialect and the task lives in the asking session, and served from the
hub's verbs where not.
"""

import asyncio
from functools import partial

import aiohttp
from aiohttp import web

from shim.callers.resolve import Resolver
from shim.config import Config
from shim.fronts.detect import Detector
from shim.fronts.keyed import LegacyOnce
from shim.fronts.legacy_request import SESSION, asked_in, exchange_name
from shim.fronts.legacy_tasks import LegacyTasks
from shim.fronts.legacy_verbs import Asked
from shim.fronts.open_streams import OpenStreams, unless
from shim.fronts.relay import Relay
from shim.fronts.reply import Reply
from shim.fronts.sessions import ClientSessions
from shim.fronts.vouching import Vouching
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context, Upstream
from shim.wire.errors import UpstreamFault
from shim.wire.jsonrpc import Message, Request, Response, write_message


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
        streams: OpenStreams,
    ) -> None:
        self._config = config
        self.upstream = upstream
        self._detector = detector
        self._relay = relay
        self._sessions = sessions
        self._tasks = tasks
        self._resolver = resolver
        self._vouching = vouching
        self._streams = streams
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
        ctx.trace.method = exchange_name(http, message)
        session = await self._sessions.require(http.headers.get(SESSION), ctx)
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
        asked = await asked_in(self._detector, self._sessions, http, message, ctx, reply, session, pinned)
        return await self._once.serve(asked, lambda: self._answer(asked))

    async def _answer(self, asked: Asked) -> web.StreamResponse:
        served = await self._tasks.serve(asked)
        if served is not None:
            return served
        message = await self._tasks.passing.names.inwards(asked.message, asked.ctx)
        with self._tasks.exchange(asked.session) as exchange:
            tap = self._tasks.passing.tap(asked.ctx, asked.session, asked.dialect, exchange=exchange)
            return await self._relay.forward(
                asked.http, asked.ctx, asked.reply, write_message(message), tap=tap
            )

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
        tap = self._tasks.recording.resumed(
            session, self._tasks.passing.tap(ctx, session, dialect, alone=True)
        )
        beside = None
        if session is not None and self._tasks.news.has_any:
            beside = partial(self._tasks.news.tell, session, dialect, reply)
        stop = asyncio.Event()
        with self._streams.ending(ctx.caller, stop):
            passed = await unless(stop, self._relay.forward(http, ctx, reply, None, tap=tap, beside=beside))
        if passed is not None:
            return passed
        if not reply.streaming:
            raise UpstreamFault(-32603, "the shim is stopping", 503)
        return await reply.end_stream()

    async def _initialize(
        self, http: web.BaseRequest, message: Request, ctx: Context, reply: Reply, pinned: str | None
    ) -> web.StreamResponse:
        await self._sessions.room_for_one_more(ctx)
        self._sessions.fill(ctx, message.params)
        dialect = self._detector.of_session(None, pinned)

        async def opened(response: aiohttp.ClientResponse, body: bytes) -> bytes | None:
            session_id = response.headers.get(SESSION)
            return await self._sessions.opened(session_id, body, ctx, dialect, self._resolver)

        async def streamed(data: bytes) -> bytes | None:
            return await self._sessions.opened(reply.header(SESSION), data, ctx, dialect, self._resolver)

        return await self._relay.forward(
            http, ctx, reply, write_message(message), tap=streamed, opened=opened
        )
