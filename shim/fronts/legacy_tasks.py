"""Tasks of legacy clients (LL-OWN, LL-ROUTE, LL-LIST, LL-RECORD, CS-*).

A verb is relayed when the client speaks the upstream's dialect and asks over the session the task lives
in; the answer is looked at on the way. Otherwise the hub's verb serves it, in the client's dialect.
"""

import contextlib
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from shim.config import Config
from shim.fronts.beside import LocalNews
from shim.fronts.detect import Detector
from shim.fronts.hosted.asking import Asking
from shim.fronts.legacy_record import Recording
from shim.fronts.legacy_request import Asked
from shim.fronts.legacy_result import Ask
from shim.fronts.legacy_verbs import Verbs, answer
from shim.fronts.origin_tap import naming
from shim.fronts.passing import Passing
from shim.fronts.relay import Relay, Tap
from shim.fronts.reply import Reply
from shim.hub import rawjson
from shim.hub.facts import CALL
from shim.hub.status import TERMINAL
from shim.ledger.records import EVERY_STATE, AskRow, SessionRow, TaskRow
from shim.tasks.handback import Exchange
from shim.tasks.idempotency import Idempotency
from shim.tasks.promote import is_promoted, listed, promotes
from shim.tasks.service import Tasks
from shim.upstreams.base import Context, Upstream
from shim.wire.era import knows_tasks
from shim.wire.errors import invalid_params, method_not_found
from shim.wire.jsonrpc import Response, read_upstream, write_message, write_result
from shim.wire.tool_lists import tool_names, tools_with_support

Verb = Callable[[Asked], Awaitable[web.StreamResponse | None]]


