"""What passes between two modern sides and concerns a task: looked at, and taken into the ledger (MM-1)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from shim.fronts.relay import Tap
from shim.fronts.reply import Reply
from shim.hub import rawjson
from shim.hub.codec import SECTION_1, CodecError, TaskUnknownError, read_create, write_get, write_task
from shim.hub.rawjson import Members
from shim.hub.status import TERMINAL
from shim.ledger.records import TaskRow
from shim.tasks.recording import record
from shim.tasks.service import Tasks
from shim.upstreams.base import Context, Upstream
from shim.wire.envelope import ModernMeta, modern_error
from shim.wire.errors import INVALID_PARAMS, UpstreamFault
from shim.wire.jsonrpc import Request, Response, read_upstream, write_result
from shim.wire.modern import read_shown

_NEST = "task"
_OF_THE_REPLY = ("resultType", "_meta", _NEST)


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, checked, and where its answer goes."""

    http: web.BaseRequest
    request: Request
    meta: ModernMeta
    ctx: Context
    reply: Reply


def of_answer(asked: Asked, seen: Callable[[Response], Awaitable[bytes | None]]) -> Tap:
    """Give what looks at the answer of an exchange, and at nothing else on its stream.

    An exchange of the modern era has one answer; its id need not be written as the client wrote it. A body
    that is no JSON-RPC is an HTTP fault's own and passes.
    """

    async def look(data: bytes) -> bytes | None:
        try:
            message = read_upstream(data)
        except UpstreamFault:
            if b'"jsonrpc"' in data:
                raise
            return None
        if not isinstance(message, Response):
            return None
        if message.error is not None:
            asked.ctx.trace.code = modern_error(message.error)[0]
        return await seen(message)

    return look


class Seen:
    """Keeps the ledger as the server's messages have it, and the messages as the ledger has it."""

    def __init__(self, upstream: Upstream, tasks: Tasks) -> None:
        self._upstream = upstream
        self._dialect = upstream.dialect
        self._tasks = tasks

    async def created(self, asked: Asked, response: Response) -> bytes | None:
        """Write a task that a call became down before its handle passes (DUR-1, OWN-ID-MAP)."""
        ctx = asked.ctx
        members = rawjson.members(response.result) if response.result is not None else {}
        reading = read_create(self._dialect, members)
        if reading is None:
            return None
        if not asked.meta.declares_tasks:
            ctx.trace.event("upstream.invalid", rule="MM-1", detail="a task for an undeclared client")
        row = await record(
            self._tasks.room, ctx, self._upstream, reading,
            session_id=None, driven=False, tool=ctx.trace.tool, meta=reading.task.meta,
        )  # fmt: skip
        shown = self.renamed(self._flat(members), row)
        return None if shown == members else write_result(asked.request.id, rawjson.join(shown))

    async def shown(self, asked: Asked, row: TaskRow, response: Response, *, began_ms: int) -> bytes | None:
        """Take a tasks/get answer in; gives another in its place where the ledger has another end.

        `began_ms` is when the server was asked.

        Raises task_expired.
        """
        if response.error is not None:
            if modern_error(response.error)[0] != INVALID_PARAMS:
                return None
            now = await self._tasks.observer.missed(asked.ctx, row)
            agrees = now.status not in TERMINAL
        else:
            members = rawjson.members(response.result or b"{}")
            try:
                now, agrees = await self._take(asked.ctx, row, members, began_ms)
            except TaskUnknownError:
                now, agrees = await self._tasks.observer.missed(asked.ctx, row), False
        if agrees:
            return None
        task = await self._tasks.shown(asked.ctx, now)
        return write_result(asked.request.id, write_get(self._dialect, task))

    async def pushed(self, ctx: Context, row: TaskRow, params: Members) -> Members:
        """Take a pushed task in, and give it as the client has to see it."""
        now, agrees = await self._take(ctx, row, params)
        if agrees:
            return self.renamed(params, now)
        meta = {"_meta": params["_meta"]} if "_meta" in params else {}
        task = await self._tasks.shown(ctx, now)
        return {**rawjson.members(write_task(self._dialect, task)), **meta}

    def renamed(self, members: Members, row: TaskRow) -> Members:
        """Give a task's members with the id that its owner knows, wherever it stands."""
        named = self._dialect.fields.task_id
        own_id = {named: rawjson.encode(row.task_id)}
        if members.get(_NEST, b"")[:1] == b"{":
            members = {**members, _NEST: rawjson.join({**rawjson.members(members[_NEST]), **own_id})}
        return {**members, **own_id} if named in members else members

    def _flat(self, members: Members) -> Members:
        """Give a handle with its task where the dialect has it, or in both places where configured."""
        if self._dialect.fields.task_id not in members:
            flat = {key: value for key, value in members.items() if key != _NEST}
            members = flat | rawjson.members(members[_NEST])
        if self._tasks.room.config.modern.create_result != "both":
            return members
        task = {key: value for key, value in members.items() if key not in _OF_THE_REPLY}
        return {**members, _NEST: rawjson.join(task)}

    async def _take(
        self, ctx: Context, row: TaskRow, members: Members, began_ms: int | None = None
    ) -> tuple[TaskRow, bool]:
        """Give the task as it now is, and whether what the server says may pass.

        It may not where another end was shown before, which stands (HUB-1), nor in a form of section 1,
        which is read and never written. Raises CodecError.
        """
        try:
            reading = read_shown(self._dialect, members)
        except TaskUnknownError as exc:
            ctx.trace.lenient(SECTION_1, str(exc))
            raise
        except CodecError as exc:
            ctx.trace.event("upstream.invalid", rule="HUB-4", detail=str(exc))
            raise
        row = await self._tasks.room.ledger.own_task(row.pk)
        now = await self._tasks.observer.take(ctx, row, reading, began_ms=began_ms)
        as_published = all(one.rule != SECTION_1 for one in reading.lenient)
        return now, as_published and (now.status not in TERMINAL or now.status is reading.task.status)
