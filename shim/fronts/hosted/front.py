"""The front for legacy clients on a modern server: the shim is the server of their sessions (LM)."""

from dataclasses import dataclass

from aiohttp import web

from shim.fronts.hosted.asking import Asking
from shim.fronts.hosted.feed import Feed
from shim.fronts.hosted.local import LocalMethods
from shim.fronts.hosted.onwards import Onwards
from shim.fronts.hosted.sessions import take_up
from shim.fronts.hosted.under_way import UnderWay
from shim.fronts.hosted.verbs import Handler, HostedVerbs
from shim.fronts.keyed import LegacyOnce
from shim.fronts.legacy_admission import Admission
from shim.fronts.legacy_request import Asked, exchange_name
from shim.fronts.reply import Reply
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context, Upstream
from shim.wire.era import LEGACY_VERSIONS
from shim.wire.errors import invalid_request, method_not_found, unknown_session
from shim.wire.http import LAST_EVENT_ID, PROTOCOL_VERSION
from shim.wire.jsonrpc import Message, Notification, Request, Response
from shim.wire.methods import CANCELLED


@dataclass(frozen=True, slots=True)
class Methods:
    """All that clients may ask for; a method that none of these has does not exist."""

    tasks: HostedVerbs
    local: LocalMethods
    onwards: Onwards

    def handler(self, asked: Asked) -> Handler:
        """Give what serves a request. Raises ClientFault."""
        method = asked.message.method
        handler = (
            self.tasks.handler(asked) or self.local.handlers.get(method) or self.onwards.handlers.get(method)
        )
        if handler is None:
            raise method_not_found(method)
        return handler


class HostedFront:
    """Serves one modern upstream's legacy clients. Implements `Front`."""

    def __init__(
        self, upstream: Upstream, admission: Admission, methods: Methods, *, asking: Asking, feed: Feed,
        once: LegacyOnce, under_way: UnderWay,
    ) -> None:  # fmt: skip
        self.upstream = upstream
        self._admission = admission
        self._methods = methods
        self._asking = asking
        self._feed = feed
        self._once = once
        self._under_way = under_way

    async def handle(
        self, http: web.BaseRequest, message: Message | None, ctx: Context, reply: Reply,
        *, pinned: str | None,
    ) -> web.StreamResponse:  # fmt: skip
        """Answer one legacy exchange; `message` is None for GET and DELETE. Raises ShimError."""
        ctx.trace.method = exchange_name(http, message)
        version = http.headers.get(PROTOCOL_VERSION, LEGACY_VERSIONS[0])
        if version not in LEGACY_VERSIONS and ctx.trace.method != "initialize":
            raise invalid_request(f"MCP-Protocol-Version: expected one of {', '.join(LEGACY_VERSIONS)}")
        session = await self._admission.session(http, ctx)
        if session is not None:
            take_up(session, ctx)
        if message is None:
            return await self._without_body(http, ctx, reply, session, pinned)
        if isinstance(message, Request):
            return await self._request(http, message, ctx, reply, session, pinned)
        if isinstance(message, Response):
            if session is None:
                raise unknown_session()
            await self._admission.vouching.ensure(ctx)
            await self._asking.answered(ctx, session, message)
        else:
            self._heard(message, session)
        return reply.empty(202)

    async def _request(
        self, http: web.BaseRequest, message: Request, ctx: Context, reply: Reply,
        session: SessionRow | None, pinned: str | None,
    ) -> web.StreamResponse:  # fmt: skip
        asked = await self._admission.asked(http, message, ctx, reply, session, pinned)
        handler = self._methods.handler(asked)
        if message.method in self._methods.local.stored or self._admission.detector.about_tasks(
            message.method
        ):
            await self._admission.vouching.ensure(ctx)
        return await self._once.serve(asked, lambda: self._under_way.run(asked, handler(asked)))

    def _heard(self, message: Notification, session: SessionRow | None) -> None:
        if message.method == CANCELLED and session is not None:
            self._under_way.cancel(session.session_id, message.params.get("requestId", b""))

    async def _without_body(
        self, http: web.BaseRequest, ctx: Context, reply: Reply, session: SessionRow | None,
        pinned: str | None,
    ) -> web.StreamResponse:  # fmt: skip
        if session is None:
            raise unknown_session()
        await self._admission.vouching.ensure(ctx)
        if http.method == "DELETE":
            await self._admission.sessions.close(session, ctx)
            self._asking.streams.wake(session.session_id)
            return reply.empty(200)
        ctx.trace.rule("LM-STREAM")
        dialect = self._admission.detector.of_session(session, pinned)
        ctx.trace.dialect = dialect.name
        return await self._feed.serve(ctx, reply, session, dialect, http.headers.get(LAST_EVENT_ID))
