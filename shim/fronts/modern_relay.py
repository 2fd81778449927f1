"""The front for modern clients of a modern server (MM-1): pass through, and see to whose a task is.

What the server says goes back byte for byte. A task it makes is written down before its handle passes; a
task a client names must be its own. What the ledger knows better than the server - an end that was shown,
a task that lives elsewhere or goes by another id - is served from the hub's verbs.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from shim.config import Config
from shim.fronts.keyed import keyed_call
from shim.fronts.modern import ACK, Call, ModernFront
from shim.fronts.modern_listen import Listening
from shim.fronts.modern_passing import ModernPassing
from shim.fronts.modern_request import admitted, responses_of, task_id_of
from shim.fronts.modern_seen import Asked, Seen, of_answer
from shim.fronts.open_streams import OpenStreams, unless
from shim.fronts.param_checks import ParamChecks
from shim.fronts.relay import Relay, Tap
from shim.fronts.reply import Reply
from shim.fronts.subscriptions import call_off
from shim.fronts.vouching import Vouching
from shim.hub import rawjson
from shim.hub.facts import CALL
from shim.hub.rawjson import Members
from shim.hub.status import TERMINAL
from shim.ledger.records import TaskRow
from shim.tasks.access import own
from shim.tasks.create import has_room, no_room
from shim.tasks.promote import promotes
from shim.tasks.service import Tasks
from shim.upstreams.base import Context
from shim.wire.errors import UpstreamFault, method_not_found, missing_capability, stopping
from shim.wire.http import SERVER_ERROR
from shim.wire.jsonrpc import Message, Response, write_result
from shim.wire.modern import undeclared, wants_tasks, with_tasks
from shim.wire.subscriptions import LISTEN, listen_result


class ModernRelay:
    """Serves modern clients in front of a server of their own dialect."""

    def __init__(
        self, config: Config, hub: ModernFront, relay: Relay, tasks: Tasks, vouching: Vouching,
        streams: OpenStreams,
    ) -> None:  # fmt: skip
        self.upstream = hub.upstream
        self._config = config
        self._hub = hub
        self._passing = ModernPassing(relay, tasks.origins, hub.upstream.name)
        self._tasks = tasks
        self._vouching = vouching
        self._streams = streams
        self._seen = Seen(hub.upstream, tasks)
        self._param_checks = ParamChecks(hub.upstream, config.limits.pages)
        self._listening = Listening(config, hub.upstream, tasks.room.ledger, self._seen, vouching)
        self._dialect = hub.upstream.dialect
        methods = self._dialect.methods
        self._verbs: Mapping[str, Callable[[Asked], Awaitable[web.StreamResponse]]] = {
            CALL: self._call,
            str(methods.get): self._get,
            str(methods.update): self._update,
            str(methods.cancel): self._cancel,
            LISTEN: self._listen,
            "tools/list": self._list_tools,
            "server/discover": self._discover,
        }

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
        admission = admitted(self._config, http, message, ctx, reply)
        if admission is None:
            return reply.empty(202)
        ctx.trace.rule("MM-1")
        asked = Asked(http, *admission, ctx, reply)
        verb = self._verbs.get(asked.request.method)
        if verb is not None:
            return await verb(asked)
        if asked.request.method.startswith("tasks/"):
            raise method_not_found(asked.request.method)
        return await self._passing.forward(asked)

    # -- verbs ----------------------------------------------------------------------------------

    async def _call(self, asked: Asked) -> web.StreamResponse:
        ctx, params = asked.ctx, asked.request.params
        ctx.trace.tool = rawjson.string(params.get("name"))
        await self._param_checks.check(asked.http, ctx, params, ask=False)  # the server judges as well
        keyed = keyed_call(asked.http, ctx, params, params)
        if keyed is not None or await self._promoted(asked):
            ctx.capabilities = asked.meta.declared
            return await self._hub.serve(
                Call(asked.request, asked.meta, ctx, self.upstream, keyed), asked.reply
            )
        if not asked.meta.declares_tasks:
            return await self._passing.forward(asked, tap=self._recorded(asked))
        if not await has_room(self._tasks.room, ctx):
            return await self._undeclared(asked)
        asked.reply.endure()
        work = asyncio.create_task(self._passing.forward(asked, tap=self._recorded(asked)), name="call")
        self._tasks.room.keep(work)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            self._tasks.room.leave(work)
            raise

    async def _undeclared(self, asked: Asked) -> web.StreamResponse:
        """Pass a call of a caller with too many tasks as one that must not become a task (MM-1)."""

        async def seen(response: Response) -> bytes | None:
            if wants_tasks(response.error):
                raise no_room(asked.ctx)
            return await self._seen.created(asked, response)

        return await self._passing.forward(
            asked, params=undeclared(asked.request.params), tap=of_answer(asked, seen)
        )

    async def _promoted(self, asked: Asked) -> bool:
        """Tell whether the shim itself runs the call as a task (PROMOTE-1). Raises ShimError."""
        tool = asked.ctx.trace.tool
        if tool is None or not asked.meta.declares_tasks:
            return False
        return await promotes(self._config, self.upstream, asked.ctx, tool)

    async def _discover(self, asked: Asked) -> web.StreamResponse:
        """Pass what the server says of itself; tasks that only the shim has are offered too (PROMOTE-1)."""
        if not self._config.tasks.promote:
            return await self._passing.forward(asked)

        async def seen(response: Response) -> bytes | None:
            members = rawjson.members(response.result) if response.result is not None else {}
            offered = with_tasks(members)
            if response.result is None or offered == members:
                return None
            return write_result(asked.request.id, rawjson.join(offered))

        return await self._passing.forward(asked, tap=of_answer(asked, seen))

    async def _get(self, asked: Asked) -> web.StreamResponse:
        row = await self._owned(asked)
        if not self._relayed(row):
            return await self._by_hub(asked)
        began_ms = self._tasks.room.clock.now_ms()

        async def seen(response: Response) -> bytes | None:
            return await self._seen.shown(asked, row, response, began_ms=began_ms)

        return await self._passing.forward(asked, tap=of_answer(asked, seen))

    async def _update(self, asked: Asked) -> web.StreamResponse:
        row = await self._owned(asked)
        if not self._relayed(row):
            return await self._by_hub(asked)
        responses = responses_of(asked.request.params)
        asked.reply.endure()
        work = asyncio.create_task(self._bring(asked, row, responses), name="update")
        self._tasks.room.keep(work)  # what was stored as the answer gets to the server
        return await asyncio.shield(work)

    async def _cancel(self, asked: Asked) -> web.StreamResponse:
        row = await self._owned(asked)
        if not self._relayed(row):
            return await self._by_hub(asked)
        try:
            return await self._passing.forward(asked)
        finally:
            self._tasks.observer.forget(row.pk)

    async def _listen(self, asked: Asked) -> web.StreamResponse:
        subscription = await self._listening.subscription(asked)
        if subscription is None:
            return await self._by_hub(asked)
        tap = self._listening.tap(asked, subscription.rows)
        stop = asyncio.Event()
        with self._streams.opening(asked.ctx.caller, stop):
            passed = await unless(stop, self._passing.forward(asked, params=subscription.params, tap=tap))
            if passed is not None:
                return passed
            if not asked.reply.streaming:
                raise stopping()
            if self._streams.stopping:
                await call_off(asked.request.id, asked.reply)
            return await asked.reply.send(write_result(asked.request.id, listen_result(asked.request.id)))

    async def _list_tools(self, asked: Asked) -> web.StreamResponse:
        async def seen(response: Response) -> None:
            if response.result is not None:
                self._param_checks.listed(asked.ctx, asked.request.params, response.result)

        return await self._passing.forward(asked, tap=of_answer(asked, seen))

    # -- what the verbs share -------------------------------------------------------------------

    def _recorded(self, asked: Asked) -> Tap:
        async def seen(response: Response) -> bytes | None:
            return await self._seen.created(asked, response)

        return of_answer(asked, seen)

    async def _bring(self, asked: Asked, row: TaskRow, responses: Members) -> web.StreamResponse:
        """Store the answers as the first ones and pass them on; where that fails they go on until taken."""
        questions = self._tasks.questions
        claim = await questions.claim(asked.ctx, row, responses)
        if responses and not claim.onwards:
            return await self._acknowledge(asked)
        judged = False

        async def seen(response: Response) -> bytes | None:
            nonlocal judged
            judged = True
            await (questions.refused if response.result is None else questions.taken)(row, claim)
            self._tasks.observer.forget(row.pk)
            return None

        params = None
        if claim.onwards != responses:
            params = {**asked.request.params, "inputResponses": rawjson.join(claim.onwards)}
        answer: web.StreamResponse | None = None
        try:
            answer = await self._passing.forward(asked, params=params, tap=of_answer(asked, seen))
        except UpstreamFault:
            if judged or not claim.claimed:
                raise
        if answer is not None and (judged or answer.status < SERVER_ERROR):
            if not judged:
                await questions.refused(row, claim)
            return answer
        for one in claim.claimed:
            questions.deliver(row, one)
        return await self._acknowledge(asked)

    async def _acknowledge(self, asked: Asked) -> web.StreamResponse:
        return await asked.reply.send(write_result(asked.request.id, ACK))

    async def _owned(self, asked: Asked) -> TaskRow:
        """Give the caller's task that the request names. Raises ShimError."""
        if not asked.meta.declares_tasks:
            asked.ctx.trace.rule("ML-UNDECLARED")
            raise missing_capability()
        await self._vouching.ensure(asked.ctx)
        return await own(self._tasks.room, asked.ctx, task_id_of(asked.request.params))

    def _relayed(self, row: TaskRow) -> bool:
        """Tell whether the server is to be asked itself: the task lives there, by that id, and goes on."""
        return (
            (row.upstream, row.dialect) == (self.upstream.name, self._dialect.name)
            and not row.local
            and row.task_id == row.upstream_task_id
            and row.status not in TERMINAL
        )

    async def _by_hub(self, asked: Asked) -> web.StreamResponse:
        call = Call(asked.request, asked.meta, asked.ctx, self.upstream, None)
        return await self._hub.serve(call, asked.reply)
