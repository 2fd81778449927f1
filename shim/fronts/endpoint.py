"""The one HTTP endpoint: guard, parse, classify, find out who calls, dispatch on (era, method), answer.

Errors are answered here and nowhere else. One `request` event is written for each request, at its end.
"""

import asyncio

import structlog
from aiohttp import hdrs, web

from shim.audit.request_log import RequestLog
from shim.audit.trace import Trace
from shim.config import Config
from shim.fronts.guard import Route, cors, preflight
from shim.fronts.legacy_request import exchange_name, session_header
from shim.fronts.metadata import ResourceMetadata
from shim.fronts.reply import Reply, SlowReader
from shim.fronts.routes import Arrival, Routes, Standing
from shim.fronts.shares import Shares
from shim.fronts.terms import Terms
from shim.ledger.protocol import LedgerError
from shim.shadow.shadow import Shadow
from shim.upstreams.base import Context
from shim.upstreams.broken import Denied, NeverSent
from shim.upstreams.faults import fault_of
from shim.wire.budget import Holding
from shim.wire.era import Era, classify
from shim.wire.errors import ClientFault, internal, unusable_ledger
from shim.wire.headers import passed_on
from shim.wire.jsonrpc import Message, Request, read_client, write_error
from shim.wire.statuses import status_of_fault

log = structlog.get_logger("shim")


class Endpoint:
    """Serves clients of both eras, in front of all upstreams; each request by the `terms` of its moment."""

    def __init__(
        self,
        config: Config,
        *,
        terms: Terms,
        routes: Routes,
        metadata: ResourceMetadata,
        requests: RequestLog,
        shadow: Shadow,
        shares: Shares,
    ) -> None:
        self.terms = terms
        self._config = config
        self._routes = routes
        self._metadata = metadata
        self._requests = requests
        self._shadow = shadow
        self._shares = shares

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request; never raises but for a client that has gone."""
        trace = self._requests.begin(http.headers)
        reply = Reply(http, trace, (), slow_reader_ms=self._config.limits.slow_reader_ms)
        try:
            with self._shares.entering() as held:
                return await reply.finish(await self._answer(http, trace, reply, held), held)
        except asyncio.CancelledError:
            trace.outcome = "disconnected"
            raise
        except (SlowReader, ConnectionResetError):
            trace.outcome = "disconnected"
            return reply.abandoned()
        finally:
            self._requests.end(trace)

    async def _answer(
        self, http: web.BaseRequest, trace: Trace, reply: Reply, held: Holding
    ) -> web.StreamResponse:
        """Give the answer to a request, or to what went wrong with it."""
        message: Message | None = None
        try:
            self._shares.room_for_all()
            guard = self.terms.guard
            route = None if self._metadata.served_at(http.path) else guard.route(http)
            origin = guard.origin(http)
            if http.method == hdrs.METH_OPTIONS:
                return preflight(origin, http.headers.get("Access-Control-Request-Headers", ""))
            if origin is not None:
                reply.add_headers(cors(origin))
            if route is None:
                return await self._metadata.answer(http, reply)
            reply.metadata_url = self._metadata.url(http.path)
            if http.method == hdrs.METH_POST:
                body = await guard.body(http, held)
                trace.bytes_in = len(body)
                message = read_client(body)
            return await self._dispatch(http, message, route, trace, reply)
        except (SlowReader, ConnectionResetError):
            raise
        except Exception as exc:  # noqa: BLE001 - the border: every fault becomes its answer
            return await self._fault(exc, message, trace, reply)

    async def _dispatch(
        self, http: web.BaseRequest, message: Message | None, route: Route, trace: Trace, reply: Reply
    ) -> web.StreamResponse:
        era = classify(http.headers, message, route.era)
        trace.era = str(era)
        session_id = session_header(http) if era is Era.LEGACY else None
        caller = await self.terms.resolver.resolve(http.headers, http.remote, session_id=session_id)
        trace.caller, trace.caller_kind, trace.caller_label = caller.key, caller.kind, caller.label
        if era is Era.LEGACY:
            trace.method = exchange_name(http, message)
            self.terms.sunset.judge(message, trace)
            reply.on_success(self.terms.sunset.headers)
        method = message.method if isinstance(message, Request) else None
        with self._shares.taking(caller, method):
            return await self._steer(Arrival(http, message, era, caller, session_id), route, trace, reply)

    async def _steer(self, arrival: Arrival, route: Route, trace: Trace, reply: Reply) -> web.StreamResponse:
        """Let the upstream answer that is to, or its fallback."""
        way = await self._routes.of(arrival)
        if way.wanted is not None:
            trace.upstream = way.standing.name
            trace.rerouted(way.wanted, way.reason)
        with self._routes.under_way(arrival, way):
            try:
                return await self._serve(way.standing, arrival, way.message, route, trace, reply)
            except NeverSent:
                # of a call that had more than this one exchange, something may have run
                if way.fallback is None or reply.streaming or trace.upstream_calls > 1:
                    raise
            wanted, trace.upstream = way.standing.name, way.fallback.name
            trace.rerouted(wanted, "down")
            return await self._serve(way.fallback, arrival, way.message, route, trace, reply)

    async def _serve(
        self, standing: Standing, arrival: Arrival, message: Message | None, route: Route, trace: Trace,
        reply: Reply,
    ) -> web.StreamResponse:  # fmt: skip
        """Let an upstream's front answer."""
        http = arrival.http
        headers = passed_on(http.headers, standing.forwarded)
        ctx = Context(caller=arrival.caller, trace=trace, headers=headers)
        await standing.learn(ctx)
        front = standing.fronts[arrival.era]
        trace.towards(front.upstream.name, front.upstream.dialect.era, front.upstream.dialect.name)
        answer = await front.handle(http, message, ctx, reply, pinned=route.dialect)
        self._shadow.seen(front.upstream.name, message, trace, reply.said)
        return answer

    async def _fault(
        self, exc: Exception, message: Message | None, trace: Trace, reply: Reply
    ) -> web.StreamResponse:
        if isinstance(exc, Denied) and not reply.streaming:
            trace.denied("credential")
            return reply.relayed_denial(exc)
        fault = unusable_ledger(str(exc)) if isinstance(exc, LedgerError) else fault_of(exc)
        if fault is None:
            log.error("a request failed", request_id=trace.request_id, exc_info=exc)
            fault = internal()
        if not isinstance(fault, ClientFault):
            trace.fault = fault.recorded
        if fault.reason is not None and trace.outcome is None:
            trace.denied(fault.reason, fault.limit)
        if fault.limit is not None:
            trace.reached(fault.limit)
        trace.code = fault.code
        message_id = message.id if isinstance(message, Request) else None
        status = status_of_fault(fault, Era(trace.era or Era.MODERN))
        reply.failed()
        reply.add_headers(fault.headers)
        return await reply.send(write_error(message_id, fault.code, fault.message, fault.data), status)
