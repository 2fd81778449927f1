"""Tasks of legacy clients (LL-OWN, LL-ROUTE, LL-LIST, LL-RECORD, CS-*).

A verb is relayed when the client speaks the upstream's dialect and asks over the session the task lives
in; the answer is looked at on the way. Otherwise the hub's verb serves it, in the client's dialect.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import web

from shim.config import Config
from shim.fronts.legacy_result import wait_for_result
from shim.fronts.relay import Relay, Tap
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
from shim.tasks.view import task_of
from shim.upstreams.base import Context, Question, Upstream
from shim.wire.envelope import related_task_of, strip_related_task, tools_with_support
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
        if message.method == "tools/call":
            ctx.trace.tool = rawjson.string(message.params.get("name"))
            if dialect.creates_by_param and "task" in message.params:
                ctx.trace.feature("task param")
                return await self._create(asked)
        if message.method == "tools/list" and self._differs(asked) and dialect.lists_task_support:
            return await self._tools(asked)
        return None

    # -- taps: what passes by -------------------------------------------------------------------

    def tap(self, ctx: Context, session: SessionRow | None) -> Tap | None:
        """Give what looks at a relayed stream: questions are written down before they pass (LL-ROUTE)."""
        if session is None:
            return None

        async def look(data: bytes) -> bytes | None:
            if b'"method"' in data and b'"id"' in data:
                await self._passing_question(data, ctx, session)
            return None

        return look

    async def answered(self, message: Response, ctx: Context, session: SessionRow) -> bool:
        """Note a client's answer to a question; False if the question was answered before (dropped)."""
        if message.id is None:
            return True
        asked = await self._ledger.input_by_upstream_id(session.session_id, message.id)
        if asked is None:
            return True
        row = await self._ledger.own_task(asked.task_pk)
        response = message.result or message.error or b"{}"
        if not await self._ledger.answer_input(row.pk, asked.key, response, by="session"):
            ctx.trace.lenient("LL-ROUTE", "a second answer to one question: dropped")
            return False
        ctx.trace.event(
            "input.answered",
            task_id=row.task_id,
            key=asked.key,
            kind=asked.kind,
            waited_ms=self._tasks.room.clock.now_ms() - asked.asked_ms,
        )
        await self._ledger.deliver_input(row.pk, asked.key)
        self._tasks.observer.forget(row.pk)
        self._tasks.room.changes.publish(row.pk)
        return True

    async def _passing_question(self, data: bytes, ctx: Context, session: SessionRow) -> None:
        message = read_upstream(data)
        if not isinstance(message, Request):
            return
        related = related_task_of(message.params)
        open_tasks = await self._ledger.open_tasks(
            upstream=self._upstream.name, session_id=session.session_id, limit=1_000
        )
        named = [row for row in open_tasks if row.upstream_task_id == related]
        only = named or (open_tasks if related is None and len(open_tasks) == 1 else [])
        if only:
            await self._tasks.questions.question(
                Question(message, session.session_id, only[0].pk, _leave_to_client)
            )

    # -- verbs ----------------------------------------------------------------------------------

    async def _create(self, asked: Asked) -> web.StreamResponse:
        ctx, session = asked.ctx, asked.session
        ctx.trace.rule("LL-RECORD")
        call = asked.dialect.read_create_request(asked.message.params)
        ctx.trace.tool = call.tool
        if self._differs(asked) or (session is None and self._upstream.has_sessions):
            return await self._create_by_hub(asked, call.params, call.ttl_ms)

        async def recorded(data: bytes) -> bytes | None:
            message = read_upstream(data)
            if isinstance(message, Request):
                await self._passing(data, ctx, session)
            if not isinstance(message, Response) or message.result is None or message.id != asked.message.id:
                return None
            reading = read_create(asked.dialect, rawjson.members(message.result))
            if reading is None:
                return None
            row = await record(
                self._tasks.room, ctx, self._upstream, reading,
                session_id=session.session_id if session else None, driven=True, tool=call.tool,
                client_session=session.session_id if session else None,
            )  # fmt: skip
            if row.task_id == row.upstream_task_id:
                return None
            return write_result(message.id, write_create(asked.dialect, task_of(row)))

        return await self._relay.forward(
            asked.http, ctx, asked.reply, write_message(asked.message), tap=recorded
        )

    async def _passing(self, data: bytes, ctx: Context, session: SessionRow | None) -> None:
        if session is not None:
            await self._passing_question(data, ctx, session)

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
        return await self._say(asked, write_get(asked.dialect, task_of(row, inputs, self._kinds(asked))))

    async def _result(self, asked: Asked) -> web.StreamResponse:
        row = await self._own(asked)
        if self._relayed(asked, row):
            return await self._relay_task(asked, row)
        return await wait_for_result(
            self._config, self._tasks, asked.ctx, row, asked.reply, asked.message.id,
            dialect=asked.dialect,
            ask=asked.session is not None and asked.session.session_id == row.session_id,
        )  # fmt: skip

    async def _list(self, asked: Asked) -> web.StreamResponse:
        ctx = asked.ctx
        ctx.trace.rule("LL-LIST")
        cursor = asked.message.params.get("cursor")
        if cursor is not None and not rawjson.string(cursor):
            raise invalid_params("params.cursor: not a cursor of this list")
        own_session = asked.session.session_id if asked.session and ctx.caller.kind == "session" else None
        rows, more = await self._tasks.page(ctx, rawjson.string(cursor), own_session)
        listed = b",".join(write_task(asked.dialect, task_of(row)) for row in rows)
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
        return await self._say(asked, write_get(asked.dialect, task_of(row)))

    async def _answer(self, asked: Asked) -> web.StreamResponse:
        row = await self._own(asked)
        raw = asked.message.params.get("inputResponses", b"")
        try:
            responses = rawjson.strict_members(raw)
        except rawjson.RawJsonError as exc:
            raise invalid_params(f"params.inputResponses: {exc}") from exc
        if row.status not in TERMINAL:
            await self._tasks.questions.answer(asked.ctx, row, responses)
            self._tasks.observer.forget(row.pk)
        return await self._say(asked, b"{}")

    async def _tools(self, asked: Asked) -> web.StreamResponse:
        async def supported(data: bytes) -> bytes | None:
            message = read_upstream(data)
            if not isinstance(message, Response) or message.result is None or message.id is None:
                return None
            return write_result(message.id, tools_with_support(message.result, "optional"))

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

        async def look(data: bytes) -> bytes | None:
            message = read_upstream(data)
            if isinstance(message, Request):
                await self._passing(data, asked.ctx, asked.session)
            elif isinstance(message, Response) and message.result is not None:
                await self._note(asked, row, message)
            return None

        return await self._relay.forward(
            asked.http, asked.ctx, asked.reply, write_message(asked.message), tap=look
        )

    async def _note(self, asked: Asked, row: TaskRow, response: Response) -> None:
        """Take what passes by into the ledger: a state, or the payload of a task that has ended."""
        row = await self._ledger.own_task(row.pk)
        result = response.result
        if row.status in TERMINAL or result is None:
            return
        members = rawjson.members(result)
        if "taskId" in members and "status" in members:
            task = read_task(asked.dialect, members).task
            if task.status in TERMINAL:
                self._tasks.observer.forget(row.pk)  # its payload is fetched when someone needs it
            else:
                await self._tasks.observer.record(row, task, ctx=asked.ctx)
        elif "content" in members:
            end = End(Status.COMPLETED, result=strip_related_task(result))
            await self._tasks.observer.end(row, end, ctx=asked.ctx)

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


async def _leave_to_client(_code: int, _message: str) -> None:
    """A question that passes to the client is the client's to refuse."""
    await asyncio.sleep(0)