class LegacyTasks:
    """Serves what legacy clients do with tasks on one upstream."""

    def __init__(
        self, config: Config, upstream: Upstream, relay: Relay, tasks: Tasks, hub: Verbs,
        detector: Detector, asking: Asking,
    ) -> None:  # fmt: skip
        self._detector = detector
        self.passing = Passing(upstream, relay, tasks)
        self.recording = Recording(upstream, relay, tasks, self.passing)
        self._hub = hub
        self._asking = asking
        self._get_streams = asking.streams
        self.news = LocalNews(config, tasks, asking)
        self._config = config
        self._upstream = upstream
        self._relay = relay
        self._tasks = tasks
        self._ledger = tasks.room.ledger
        self._verbs: Mapping[str, Verb] = {
            "get": self._get, "result": self._result, "list": hub.list,
            "cancel": self._cancel, "answer": self._answer, "create": self._create,
        }  # fmt: skip

    @property
    def idempotency(self) -> Idempotency:
        """The hub's keyed calls."""
        return self._tasks.idempotency

    def exchange(self, session: SessionRow | None) -> contextlib.AbstractContextManager[Exchange | None]:
        """Note a call on a session while it is passed through."""
        if session is None:
            return contextlib.nullcontext()
        return self._tasks.hand_back.passing(session.session_id)

    async def serve(self, asked: Asked) -> web.StreamResponse | None:
        """Answer a request that concerns tasks; None for one that does not and is relayed as it is."""
        message, ctx, session, dialect = asked.message, asked.ctx, asked.session, asked.dialect
        verb = dialect.methods.verb(message.method)
        if verb is not None:
            ctx.trace.feature(message.method)
            return await self._verbs[verb](asked)
        if self._detector.about_tasks(message.method):
            raise method_not_found(message.method)
        if message.method == CALL:
            ctx.trace.tool = rawjson.string(message.params.get("name"))
            # no part of this dialect, so it is passed over; a server that took it would make a task
            # that nobody has written down
            self._detector.pass_over(asked)
            if dialect.asks_for_task(asked.message.params):
                ctx.trace.feature("task param")
                return await self._create(asked)
        if self._roams(asked) or (self._sessionless(asked) and self._differs(asked)):
            return await self._plain(asked)
        lists = dialect.lists_task_support and (self._differs(asked) or self._config.tasks.promote)
        knows = session is None or knows_tasks(session.version)
        if message.method == "tools/list" and lists and knows:
            return await self._tools(asked)
        return None

    # -- verbs ----------------------------------------------------------------------------------

    async def _create(self, asked: Asked) -> web.StreamResponse:
        ctx, session = asked.ctx, asked.session
        ctx.trace.rule("LL-RECORD")
        try:
            call = asked.dialect.read_create_request(asked.message.params)
        except ValueError as exc:
            raise invalid_params(f"params.{exc}") from exc
        ctx.trace.tool = call.tool
        if call.tool is not None and await promotes(self._config, self._upstream, ctx, call.tool):
            made = await self._hub.create(asked, call.params, call.ttl_ms)
            self._get_streams.wake(ctx.client_session)
            return made
        if self._roams(asked):
            return await self._hub.create(asked, call.params, call.ttl_ms)
        if self._differs(asked) or self._sessionless(asked):
            with self.passing.creating(session):
                return await self._hub.create(asked, call.params, call.ttl_ms, session=session)
        return await self.recording.create(asked, call.tool)

    async def _get(self, asked: Asked) -> web.StreamResponse:
        row = await self._hub.own(asked)
        if self._relayed(asked, row):
            return await self.recording.relay(asked, row)
        return await self._hub.get(asked, row)

    async def _result(self, asked: Asked) -> web.StreamResponse:
        row = await self._hub.own(asked)
        if self._relayed(asked, row):
            return await self.recording.relay_result(asked, row)
        elsewhere = row.local or row.upstream != self._upstream.name
        if elsewhere and asked.session is not None:
            return await self._hub.result(asked, row, self._asks(asked, asked.session))
        here = asked.session is not None and asked.session.session_id == row.session_id
        sent: set[str] = set()

        async def ask(row: TaskRow) -> None:
            if row.status not in TERMINAL:
                self._tasks.results.ensure(row)  # this client's own request, in the server's dialect
            await self.passing.ask(row, asked.reply, asked.dialect, sent)

        return await self._hub.result(asked, row, ask if here else None)

    def _asks(self, asked: Asked, session: SessionRow) -> Ask:
        """Give what sends a local task's questions here where the session has no GET stream (PROMOTE-2)."""
        sent: dict[str, AskRow] = {}

        async def say(message: bytes, _event_id: str) -> None:
            await asked.reply.event(message)  # the ids of this session's events are the server's

        async def ask(row: TaskRow) -> None:
            if not self._get_streams.is_open(row.client_session):
                await self._asking.task(row, session, say, sent, related=asked.dialect.related_task)

        return ask

    async def answered(
        self, http: web.BaseRequest, message: Response, ctx: Context, reply: Reply, session: SessionRow
    ) -> web.StreamResponse | None:
        """Take a client's answer to a task's question; None for one that belongs to none and is relayed."""
        where = (session.session_id, message.id or b"")
        if self._asking.waits(*where) or await self._ledger.asked_under(*where) is not None:
            await self._asking.answered(ctx, session, message)
            return reply.empty(202)
        return await self.passing.answered(http, message, ctx, reply, session)

    async def _cancel(self, asked: Asked) -> web.StreamResponse:
        row = await self._hub.own(asked)
        if self._relayed(asked, row):
            return await self.recording.relay_cancel(asked, row)
        return await self._hub.cancel(asked, row)

    async def _answer(self, asked: Asked) -> web.StreamResponse:
        row = await self._hub.own(asked)
        responses = await self._hub.responses(asked, row)
        known = {one.key for one in await self._ledger.inputs(row.pk, EVERY_STATE)}
        if self._relayed(asked, row) and not known & responses.keys():
            return await self.recording.relay(asked, row)
        return await self._hub.answer(asked, row, responses)

    async def _plain(self, asked: Asked) -> web.StreamResponse:
        """Serve a client without a session here, over one of the shim's own (CS-DETECT)."""
        message = asked.message
        response = await self._upstream.plain(asked.ctx, message.method, message.params)
        return await asked.reply.send(answer(message.id, response))

    async def _tools(self, asked: Asked) -> web.StreamResponse:
        async def supported(data: bytes) -> bytes | None:
            message = read_upstream(data)
            if not isinstance(message, Response) or message.result is None or message.id is None:
                return None
            support = await listed(self._config, self._upstream, asked.ctx, tool_names(message.result))
            if not self._differs(asked):  # what the server says of its own stays as it came
                support = {name: said for name, said in support.items() if is_promoted(self._config, name)}
            return write_result(message.id, tools_with_support(message.result, support))

        return await self._relay.forward(
            asked.http, asked.ctx, asked.reply, write_message(asked.message),
            tap=self.naming(asked, supported),
        )  # fmt: skip

    def naming(self, asked: Asked, tap: Tap | None) -> Tap | None:
        """Let a list's cursor say whose it is to a client whose session does not (CUTOVER-STAY)."""
        if asked.session is not None:
            return tap
        return naming(self._tasks.origins, asked.ctx.caller, self._upstream.name, asked.message.method, tap)

    # -- what the verbs share -------------------------------------------------------------------

    def _sessionless(self, asked: Asked) -> bool:
        """Tell whether a client has no session on a server that wants one."""
        return asked.session is None and self._upstream.has_sessions

    def _roams(self, asked: Asked) -> bool:
        """Tell whether a call comes from a session of another server, to a tool here (CUTOVER-TOOL)."""
        return asked.session is not None and asked.session.upstream != self._upstream.name

    def _differs(self, asked: Asked) -> bool:
        return asked.dialect.name != self._upstream.dialect.name

    def _relayed(self, asked: Asked, row: TaskRow) -> bool:
        """Tell whether the exchange can pass as it is: same dialect, and the session the task lives in."""
        asking = asked.session.session_id if asked.session is not None else None
        return (
            not self._differs(asked)
            and row.driven
            and row.session_id == asking
            and row.task_id == row.upstream_task_id
        )
