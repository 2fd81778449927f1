"""Exchanges about tasks that are passed through, and what is written down of them (LL-RECORD)."""

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from msgspec.structs import replace

from shim.fronts.legacy_request import Asked
from shim.fronts.passing import Passing
from shim.fronts.relay import DROPPED, Relay, Tap
from shim.hub import rawjson
from shim.hub.codec import SECTION_1, TaskUnknownError, read_create, read_task, write_create
from shim.hub.status import TERMINAL, Status
from shim.ledger.records import SessionRow, TaskRow
from shim.recent import Recent
from shim.tasks.create import room_for_one_more
from shim.tasks.handback import Waiting
from shim.tasks.recording import record
from shim.tasks.service import Tasks
from shim.tasks.terminal import End
from shim.tasks.view import task_of
from shim.upstreams.base import Upstream
from shim.wire.envelope import strip_related_task
from shim.wire.jsonrpc import Response, read_upstream, write_message, write_result

_REMEMBERED = 10_000


class Recording:
    """Relays what a client asks in the server's own dialect, and takes the answers into the ledger."""

    def __init__(self, upstream: Upstream, relay: Relay, tasks: Tasks, passing: Passing) -> None:
        self._upstream = upstream
        self._relay = relay
        self._tasks = tasks
        self._ledger = tasks.room.ledger
        self._passing = passing
        self._awaited: Recent[tuple[str, bytes], Tap] = Recent(_REMEMBERED)
        """What takes the answer to a create, by session and request id."""

    def resumed(self, session: SessionRow | None, tap: Tap | None) -> Tap | None:
        """Give what looks at a session's GET stream: the answer to a create may come on it (LL-RECORD)."""
        if session is None:
            return tap

        async def look(data: bytes) -> bytes | None:
            if self._awaited and b'"method"' not in data:
                message = read_upstream(data)
                if isinstance(message, Response) and message.id is not None:
                    recorded = self._awaited.get((session.session_id, message.id))
                    if recorded is not None:
                        return await recorded(data)
            return await tap(data) if tap is not None else None

        return look

    async def create(self, asked: Asked, tool: str | None) -> web.StreamResponse:
        """Pass a call that makes a task; the client sees no handle before it is written down."""
        ctx, session = asked.ctx, asked.session
        await room_for_one_more(self._tasks.room, ctx)
        passing = self._passing.tap(ctx, session, asked.dialect)
        awaited = (session.session_id if session else "", asked.message.id)

        async def recorded(data: bytes) -> bytes | None:
            message = read_upstream(data)
            if not isinstance(message, Response):
                return await passing(data) if passing is not None else None
            if message.id != asked.message.id:
                return None
            self._awaited.pop(awaited, None)
            if message.result is None:
                return None
            reading = read_create(asked.dialect, rawjson.members(message.result))
            if reading is None:
                return None
            row = await record(
                self._tasks.room, ctx, self._upstream, reading,
                session_id=session.session_id if session else None, driven=True, tool=tool,
            )  # fmt: skip
            if row.task_id == row.upstream_task_id:
                return None
            return write_result(message.id, write_create(asked.dialect, task_of(row)))

        async def passed() -> web.StreamResponse:
            with self._passing.creating(session):
                return await self._relay.forward(
                    asked.http, ctx, asked.reply, write_message(asked.message), tap=recorded
                )

        if session is not None:
            self._awaited[awaited] = recorded
        # a client that leaves does not end it: the server has the task, so its handle is read and kept
        asked.reply.endure()
        work = asyncio.create_task(passed(), name="create")
        self._tasks.room.keep(work)
        return await asyncio.shield(work)

    async def relay_result(self, asked: Asked, row: TaskRow) -> web.StreamResponse:
        """Pass a tasks/result, which is handed back when the shim stops."""

        def resumable() -> bool:
            return asked.reply.resumable or not asked.reply.streaming

        with self._tasks.hand_back.waiting(asked.ctx, row, asked.message.id, resumable) as waiting:
            return await self.relay(asked, row, waiting)

    async def relay_cancel(self, asked: Asked, row: TaskRow) -> web.StreamResponse:
        """Pass a cancel, which is on disk before the server hears of it, and off it where it is refused."""
        await self._ledger.mark_cancel(row.pk)

        async def refused() -> None:
            if not row.cancel_requested:  # else an earlier one was taken
                await self._ledger.mark_cancel(row.pk, asked=False)

        return await self.relay(asked, row, refused=refused)

    async def relay(
        self, asked: Asked, row: TaskRow, waiting: Waiting | None = None,
        refused: Callable[[], Awaitable[None]] | None = None,
    ) -> web.StreamResponse:  # fmt: skip
        """Pass an exchange about a task, and take what it shows of the task into the ledger."""
        passing = self._passing.tap(asked.ctx, asked.session, asked.dialect, row=row)
        began_ms = self._tasks.room.clock.now_ms()

        async def look(data: bytes) -> bytes | None:
            message = read_upstream(data)
            if not isinstance(message, Response):
                return await passing(data) if passing is not None else None
            if waiting is not None and waiting.called_off and message.error is not None:
                return DROPPED
            if refused is not None and message.error is not None:
                await refused()
            if message.result is not None and message.id == asked.message.id:
                await self._note(asked, row, message.result, began_ms)
            return None

        return await self._relay.forward(
            asked.http, asked.ctx, asked.reply, write_message(asked.message), tap=look
        )

    async def _note(self, asked: Asked, row: TaskRow, result: bytes, began_ms: int) -> None:
        """Take what passes by into the ledger: a state, its questions, or an ended task's payload."""
        observer, ctx = self._tasks.observer, asked.ctx
        row = await self._ledger.own_task(row.pk)
        members = rawjson.members(result)
        if asked.dialect.fields.task_id in members and asked.dialect.fields.status in members:
            try:
                reading = read_task(asked.dialect, members)
            except TaskUnknownError as exc:
                ctx.trace.lenient(SECTION_1, str(exc))
                return
            for one in reading.lenient:
                ctx.trace.lenient(one.rule, one.detail)
            task = reading.task
            if row.status in TERMINAL:
                if task.status not in TERMINAL:
                    detail = f"{row.status} -> {task.status}"
                    ctx.trace.event("hub.illegal_transition", rule="HUB-1", detail=detail)
            elif task.status is Status.CANCELLED:
                await observer.end(row, End(task.status), task, ctx=ctx)
            elif task.status in TERMINAL:
                observer.forget(row.pk)  # its payload is fetched when someone needs it
            else:
                is_look = asked.message.method == asked.dialect.methods.get
                looked_ms = began_ms if is_look else None
                await self._tasks.questions.looked(ctx, row, task, began_ms=looked_ms)
                open_too = Status.INPUT_REQUIRED if await self._ledger.inputs(row.pk) else Status.WORKING
                await observer.record(row, replace(task, status=open_too), ctx=ctx)
        elif "content" in members and row.status not in TERMINAL:
            await observer.end(row, End(Status.COMPLETED, result=strip_related_task(result)), ctx=ctx)
