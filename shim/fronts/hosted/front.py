"""The front for legacy clients on a modern server: the shim is the server of their sessions (LM)."""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from shim.config import Config
from shim.fronts.detect import Detector
from shim.fronts.hosted.asking import Asking
from shim.fronts.hosted.calls import Calls
from shim.fronts.hosted.feed import Feed
from shim.fronts.hosted.sessions import HostedSessions, take_up
from shim.fronts.hosted.streams import Streams
from shim.fronts.hosted.under_way import UnderWay
from shim.fronts.hosted.verbs import HostedVerbs
from shim.fronts.keyed import LegacyOnce
from shim.fronts.legacy_request import SESSION, asked_in, exchange_name
from shim.fronts.legacy_verbs import Asked
from shim.fronts.reply import Reply
from shim.fronts.sessions import ClientSessions
from shim.fronts.vouching import Vouching
from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.ledger.records import SessionRow
from shim.tasks.promote import listed, offers_tasks
from shim.upstreams.base import Context, Upstream
from shim.wire.era import LEGACY_VERSIONS, knows_tasks
from shim.wire.errors import invalid_params, invalid_request, method_not_found, unknown_session
from shim.wire.hosting import initialize_result, legacy_notice, legacy_result, upstream_params
from shim.wire.jsonrpc import Message, Notification, Request, Response, write_result
from shim.wire.param_headers import why_invalid
from shim.wire.tool_lists import tool_names, tools_with_support, without_tools

