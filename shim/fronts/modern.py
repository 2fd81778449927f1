"""The front for clients of 2026-07-28: stateless requests with `_meta`, tasks by SEP-2663."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial

from aiohttp import web
from msgspec.structs import replace

from shim.config import Config
from shim.fronts.keyed import keyed_call
from shim.fronts.modern_request import admitted, responses_of, task_id_of
from shim.fronts.param_checks import ParamChecks
from shim.fronts.reply import Reply
from shim.fronts.subscriptions import Subscriptions
from shim.fronts.vouching import Vouching
from shim.hub import rawjson
from shim.hub.codec import write_create, write_get
from shim.hub.dialect import Dialect
from shim.hub.facts import CALL
from shim.tasks.idempotency import Answer, Keyed, Settle
from shim.tasks.parked_call import Run
from shim.tasks.promote import offers_tasks
from shim.tasks.service import Tasks
from shim.tasks.terminal import outcome
from shim.tasks.view import task_of
from shim.upstreams.base import Context, Upstream
from shim.wire.crossing import Crossing
from shim.wire.envelope import META_LOG_LEVEL, ModernMeta, modern_error, recoded
from shim.wire.era import Era
from shim.wire.errors import invalid_params, method_not_found, missing_capability
from shim.wire.jsonrpc import Message, Request, Response, write_error, write_result
from shim.wire.loglevels import LEVELS
from shim.wire.methods import RUN
from shim.wire.statuses import status_of
from shim.wire.subscriptions import LISTEN
from shim.wire.url_elicitation import after_urls, as_input_required, refuse_declined

ACK = b'{"resultType":"complete"}'


@dataclass(frozen=True, slots=True)
class Call:
    """One modern request, checked."""

    request: Request
    meta: ModernMeta
    ctx: Context
    upstream: Upstream
    keyed: Keyed | None


Handler = Callable[[Call], Awaitable[Response]]


class ModernFront:
    """Serves modern requests; a method that is not in the table does not exist (ML-GONE)."""

    def __init__(
        self, config: Config, upstream: Upstream, tasks: Tasks, dialect: Dialect, vouching: Vouching,
        crossing: Crossing, subscriptions: Subscriptions,
    ) -> None:  # fmt: skip
        self.upstream = upstream
        self._config = config
        self._tasks = tasks
        self._dialect = dialect
        self._vouching = vouching
        self._crossing = crossing
        self._param_checks = ParamChecks(upstream, config.limits.pages)
        self._subscriptions = subscriptions
        methods = dialect.methods
        self._handlers: Mapping[str, Handler] = {
            "server/discover": self._discover,
            "tools/list": self._list_tools,
            "tools/call": self._tools_call,
            "prompts/list": self._plain,
            "prompts/get": self._asking,
            "resources/list": self._plain,
            "resources/templates/list": self._plain,
            "resources/read": self._asking,
            "completion/complete": self._plain,
            str(methods.get): self._get,
            str(methods.update): self._update,
            str(methods.cancel): self._cancel,
        }
        self._needs_extension = frozenset((str(methods.get), str(methods.update), str(methods.cancel)))
        self._stored = self._needs_extension | {"server/discover"}

    async def handle(
        self,
        http: web.BaseRequest,
        message: Message | None,
        ctx: Context,
        reply: Reply,
        *,
        pinned: str | None,  # noqa: ARG002 - of the protocol; a modern client has one dialect
    ) -> web.StreamResponse:
        """Answer one message of a modern client. Raises ShimError."""
        asked = admitted(self._config, http, message, ctx, reply)
        if asked is None:
            return reply.empty(202)
        request, meta = asked
        params = request.params
        if request.method == CALL:
            await self._param_checks.check(http, ctx, params, ask=True)
        keyed = keyed_call(http, ctx, params, params) if request.method == CALL else None
        return await self.serve(Call(request, meta, ctx, self.upstream, keyed), reply)

    async def serve(self, call: Call, reply: Reply) -> web.StreamResponse:
        """Answer a request that was checked, by the hub's verbs. Raises ShimError."""
        request, ctx = call.request, call.ctx
        if call.meta.log_level is not None and call.meta.log_level not in LEVELS:
            raise invalid_params(f"params._meta[{META_LOG_LEVEL!r}]: expected one of {', '.join(LEVELS)}")
        if request.method == LISTEN:
            return await self._subscriptions.serve(request, call.meta, ctx, reply)
        handler = self._handlers.get(request.method)
        if handler is None:
            ctx.trace.rule("ML-GONE")
            raise method_not_found(request.method)
        if request.method in RUN:
            refuse_declined(request.params)
        if request.method in self._needs_extension and not call.meta.declares_tasks:
            ctx.trace.rule("ML-UNDECLARED")
            raise missing_capability()
        if call.keyed is not None:
            reply.endure()
        if request.method in self._stored or call.keyed is not None:
            await self._vouching.ensure(ctx)
        answer = await handler(call)
        response = as_input_required(answer, request.method, call.meta.capabilities)
        if call.keyed is None or response is not answer:
            response = self._named(call, response)
        if response.error is not None:
            code, error_message, data = modern_error(response.error)
            ctx.trace.code = code
            body = write_error(request.id, code, error_message, data)
            return await reply.send(body, status_of(code, Era.MODERN))
        return await reply.send(write_result(request.id, response.result or b"{}"))

    async def _discover(self, call: Call) -> Response:
        call.ctx.trace.rule("ML-DISCOVER")
        facts = await call.upstream.facts(call.ctx)
        offers = offers_tasks(self._config, facts)
        return _result(self._crossing.discovered(facts.init, has_tasks=offers))

    async def _plain(self, call: Call) -> Response:
        response = await call.upstream.plain(
            call.ctx, call.request.method, self._crossing.params(call.request.params, call.meta)
        )
        return await self._enveloped(call, response)

    async def _asking(self, call: Call) -> Response:
        return await self._may_ask(call, partial(self._plain, call))

    async def _may_ask(self, call: Call, run: Run) -> Response:
        """Make a call that a legacy server may ask something in, or bring it the answers (ML-MRTR)."""
        ctx, upstream, request = call.ctx, call.upstream, call.request
        if upstream.dialect.era != Era.LEGACY.value:
            return await run()
        if "requestState" not in request.params or after_urls(request.params):
            return await self._tasks.parked.begin(ctx, upstream, request, run)
        responses = responses_of(request.params) if "inputResponses" in request.params else {}
        await self._vouching.ensure(ctx)
        return await self._tasks.parked.resume(ctx, upstream, request, responses)

    def _named(self, call: Call, response: Response) -> Response:
        """Let a state or a cursor say whose it is (CUTOVER-STAY)."""
        method = call.request.method
        return self._tasks.origins.response(call.ctx.caller, call.upstream.name, method, response)

    async def _list_tools(self, call: Call) -> Response:
        response = await self._plain(call)
        if response.result is not None:
            self._param_checks.listed(call.ctx, call.request.params, response.result)
        return response

    async def _tools_call(self, call: Call) -> Response:
        tool = rawjson.string(call.request.params.get("name"))
        if tool is None:
            raise invalid_params("params.name: expected the name of a tool")
        call.ctx.trace.tool = tool
        if call.keyed is None:
            return await self._may_ask(call, partial(self._run_tool, call, tool))

        async def run(settle: Settle) -> None:
            response = await self._may_ask(call, partial(self._run_tool, call, tool))
            # what is kept names the server that gave it, also to who repeats the call after a cutover
            await settle(Answer(self._dialect.name, self._named(call, response)))

        return await self._tasks.idempotency.once(
            call.ctx, call.keyed, run, self._dialect, takes_task=call.meta.declares_tasks
        )

    async def _run_tool(self, call: Call, tool: str) -> Response:
        plan = await self._tasks.plan(call.ctx, call.upstream, tool, declared=call.meta.declares_tasks)
        call.ctx.takes_tasks = plan.as_task
        if not plan.as_task:
            return await self._plain(call)
        call.ctx.trace.rule("PROMOTE-1" if plan.promoted else "ML-CREATE")
        if plan.promoted:
            await self._vouching.ensure(call.ctx)
        made = await self._tasks.create(
            call.ctx, call.upstream, self._crossing.params(call.request.params, call.meta),
            ttl_ms=self._config.tasks.default_ttl_ms, promoted=plan.promoted,
        )  # fmt: skip
        if isinstance(made, Response):
            return await self._enveloped(call, made)
        if plan.wait:
            async with asyncio.timeout(self._config.tasks.undeclared_wait_ms / 1000):
                ended = await self._tasks.ended(call.ctx, made)
            return await self._enveloped(call, outcome(ended))
        both = self._config.modern.create_result == "both"
        return _result(write_create(self._dialect, task_of(made), nested_too=both))

    async def _get(self, call: Call) -> Response:
        call.ctx.trace.rule("ML-GET")
        row = await self._tasks.get(call.ctx, task_id_of(call.request.params))
        task = await self._tasks.shown(call.ctx, row)
        if task.error is not None:
            task = replace(task, error=recoded(task.error))
        return _result(write_get(self._dialect, task))

    async def _update(self, call: Call) -> Response:
        call.ctx.trace.rule("ML-UPDATE")
        responses = responses_of(call.request.params)
        await self._tasks.update(call.ctx, task_id_of(call.request.params), responses)
        return _result(ACK)

    async def _cancel(self, call: Call) -> Response:
        call.ctx.trace.rule("ML-CANCEL")
        await self._tasks.cancel(call.ctx, task_id_of(call.request.params))
        return _result(ACK)

    async def _enveloped(self, call: Call, response: Response) -> Response:
        if response.result is None:
            return response
        facts = await call.upstream.facts(call.ctx)
        method, server_info = call.request.method, facts.init.get("serverInfo")
        return _result(self._crossing.result(response.result, method=method, server_info=server_info))


def _result(result: bytes) -> Response:
    return Response(None, result, None)
