"""Tasks of legacy clients (LL-OWN, LL-ROUTE, LL-LIST, LL-RECORD, CS-*).

A verb is relayed when the client speaks the upstream's dialect and asks over the session the task lives
in; the answer is looked at on the way. Otherwise the hub's verb serves it, in the client's dialect.
"""

from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web
from msgspec.structs import replace

from shim.config import Config
from shim.fronts.legacy_result import wait_for_result
from shim.fronts.passing import Passing
from shim.fronts.relay import Relay
from shim.fronts.reply import Reply
from shim.hub import rawjson
from shim.hub.codec import read_create, read_task, write_create, write_get, write_task
from shim.hub.dialect import Dialect
from shim.hub.status import TERMINAL, Status
from shim.ledger.records import SessionRow, TaskRow
from shim.tasks.access import own
from shim.tasks.create import record
from shim.tasks.service import Tasks
from shim.tasks.terminal import End
from shim.tasks.view import task_of, with_tool_error
from shim.upstreams.base import Context, Upstream
from shim.wire.envelope import strip_related_task, tool_names, tools_with_support
from shim.wire.errors import cancel_of_ended, invalid_params, method_not_found
from shim.wire.jsonrpc import Request, Response, read_upstream, write_error, write_message, write_result

Verb = Callable[["Asked"], Awaitable[web.StreamResponse | None]]


class Asked:
    """One legacy request about tasks."""

    __slots__ = ("ctx", "dialect", "http", "message", "reply", "session")

    def __init__(
        self, http: web.BaseRequest, message: Request, ctx: Context, reply: Reply,
        session: SessionRow | None, dialect: Dialect,
    ) -> None:  # fmt: skip
        self.http = http
        self.message = message
        self.ctx = ctx
        self.reply = reply
        self.session = session
        self.dialect = dialect


