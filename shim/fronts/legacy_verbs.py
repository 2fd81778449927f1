"""What legacy clients do with tasks, served from the hub in the client's own dialect (CS-*, LM-*, LL-1).

Whoever stands in front of the hub decides what is asked here and what is relayed.
"""

from collections.abc import Mapping, Sequence

from aiohttp import web
from msgspec.structs import replace

from shim.config import Config
from shim.fronts.legacy_request import Asked
from shim.fronts.legacy_result import Ask, wait_for_result
from shim.fronts.vouching import Vouching
from shim.hub import rawjson
from shim.hub.codec import SECTION_1, write_create, write_get, write_task
from shim.hub.status import TERMINAL, Status
from shim.hub.task import Task
from shim.ledger.records import EVERY_STATE, InputRow, SessionRow, TaskRow
from shim.tasks.access import own
from shim.tasks.promote import promotes
from shim.tasks.service import Tasks
from shim.tasks.view import task_of, with_tool_error
from shim.upstreams.base import Upstream
from shim.wire.envelope import legacy_error
from shim.wire.errors import cancel_of_ended, invalid_params
from shim.wire.jsonrpc import Response, write_error, write_result

_INPUT_RESPONSE = "tasks/inputResponse"
"""The articles' own name, which no published text has."""


class Verbs:
    """The verbs of a legacy dialect on the hub."""

    def __init__(self, config: Config, upstream: Upstream, tasks: Tasks, vouching: Vouching) -> None:
        self._vouching = vouching
        self._config = config
        self._upstream = upstream
        self._tasks = tasks
        self._ledger = tasks.room.ledger

    async def own(self, asked: Asked) -> TaskRow:
        """Give the task a request names, if it is the caller's. Raises ClientFault."""
        asked.ctx.trace.rule("LL-OWN")
        task_id = asked.dialect.named(asked.message.params)
        if task_id is None:
            raise invalid_params(f"params.{asked.dialect.fields.task_id}: expected a string")
        return await own(self._tasks.room, asked.ctx, task_id)

    async def create(
        self, asked: Asked, params: dict[str, bytes], ttl_ms: int | None, *, session: SessionRow | None = None
    ) -> web.StreamResponse:
        """Make a task and hand it out, over a client's own `session` where it drives one (LM-CREATE)."""
        promoted = await self.promoted(asked, rawjson.string(params.get("name")))
        made = await self._tasks.create(
            asked.ctx, self._upstream, params, ttl_ms=ttl_ms, session=session, handle=True, promoted=promoted
        )
        if isinstance(made, Response):
            return await asked.reply.send(answer(asked.message.id, made))
        return await self._say(asked, write_create(asked.dialect, task_of(made)))

    async def promoted(self, asked: Asked, tool: str | None) -> bool:
        """Tell whether the shim itself runs a tool as a task, to a client it may (PROMOTE-1)."""
        if tool is None or not await promotes(self._config, self._upstream, asked.ctx, tool):
            return False
        asked.ctx.trace.rule("PROMOTE-1")
        await self._vouching.ensure(asked.ctx)
        return True

    async def get(self, asked: Asked, row: TaskRow) -> web.StreamResponse:
        """Show a task."""
        row = await self._tasks.observer.current(asked.ctx, row)
        inputs = () if row.status in TERMINAL else await self._ledger.inputs(row.pk)
        shown = self._shown(row, inputs, self._kinds(asked))
        return await self._say(asked, write_get(asked.dialect, shown))

    async def result(self, asked: Asked, row: TaskRow, ask: Ask | None) -> web.StreamResponse:
        """Wait for a task's end and give its payload; `ask` sends its questions meanwhile."""
        return await wait_for_result(
            self._config, self._tasks, asked.ctx, row, asked.reply, asked.message.id,
            dialect=asked.dialect, ask=ask,
        )  # fmt: skip

    async def list(self, asked: Asked) -> web.StreamResponse:
        """List the caller's tasks (LL-LIST)."""
        ctx = asked.ctx
        ctx.trace.rule("LL-LIST")
        names = asked.dialect.members
        cursor = asked.message.params.get(names.cursor or "")
        if cursor is not None and not rawjson.string(cursor):
            raise invalid_params(f"params.{names.cursor}: not a cursor of this list")
        own_session = asked.session.session_id if asked.session and ctx.caller.kind == "session" else None
        rows, more = await self._tasks.page(ctx, rawjson.string(cursor), own_session)
        # the list is read without payloads; whether a result is a tool's error stands in it
        results = await self._ledger.results([row.pk for row in rows if row.status is Status.COMPLETED])
        whole = (replace(row, result=results.get(row.pk, row.result)) for row in rows)
        listed = b",".join(write_task(asked.dialect, self._shown(row)) for row in whole)
        result = {str(names.tasks): b"[" + listed + b"]"}
        if more is not None:
            result[str(names.next_cursor)] = rawjson.encode(more)
        return await self._say(asked, rawjson.join(result))

    async def cancel(self, asked: Asked, row: TaskRow) -> web.StreamResponse:
        """Cancel a task; one that has ended is refused where the dialect refuses."""
        refuses = asked.dialect.cancel_of_ended == "error"
        if self._upstream.dialect.carries.ack:
            # such a server takes a cancel of what has ended as well: a look first, so that no result is lost
            row = await self._tasks.observer.current(asked.ctx, row)
        if row.status in TERMINAL and refuses:
            raise cancel_of_ended(row.status)
        row = await self._tasks.cancel(asked.ctx, row.task_id, pin=not asked.dialect.carries.ack)
        if row.status in TERMINAL and row.status is not Status.CANCELLED and refuses:
            raise cancel_of_ended(row.status)  # its end came first
        return await self._say(asked, write_get(asked.dialect, self._shown(row)))

    async def responses(self, asked: Asked, row: TaskRow) -> Mapping[str, bytes]:
        """Read answers by key (CS-INPUT); one that came on a stream may be named by its request's id."""
        if asked.message.method == _INPUT_RESPONSE:
            asked.ctx.trace.lenient(SECTION_1, _INPUT_RESPONSE)
        name = str(asked.dialect.fields.input_responses)
        raw = asked.message.params.get(name, b"")
        try:
            given = rawjson.strict_members(raw)
            for response in given.values():
                rawjson.members(response)
        except rawjson.RawJsonError as exc:
            raise invalid_params(f"params.{name}: {exc}") from exc
        known = await self._ledger.inputs(row.pk, EVERY_STATE)
        by_id = {rawjson.string(one.upstream_id): one.key for one in known if one.upstream_id is not None}
        by_id |= {rawjson.string(one.request_id): one.key for one in await self._ledger.asks_of(row.pk)}
        return {by_id.get(key, key): response for key, response in given.items()}

    async def answer(self, asked: Asked, row: TaskRow, responses: Mapping[str, bytes]) -> web.StreamResponse:
        """Take answers; what nobody asks is ignored."""
        if row.status not in TERMINAL:
            await self._tasks.questions.answer(asked.ctx, row, responses)
            self._tasks.observer.forget(row.pk)
        return await self._say(asked, b"{}")

    def _kinds(self, asked: Asked) -> frozenset[str] | None:
        """Give the kinds of questions shown in a status: only to a caller without a session (CS-INPUT)."""
        if asked.session is not None or not asked.dialect.asks_inline:
            return None
        return frozenset(self._config.legacy.sessionless_kinds)

    def _shown(
        self, row: TaskRow, inputs: Sequence[InputRow] = (), kinds: frozenset[str] | None = None
    ) -> Task:
        """Show a task, a tool's error as the state the operator wants for it (LM-GET)."""
        return with_tool_error(row, task_of(row, inputs, kinds), self._config.legacy.tool_error_status)

    async def _say(self, asked: Asked, result: bytes) -> web.StreamResponse:
        return await asked.reply.send(write_result(asked.message.id, result))


def answer(message_id: bytes, response: Response) -> bytes:
    """Build a client's answer of an upstream's."""
    if response.result is not None:
        return write_result(message_id, response.result)
    return write_error(message_id, *legacy_error(response.error or b"{}"))
