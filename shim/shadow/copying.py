"""A copy of a call, run on a server to its end whatever form that answers in; no ledger knows of it.

Nobody stands behind a copy: what the server asks is refused, and ends it.
"""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from shim.audit.events import AuditSink
from shim.audit.trace import Trace
from shim.callers.caller import Caller
from shim.clock import Clock
from shim.hub import rawjson
from shim.hub.facts import CALL
from shim.hub.rawjson import Members
from shim.hub.status import TERMINAL, Status
from shim.ledger.records import TaskRow
from shim.tasks.recording import iso
from shim.tasks.terminal import CANCELLED, end_of
from shim.upstreams.base import (
    Context,
    Created,
    NotYet,
    Question,
    SessionEvents,
    SessionLost,
    TaskUnknown,
    Upstream,
)
from shim.wire.errors import METHOD_NOT_FOUND, ShimError
from shim.wire.jsonrpc import Response
from shim.wire.modern import is_question

COPIER = Caller("shadow", "header", "shadow")
"""Who calls in a copy: one caller of its own, without any credential."""
_CANCEL_S = 5


class Asked(Exception):
    """The server asks something before it goes on."""


class _Copy:
    """One copy that runs in this task. Implements `Asking`."""

    called_off = True

    def __init__(self) -> None:
        self.asked = False
        self._task: asyncio.Task[None] | None = asyncio.current_task()

    async def question(self, question: Question) -> None:
        """Refuse, and end the copy."""
        await question.refuse(METHOD_NOT_FOUND, "nobody can be asked")
        if not self.asked and self._task is not None:
            self.asked = True
            self._task.cancel()

    async def through(self, work: Coroutine[Any, Any, Response]) -> Response:
        """Run the copy here until it is asked something. Raises Asked."""
        task = self._task
        try:
            try:
                return await work
            finally:
                if self.asked:  # it went on without waiting for anything: the cancellation is still to come
                    await asyncio.sleep(0)
        except asyncio.CancelledError:
            if self.asked and task is not None and task.uncancel() == 0:
                raise Asked from None
            raise
        finally:
            self._task = None

    def withdrawn(self, request_id: bytes) -> None:
        """Do nothing: it was refused."""


class Copies:
    """Runs copies, and hears what the sessions of their tasks say."""

    def __init__(self, sink: AuditSink, clock: Clock, default_poll_ms: Callable[[], int]) -> None:
        self._sink = sink
        self._clock = clock
        self._default_poll_ms = default_poll_ms
        self._pks = itertools.count(-1, -1)
        self._running: dict[int, _Copy] = {}

    def of_task(self, pk: int | None) -> _Copy | None:
        """Give the copy that a task is; None for a task of the ledger."""
        return self._running.get(pk) if pk is not None else None

    async def run(self, upstream: Upstream, params: Members, *, ttl_ms: int) -> Response:
        """Run a call to its end. Raises Asked, ShimError and whatever `fault_of` knows.

        Who cancels it cancels it at the server. A task of it lives for `ttl_ms` there.
        """
        copy, pk = _Copy(), next(self._pks)
        ctx = Context(
            COPIER, Trace.background(self._sink, upstream=upstream.name), client_name="taskshim-shadow",
            asking=copy,
        )  # fmt: skip
        self._running[pk] = copy
        try:
            return await copy.through(self._through(ctx, upstream, params, pk, ttl_ms))
        finally:
            del self._running[pk]

    async def _through(
        self, ctx: Context, upstream: Upstream, params: Members, pk: int, ttl_ms: int
    ) -> Response:
        tool = rawjson.string(params["name"]) or ""
        if await upstream.tool_support(ctx, tool) == "forbidden":
            ctx.takes_tasks = False
            response = await upstream.plain(ctx, CALL, params)
        else:
            made = await upstream.create(ctx, params, ttl_ms)
            if isinstance(made, Created):
                return await self._task(ctx, upstream, made, pk)
            response = made.response
        if is_question(response.result):
            raise Asked
        return response

    async def _task(self, ctx: Context, upstream: Upstream, made: Created, pk: int) -> Response:
        """Follow a task to its end; one that is left before is cancelled."""
        row = self._row(upstream, made, pk)
        await upstream.keep(row)
        ended = False
        try:
            response = await self._followed(ctx, upstream, row, made)
            ended = True
            return response
        finally:
            if not ended:
                with contextlib.suppress(ShimError, TaskUnknown, SessionLost, TimeoutError):
                    async with asyncio.timeout(_CANCEL_S):
                        await upstream.cancel(ctx, row)
            await upstream.ended(row)

    async def _followed(self, ctx: Context, upstream: Upstream, row: TaskRow, made: Created) -> Response:
        task = made.reading.task
        while True:
            if task.status is Status.INPUT_REQUIRED:
                raise Asked
            if task.result is not None or task.error is not None:
                return Response(None, task.result, task.error)
            if task.status in TERMINAL:
                with contextlib.suppress(NotYet):
                    return await self._payload(ctx, upstream, row, task.status, task.status_message)
            await self._clock.sleep_ms(task.poll_interval_ms or self._default_poll_ms())
            task = (await upstream.get(ctx, row)).task

    async def _payload(
        self, ctx: Context, upstream: Upstream, row: TaskRow, status: Status, message: str | None
    ) -> Response:
        """Fetch what a task ended with. Raises NotYet."""
        response = None
        if status is not Status.CANCELLED and upstream.dialect.methods.result:
            response = await upstream.result(ctx, row, upstream.next_id())
        end = end_of(status, response, message)
        cancelled = CANCELLED if end.status is Status.CANCELLED else None
        return Response(None, end.result, end.error or cancelled)

    def _row(self, upstream: Upstream, made: Created, pk: int) -> TaskRow:
        """Give what stands for a row of the ledger."""
        task, now_ms = made.reading.task, self._clock.now_ms()
        return TaskRow(
            pk=pk, task_id=task.task_id, upstream=upstream.name, upstream_task_id=task.task_id,
            dialect=upstream.dialect.name, session_id=made.session_id, driven=False, caller=COPIER.key,
            caller_kind=COPIER.kind, created_at=iso(now_ms), last_updated_at=iso(now_ms),
            first_seen_ms=now_ms,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Ears:
    """Hears what upstream sessions say: of a copy here, of all else where it belongs. A `SessionEvents`."""

    copies: Copies
    events: SessionEvents

    async def question(self, question: Question) -> None:
        """Take up a question."""
        copy = self.copies.of_task(question.task_pk)
        await (self.events if copy is None else copy).question(question)

    async def withdrawn(self, session_id: str, request_id: bytes) -> None:
        """Take up that the server called a question off."""
        await self.events.withdrawn(session_id, request_id)

    async def status(self, task_pk: int) -> None:
        """Take up that the server announced a change of a task."""
        if task_pk >= 0:
            await self.events.status(task_pk)

    async def progress(self, task_pk: int, message: str) -> None:
        """Take up progress of a task whose handle was returned."""
        if task_pk >= 0:
            await self.events.progress(task_pk, message)

    async def unheard(self, task_pk: int) -> None:
        """Take up that the task's session is not listened to for want of a credential."""
        if task_pk >= 0:
            await self.events.unheard(task_pk)