class LegacyTasks:
    """Serves what legacy clients do with tasks on one upstream."""

    def __init__(self, config: Config, upstream: Upstream, relay: Relay, tasks: Tasks) -> None:
        self.passing = Passing(upstream, relay, tasks)
        self._config = config
        self._upstream = upstream
        self._relay = relay
        self._tasks = tasks
        self._ledger = tasks.room.ledger
        self._verbs: Mapping[str, Verb] = {
            "get": self._get, "result": self._result, "list": self._list,
            "cancel": self._cancel, "answer": self._answer, "create": self._create,
        }  # fmt: skip

    async def serve(
        self, http: web.BaseRequest, message: Request, ctx: Context, reply: Reply,
        session: SessionRow | None, dialect: Dialect,
    ) -> web.StreamResponse | None:  # fmt: skip
        """Answer a request that concerns tasks; None for one that does not and is relayed as it is."""
        asked = Asked(http, message, ctx, reply, session, dialect)
        verb = dialect.methods.verb(message.method)
        if verb is not None:
            ctx.trace.feature(message.method)
            return await self._verbs[verb](asked)
        if message.method.startswith("tasks/"):
            raise method_not_found(message.method)
        if session is None and self._upstream.has_sessions and self._differs(asked):
            return await self._plain(asked)
        if message.method == "tools/call":
            ctx.trace.tool = rawjson.string(message.params.get("name"))
            if dialect.creates_by_param and "task" in message.params:
                ctx.trace.feature("task param")
                return await self._create(asked)
        if message.method == "tools/list" and self._differs(asked) and dialect.lists_task_support:
            return await self._tools(asked)
        return None

    async def dialect_of(self, message: Request, ctx: Context) -> str | None:
        """Give the dialect that the client of the request's task spoke when it made it (CS-DETECT)."""
        task_id = rawjson.string(message.params.get("taskId"))
        if task_id is None:
            return None
        row = (await self._ledger.lookup(ctx.caller.key, task_id)).row
        return row.client_dialect if row is not None else None

    # -- verbs ----------------------------------------------------------------------------------

    async def _create(self, asked: Asked) -> web.StreamResponse:
        ctx, session = asked.ctx, asked.session
        ctx.trace.rule("LL-RECORD")
        try:
            call = asked.dialect.read_create_request(asked.message.params)
        except ValueError as exc:
            raise invalid_params(f"params.{exc}") from exc
        ctx.trace.tool = call.tool
        if self._differs(asked) or (session is None and self._upstream.has_sessions):
            with self.passing.creating(session):
                return await self._create_by_hub(asked, call.params, call.ttl_ms)

        passing = self.passing.tap(ctx, session, asked.dialect)

        async def recorded(data: bytes) -> bytes | None:
            message = read_upstream(data)
            if not isinstance(message, Response):
                return await passing(data) if passing is not None else None
            if message.result is None or message.id != asked.message.id:
                return None
            reading = read_create(asked.dialect, rawjson.members(message.result))
            if reading is None:
                return None
            row = await record(
                self._tasks.room, ctx, self._upstream, reading,
                session_id=session.session_id if session else None, driven=True, tool=call.tool,
            )  # fmt: skip
            if row.task_id == row.upstream_task_id:
                return None
            return write_result(message.id, write_create(asked.dialect, task_of(row)))

        with self.passing.creating(session):
            return await self._relay.forward(
                asked.http, ctx, asked.reply, write_message(asked.message), tap=recorded
            )

    async def _create_by_hub(
        self, asked: Asked, params: dict[str, bytes], ttl_ms: int | None
    ) -> web.StreamResponse:
        made = await self._tasks.create(
            asked.ctx, self._upstream, params, ttl_ms=ttl_ms, session=asked.session
        )
        if isinstance(made, Response):
            return await asked.reply.send(_answer(asked.message.id, made))
        return await self._say(asked, write_create(asked.dialect, task_of(made)))

    async def _get(self, asked: Asked) -> web.StreamResponse:
        row = await self._own(asked)
        if self._relayed(asked, row):
            return await self._relay_task(asked, row)
        row = await self._tasks.observer.current(asked.ctx, row)
        inputs = () if row.status in TERMINAL else await self._ledger.inputs(row.pk)
        shown = with_tool_error(task_of(row, inputs, self._kinds(asked)))
        return await self._say(asked, write_get(asked.dialect, shown))

    async def _result(self, asked: Asked) -> web.StreamResponse:
        row = await self._own(asked)
        if self._relayed(asked, row):
            return await self._relay_task(asked, row)
        here = asked.session is not None and asked.session.session_id == row.session_id
        sent: set[str] = set()

        async def ask(row: TaskRow) -> None:
            self._tasks.results.ensure(row)  # this client's own request, in the server's dialect
            await self.passing.ask(row, asked.reply, asked.dialect, sent)

        return await wait_for_result(
            self._config, self._tasks, asked.ctx, row, asked.reply, asked.message.id,
            dialect=asked.dialect, ask=ask if here else None,
        )  # fmt: skip

    async def _list(self, asked: Asked) -> web.StreamResponse:
        ctx = asked.ctx
        ctx.trace.rule("LL-LIST")
        cursor = asked.message.params.get("cursor")
        if cursor is not None and not rawjson.string(cursor):
            raise invalid_params("params.cursor: not a cursor of this list")
        own_session = asked.session.session_id if asked.session and ctx.caller.kind == "session" else None
        rows, more = await self._tasks.page(ctx, rawjson.string(cursor), own_session)
        # the list is read without payloads; whether a result is a tool's error stands in it
        whole = [
            await self._ledger.own_task(row.pk) if row.status is Status.COMPLETED else row for row in rows
        ]
        listed = b",".join(write_task(asked.dialect, with_tool_error(task_of(row))) for row in whole)
        result = {"tasks": b"[" + listed + b"]"}
        if more is not None:
            result["nextCursor"] = rawjson.encode(more)
        return await self._say(asked, rawjson.join(result))

    async def _cancel(self, asked: Asked) -> web.StreamResponse:
        row = await self._own(asked)
        if self._relayed(asked, row):
            await self._ledger.mark_cancel(row.pk)
            return await self._relay_task(asked, row)
        if row.status in TERMINAL and asked.dialect.cancel_of_ended == "error":
            raise cancel_of_ended(row.status)
        row = await self._tasks.cancel(asked.ctx, row.task_id)
        return await self._say(asked, write_get(asked.dialect, with_tool_error(task_of(row))))

    async def _answer(self, asked: Asked) -> web.StreamResponse:
        """Take answers by key (CS-INPUT); one that came on a stream may be named by its request's id."""
        row = await self._own(asked)
        raw = asked.message.params.get("inputResponses", b"")
        try:
            responses = rawjson.strict_members(raw)
            for response in responses.values():
                rawjson.members(response)
        except rawjson.RawJsonError as exc:
            raise invalid_params(f"params.inputResponses: {exc}") from exc
        known = await self._ledger.inputs(row.pk, ("outstanding", "answered", "delivered", "closed"))
        by_id = {rawjson.string(one.upstream_id): one.key for one in known if one.upstream_id is not None}
        keyed = {by_id.get(key, key): response for key, response in responses.items()}
        if self._relayed(asked, row) and not {one.key for one in known} & keyed.keys():
            return await self._relay_task(asked, row)
        if row.status not in TERMINAL:
            await self._tasks.questions.answer(asked.ctx, row, keyed)
            self._tasks.observer.forget(row.pk)
        return await self._say(asked, b"{}")

    async def _plain(self, asked: Asked) -> web.StreamResponse:
        """Serve a client without a session on a server that wants one, over the shim's own (CS-DETECT)."""
        message = asked.message
        response = await self._upstream.plain(asked.ctx, message.method, message.params)
        return await asked.reply.send(_answer(message.id, response))

    async def _tools(self, asked: Asked) -> web.StreamResponse:
        async def supported(data: bytes) -> bytes | None:
            message = read_upstream(data)
            if not isinstance(message, Response) or message.result is None or message.id is None:
                return None
            names = tool_names(message.result)
            support = {name: await self._upstream.tool_support(asked.ctx, name) for name in names}
            return write_result(message.id, tools_with_support(message.result, support))

        return await self._relay.forward(
            asked.http, asked.ctx, asked.reply, write_message(asked.message), tap=supported
        )

    # -- what the verbs share -------------------------------------------------------------------

    async def _own(self, asked: Asked) -> TaskRow:
        asked.ctx.trace.rule("LL-OWN")
        task_id = rawjson.string(asked.message.params.get("taskId"))
        if task_id is None:
            raise invalid_params("params.taskId: expected a string")
        return await own(self._ledger, asked.ctx, task_id)

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

    async def _relay_task(self, asked: Asked, row: TaskRow) -> web.StreamResponse:
        """Pass an exchange about a task, and take what it shows of the task into the ledger."""
        passing = self.passing.tap(asked.ctx, asked.session, asked.dialect, row=row)

        async def look(data: bytes) -> bytes | None:
            message = read_upstream(data)
            if not isinstance(message, Response):
                return await passing(data) if passing is not None else None
            if message.result is not None and message.id == asked.message.id:
                await self._note(asked, row, message.result)
            return None

        return await self._relay.forward(
            asked.http, asked.ctx, asked.reply, write_message(asked.message), tap=look
        )

    async def _note(self, asked: Asked, row: TaskRow, result: bytes) -> None:
        """Take what passes by into the ledger: a state, its questions, or an ended task's payload."""
        observer, ctx = self._tasks.observer, asked.ctx
        row = await self._ledger.own_task(row.pk)
        members = rawjson.members(result)
        if asked.dialect.fields.task_id in members and asked.dialect.fields.status in members:
            task = read_task(asked.dialect, members).task
            if row.status in TERMINAL:
                if task.status not in TERMINAL:
                    detail = f"{row.status} -> {task.status}"
                    ctx.trace.event("hub.illegal_transition", rule="HUB-1", detail=detail)
            elif task.status is Status.CANCELLED:
                await observer.end(row, End(task.status), task, ctx=ctx)
            elif task.status in TERMINAL:
                observer.forget(row.pk)  # its payload is fetched when someone needs it
            else:
                await self._tasks.questions.inline(ctx, row, task.input_requests or {})
                open_too = Status.INPUT_REQUIRED if await self._ledger.inputs(row.pk) else Status.WORKING
                await observer.record(row, replace(task, status=open_too), ctx=ctx)
        elif "content" in members and row.status not in TERMINAL:
            await observer.end(row, End(Status.COMPLETED, result=strip_related_task(result)), ctx=ctx)

    def _kinds(self, asked: Asked) -> frozenset[str] | None:
        """Give the kinds of questions shown in a status: only to a caller without a session (CS-INPUT)."""
        if asked.session is not None or not asked.dialect.asks_inline:
            return None
        return frozenset(self._config.legacy.sessionless_kinds)

    async def _say(self, asked: Asked, result: bytes) -> web.StreamResponse:
        return await asked.reply.send(write_result(asked.message.id, result))


def _answer(message_id: bytes, response: Response) -> bytes:
    if response.result is not None:
        return write_result(message_id, response.result)
    error = rawjson.members(response.error or b"{}")
    return write_error(
        message_id, rawjson.decode(error.get("code", b"-32603")),
        rawjson.string(error.get("message")) or "", error.get("data"),
    )  # fmt: skip
