"""The front for clients of the old API on a legacy server (LL): pass through, and see to whose a task is.

What touches no task is relayed (`relay.py`). What does goes through `legacy_tasks.py`: it is relayed too
where both sides speak the same dialect and the task lives in the asking session, and served from the
hub's verbs where not.
"""

import asyncio
from functools import partial

from aiohttp import web

from shim.fronts.keyed import LegacyOnce
from shim.fronts.legacy_admission import Admission
from shim.fronts.legacy_request import Asked
from shim.fronts.legacy_tasks import LegacyTasks
from shim.fronts.open_streams import OpenStreams, unless
from shim.fronts.relay import Relay
from shim.fronts.reply import Reply
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context, Upstream
from shim.upstreams.client import Answer
from shim.wire.errors import stopping
from shim.wire.http import SESSION_ID, is_success
from shim.wire.jsonrpc import Message, Request, Response, write_message


class LegacyFront:
    """Serves one upstream's legacy clients."""

    def __init__(
        self, upstream: Upstream, admission: Admission, relay: Relay, tasks: LegacyTasks, streams: OpenStreams
    ) -> None:
        self.upstream = upstream
        self._admission = admission
        self._relay = relay
        self._tasks = tasks
        self._streams = streams
        self._once = LegacyOnce(tasks.idempotency, admission.vouching)

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
        session = await self._admission.session(http, ctx)
        if message is None:
            return await self._without_body(http, ctx, reply, session, pinned)
        if isinstance(message, Request) and message.method == "initialize":
            return await self._initialize(http, message, ctx, reply, pinned)
        if isinstance(message, Response) or self._admission.detector.about_tasks(message.method):
            await self._admission.vouching.ensure(ctx)
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
        asked = await self._admission.asked(http, message, ctx, reply, session, pinned)
        return await self._once.serve(asked, lambda: self._answer(asked))

    async def _answer(self, asked: Asked) -> web.StreamResponse:
        served = await self._tasks.serve(asked)
        if served is not None:
            return served
        message = await self._tasks.passing.names.inwards(asked.message, asked.ctx)
        with self._tasks.exchange(asked.session) as exchange:
            tap = self._tasks.passing.tap(asked.ctx, asked.session, asked.dialect, exchange=exchange)
            tap = self._tasks.naming(asked, tap)
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
            if is_success(answer.status):
                await self._admission.sessions.close(session, ctx)
            return answer
        dialect = self._admission.detector.of_session(session, pinned)
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
            raise stopping()
        return await reply.end_stream()

    async def _initialize(
        self, http: web.BaseRequest, message: Request, ctx: Context, reply: Reply, pinned: str | None
    ) -> web.StreamResponse:
        sessions = self._admission.sessions
        await sessions.room_for_one_more(ctx)
        sessions.fill(ctx, message.params)
        dialect = self._admission.detector.of_session(None, pinned)

        async def opened(response: Answer, body: bytes) -> bytes | None:
            session_id = response.headers.get(SESSION_ID)
            return await sessions.opened(session_id, body, ctx, dialect)

        async def streamed(data: bytes) -> bytes | None:
            return await sessions.opened(reply.header(SESSION_ID), data, ctx, dialect)

        return await self._relay.forward(
            http, ctx, reply, write_message(message), tap=streamed, opened=opened
        )