_EMPTY = b"{}"
_SHOWN_CHARS = 200
_OWN = frozenset(("initialize", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"))
"""What the shim itself answers: no server judges the credential on the way (OWN-VOUCH)."""

Handler = Callable[[Asked], Awaitable[web.StreamResponse]]


class HostedFront:
    """Serves one modern upstream's legacy clients. Implements `Front`."""

    def __init__(
        self, config: Config, upstream: Upstream, *, detector: Detector, sessions: ClientSessions,
        hosted: HostedSessions, asking: Asking, verbs: HostedVerbs, calls: Calls, feed: Feed,
        streams: Streams, vouching: Vouching, once: LegacyOnce, under_way: UnderWay,
    ) -> None:  # fmt: skip
        self.upstream = upstream
        self._config = config
        self._detector = detector
        self._sessions = sessions
        self._hosted = hosted
        self._asking = asking
        self._verbs = verbs
        self._calls = calls
        self._feed = feed
        self._streams = streams
        self._vouching = vouching
        self._once = once
        self._under_way = under_way
        self._handlers: Mapping[str, Handler] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
            "tools/list": self._tools,
            "tools/call": self._tools_call,
            "prompts/list": self._plain,
            "prompts/get": self._plain,
            "resources/list": self._plain,
            "resources/templates/list": self._plain,
            "resources/read": self._plain,
            "completion/complete": self._plain,
        }

    async def handle(
        self, http: web.BaseRequest, message: Message | None, ctx: Context, reply: Reply,
        *, pinned: str | None,
    ) -> web.StreamResponse:  # fmt: skip
        """Answer one legacy exchange; `message` is None for GET and DELETE. Raises ShimError."""
        ctx.trace.method = exchange_name(http, message)
        version = http.headers.get("MCP-Protocol-Version", LEGACY_VERSIONS[0])
        if version not in LEGACY_VERSIONS and ctx.trace.method != "initialize":
            raise invalid_request(f"MCP-Protocol-Version: expected one of {', '.join(LEGACY_VERSIONS)}")
        session = await self._sessions.require(http.headers.get(SESSION), ctx)
        if session is not None:
            take_up(session, ctx)
        if message is None:
            return await self._without_body(http, ctx, reply, session, pinned)
        if isinstance(message, Request):
            return await self._request(http, message, ctx, reply, session, pinned)
        if isinstance(message, Response):
            if session is None:
                raise unknown_session()
            await self._vouching.ensure(ctx)
            await self._asking.answered(ctx, session, message)
        else:
            self._heard(message, session)
        return reply.empty(202)

    async def _request(
        self, http: web.BaseRequest, message: Request, ctx: Context, reply: Reply,
        session: SessionRow | None, pinned: str | None,
    ) -> web.StreamResponse:  # fmt: skip
        asked = await asked_in(self._detector, self._sessions, http, message, ctx, reply, session, pinned)
        handler = self._verbs.handler(asked) or self._handlers.get(message.method)
        if handler is None:
            raise method_not_found(message.method)
        if message.method in _OWN or self._detector.about_tasks(message.method):
            await self._vouching.ensure(ctx)
        return await self._once.serve(asked, lambda: self._under_way.run(asked, handler(asked)))

    def _heard(self, message: Notification, session: SessionRow | None) -> None:
        if message.method == "notifications/cancelled" and session is not None:
            self._under_way.cancel(session.session_id, message.params.get("requestId", b""))

    async def _without_body(
        self, http: web.BaseRequest, ctx: Context, reply: Reply, session: SessionRow | None,
        pinned: str | None,
    ) -> web.StreamResponse:  # fmt: skip
        if session is None:
            raise unknown_session()
        await self._vouching.ensure(ctx)
        if http.method == "DELETE":
            await self._sessions.close(session, ctx)
            self._streams.wake(session.session_id)
            return reply.empty(200)
        ctx.trace.rule("LM-STREAM")
        dialect = self._detector.of_session(session, pinned)
        ctx.trace.dialect = dialect.name
        last_event_id = http.headers.get("Last-Event-ID")
        resumed = await self._under_way.resume(ctx, session.session_id, last_event_id, reply)
        if resumed is not None:
            return resumed
        return await self._feed.serve(ctx, reply, session, dialect, last_event_id)

    # -- what the shim answers itself ------------------------------------------------------------

    async def _initialize(self, asked: Asked) -> web.StreamResponse:
        ctx, params = asked.ctx, asked.message.params
        ctx.trace.rule("LM-INIT")
        await self._sessions.room_for_one_more(ctx)
        self._sessions.fill(ctx, params)
        facts = await self.upstream.facts(ctx)
        tasks = offers_tasks(self._config, facts) and asked.dialect.lists_task_support
        version = rawjson.string(params.get("protocolVersion"))
        init = initialize_result(facts.init, version, name=self.upstream.name, tasks=tasks)
        session_id = await self._hosted.open(ctx, init, asked.dialect)
        asked.reply.add_header(SESSION, session_id)
        return await self._say(asked, init)

    async def _ping(self, asked: Asked) -> web.StreamResponse:
        return await self._say(asked, _EMPTY)

    async def _set_level(self, asked: Asked) -> web.StreamResponse:
        await self._hosted.set_level(asked.session, rawjson.string(asked.message.params.get("level")))
        return await self._say(asked, _EMPTY)

    async def _subscribe(self, asked: Asked) -> web.StreamResponse:
        return await self._subscribed(asked, on=True)

    async def _unsubscribe(self, asked: Asked) -> web.StreamResponse:
        return await self._subscribed(asked, on=False)

    async def _subscribed(self, asked: Asked, *, on: bool) -> web.StreamResponse:
        asked.ctx.trace.rule("LM-LOCAL")
        uri = rawjson.string(asked.message.params.get("uri"))
        if uri is None:
            raise invalid_params("params.uri: expected a string")
        await self._hosted.subscribe(asked.session, uri, on=on)
        if asked.session is not None:
            self._streams.ask_anew(asked.session.session_id)
        return await self._say(asked, _EMPTY)

    # -- what the server answers -----------------------------------------------------------------

    async def _plain(self, asked: Asked) -> web.StreamResponse:
        params, asked.ctx.progress_token = upstream_params(asked.message.params)

        async def notify(message: Notification) -> None:
            await asked.reply.notify(Notification(message.method, legacy_notice(message.params)))

        asked.ctx.notify = notify
        return await self._calls.run(asked, params)

    async def _tools_call(self, asked: Asked) -> web.StreamResponse:
        asked.ctx.trace.tool = rawjson.string(asked.message.params.get("name"))
        self._detector.pass_over(asked)
        return await self._plain(asked)

    async def _tools(self, asked: Asked) -> web.StreamResponse:
        """List the tools, each as one that may run as a task where the server has tasks (LM-TOOLS).

        One that asks for headers against the rules is left out, as a client of the new API has to.
        """
        asked.ctx.trace.rule("LM-TOOLS")
        params, _ = upstream_params(asked.message.params)
        response = await self.upstream.plain(asked.ctx, asked.message.method, params)
        if response.result is None:
            return await self._calls.say(asked, response)
        result, _ = legacy_result(response.result)
        result = without_tools(result, lambda tool: _is_out(asked.ctx, tool))
        facts = await self.upstream.facts(asked.ctx)
        knows = asked.session is None or knows_tasks(asked.session.version)
        if knows and offers_tasks(self._config, facts) and asked.dialect.lists_task_support:
            support = await listed(self._config, self.upstream, asked.ctx, tool_names(result))
            result = tools_with_support(result, support)
        return await self._say(asked, result)

    async def _say(self, asked: Asked, result: bytes) -> web.StreamResponse:
        return await asked.reply.send(write_result(asked.message.id, result))


def _is_out(ctx: Context, tool: Members) -> bool:
    """Tell whether a tool has to be left out for what its schema says of headers (LM-TOOLS)."""
    why = why_invalid(tool)
    if why is not None:
        name = (rawjson.string(tool.get("name")) or "")[:_SHOWN_CHARS]
        detail = f"tool {name!r}: x-mcp-header: {why}"
        ctx.trace.event("upstream.invalid", rule="LM-TOOLS", detail=detail[: 2 * _SHOWN_CHARS])
    return why is not None
