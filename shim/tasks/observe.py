"""Reading a task: from the ledger when it has ended, else from upstream, once for all who ask (ML-GET)."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from shim.hub.codec import CodecError, Reading
from shim.hub.rawjson import RawJsonError
from shim.hub.status import TERMINAL, Status
from shim.hub.task import Task
from shim.ledger.records import Observed, TaskRow
from shim.recent import Recent
from shim.tasks.questions import Questions
from shim.tasks.results import Results
from shim.tasks.room import Room
from shim.tasks.terminal import End, end_of, error
from shim.upstreams.base import Context, SessionLost, TaskUnknown
from shim.upstreams.faults import unreadable
from shim.wire.errors import UpstreamFault, end_not_kept, lost_task, task_expired

_FRESH_AT_MOST_MS = 1_000
_FRESH_SHARE = 4
_REMEMBERED = 50_000
_CAPTURE_MS = 250


@dataclass(slots=True)
class _Seen:
    """When a task was last looked at, and the time upstream gave for its last change."""

    at_ticks_ms: float
    last_updated_at: str | None


class Observer:
    """Keeps what was last seen of each task and asks upstream when that is too old."""

    def __init__(self, room: Room, results: Results, questions: Questions) -> None:
        self._room = room
        self._results = results
        self._questions = questions
        self._seen: Recent[int, _Seen] = Recent(_REMEMBERED)
        self._flights: dict[int, dict[str, asyncio.Task[TaskRow]]] = {}
        self._since_ms = room.clock.now_ms()
        self._unknown_since: Recent[int, float] = Recent(_REMEMBERED)

    def forget(self, pk: int) -> None:
        """Let the next reader ask upstream: an update or a cancel came in between.

        A look that is under way began before it, so that nobody joins it any more.
        """
        self._seen.pop(pk, None)
        self._flights.pop(pk, None)

    async def current(self, ctx: Context, row: TaskRow) -> TaskRow:
        """Give the task as it is now. Raises ShimError."""
        if row.status in TERMINAL:
            return row
        if row.local:
            return await self._room.ledger.own_task(row.pk)
        seen = self._seen.get(row.pk)
        if seen is not None and self._fresh(row, seen):
            return replace(row, last_updated_at=seen.last_updated_at)
        return await self._shared(ctx, row, self._observe)

    async def whole(self, ctx: Context, row: TaskRow) -> TaskRow:
        """Give a task with what it ended with, asked for once more where that is not kept (DUR-8).

        What cannot be had any more has an error in its place that says so. Raises ShimError.
        """
        if row.lacks_payload:
            row = await self._room.ledger.own_task(row.pk)
        return await self._shared(ctx, row, self._regain) if row.lacks_payload else row

    def _landed(self, pk: int, flights: dict[str, asyncio.Task[TaskRow]], whose: str) -> None:
        """Let go of a look that is over; what one from before a `forget` saw counts no more."""
        del flights[whose]
        if self._flights.get(pk) is not flights:
            self._seen.pop(pk, None)
        elif not flights:
            del self._flights[pk]

    async def take(
        self, ctx: Context, row: TaskRow, reading: Reading, *, began_ms: int | None = None
    ) -> TaskRow:
        """Take in what a look at a task showed, whoever looked, and give the task as it now is.

        `began_ms` is when the look began, None for what the server said by itself.
        """
        self._unknown_since.pop(row.pk, None)
        for one in reading.lenient:
            ctx.trace.lenient(one.rule, one.detail)
        latest = await self._advance(ctx, row, reading.task, began_ms)
        self._remember(latest)
        return latest

    async def record(self, row: TaskRow, task: Task, *, ctx: Context | None = None) -> TaskRow:
        """Take one observation of a task that has not ended into the ledger."""
        observed = await self._room.ledger.observe(
            row.pk,
            status=task.status,
            status_message=task.status_message,
            last_updated_at=task.last_updated_at,
            ttl_ms=task.ttl_ms,
            poll_interval_ms=task.poll_interval_ms,
            now_ms=self._room.clock.now_ms(),
        )
        self._note(row, observed, ctx=ctx)
        return observed.row

    async def end(
        self, row: TaskRow, end: End, task: Task | None = None, *, ctx: Context | None = None
    ) -> TaskRow:
        """Take a task's end into the ledger; whoever comes second reads the first one's (HUB-2)."""
        room = self._room
        self._unknown_since.pop(row.pk, None)
        observed = await room.ledger.observe(
            row.pk,
            status=end.status,
            status_message=task.status_message if task else None,
            last_updated_at=(task.last_updated_at if task else None) or row.last_updated_at,
            ttl_ms=task.ttl_ms if task else row.ttl_ms,
            poll_interval_ms=row.poll_interval_ms,
            result=end.result,
            error=end.error,
            now_ms=room.clock.now_ms(),
        )
        self._note(row, observed, ctx=ctx)
        await self._questions.close(observed.row)
        await self._let_go(observed.row)
        room.changes.ended(observed.row)
        return observed.row

    async def gone(self, pk: int) -> None:
        """Hold nothing for a task that time has taken; its session's next sweep lets go of it as well."""
        self._questions.forget(pk)
        await self._results.drop(pk)

    async def missed(self, ctx: Context, row: TaskRow) -> TaskRow:
        """Act on an upstream that does not know the task: lost only when said twice (ML-SESSION-LOST).

        Raises task_expired after its ttl.
        """
        room = self._room
        now_ms = room.clock.now_ms()
        if row.cancel_requested:
            return await self.end(row, End(Status.CANCELLED), ctx=ctx)
        if row.max_ttl_ms is not None and now_ms > row.first_seen_ms + row.max_ttl_ms:
            self._unknown_since.pop(row.pk, None)
            await room.ledger.expire(row.pk, now_ms)
            await self._let_go(row)
            raise task_expired()
        since = self._unknown_since.setdefault(row.pk, room.clock.ticks_ms())
        if room.clock.ticks_ms() - since < room.config.tasks.lost_confirm_ms:
            return row
        fault = lost_task()
        ctx.trace.event("task.lost", task_id=row.task_id, reason="unknown_twice")
        return await self.end(row, End(Status.FAILED, error=error(fault.code, fault.message)), ctx=ctx)

    async def _shared(
        self, ctx: Context, row: TaskRow, look: Callable[[Context, TaskRow], Coroutine[Any, Any, TaskRow]]
    ) -> TaskRow:
        """Look once for all who ask in the same moment."""
        # a second credential of the same caller is no reader of the first one's flight (OWN-VOUCH)
        whose = ctx.caller.credential.fingerprint if ctx.caller.credential else ""
        flights = self._flights.setdefault(row.pk, {})
        flight = flights.get(whose)
        if flight is None:
            flight = asyncio.create_task(look(ctx, row), name=f"look at {row.pk}")
            flights[whose] = flight
            self._room.keep(flight)  # it ends before the ledger is closed, which it writes to
            flight.add_done_callback(lambda _: self._landed(row.pk, flights, whose))
        return await asyncio.shield(flight)

    async def _regain(self, ctx: Context, row: TaskRow) -> TaskRow:
        """Ask the server once more how a task ended; only what agrees with the ledger counts (HUB-1)."""
        end = None if row.local else await self._end_there(ctx, row)
        if end is not None and end.status is row.status:
            return await self._room.ledger.regained(row.pk, end.result, end.error)
        restarted = (row.ended_ms or 0) <= self._since_ms
        fault = end_not_kept(row.status, restarted=restarted, local=row.local)
        return replace(row, error=fault.error_object())

    async def _end_there(self, ctx: Context, row: TaskRow) -> End | None:
        upstream = self._room.upstream(row)
        try:
            task = (await upstream.get(ctx, row)).task
            return await self._end_of(row, task) if task.status in TERMINAL else None
        except TaskUnknown:
            return None
        except SessionLost:
            raise UpstreamFault("the upstream lost the session while it was asked") from None
        except (CodecError, RawJsonError) as exc:
            raise _unreadable(ctx, exc) from exc
        finally:  # the look took a place in a session once more
            await self._let_go(await self._room.ledger.own_task(row.pk))

    async def _let_go(self, row: TaskRow) -> None:
        """Hold nothing for a task that has ended; its stream goes first: it is called off on its session."""
        await self.gone(row.pk)
        await self._room.holder(row).ended(row)

    def _fresh(self, row: TaskRow, seen: _Seen) -> bool:
        hint = row.poll_interval_ms or self._room.config.tasks.default_poll_interval_ms
        age_ms = self._room.clock.ticks_ms() - seen.at_ticks_ms
        return age_ms < min(hint / _FRESH_SHARE, _FRESH_AT_MOST_MS)

    async def _observe(self, ctx: Context, row: TaskRow) -> TaskRow:
        began_ms = self._room.clock.now_ms()
        try:
            reading = await self._room.upstream(row).get(ctx, row)
        except TaskUnknown:
            return await self.missed(ctx, row)
        except SessionLost:
            return row
        except (CodecError, RawJsonError) as exc:
            raise _unreadable(ctx, exc) from exc
        return await self.take(ctx, row, reading, began_ms=began_ms)

    async def _advance(self, ctx: Context, row: TaskRow, task: Task, began_ms: int | None) -> TaskRow:
        if row.status in TERMINAL:
            if task.status is not row.status:
                ctx.trace.event(
                    "hub.illegal_transition", rule="HUB-1", detail=f"{row.status} -> {task.status}"
                )
            return row
        if task.status in TERMINAL:
            return await self._ended(ctx, row, task)
        await self._questions.looked(ctx, row, task, began_ms=began_ms)
        asked = task.status is Status.INPUT_REQUIRED or self._room.changes.watched(row.pk)
        # a client that drives the session reads its streams itself (LL-ROUTE)
        if asked and not row.driven and self._room.upstream(row).dialect.methods.result:
            await self._listen(row, task)
        outstanding = await self._room.ledger.inputs(row.pk)
        shown = Status.INPUT_REQUIRED if outstanding else Status.WORKING
        message = task.status_message or self._questions.reported(row.pk)
        shown_task = replace(task, status=shown, status_message=message)
        if task.status is Status.INPUT_REQUIRED and not outstanding:
            return await self._questions.unasked(ctx, row, shown_task, self)
        self._questions.asked_after_all(row.pk)
        if _same(row, shown_task):
            # only the time of the last look differs: worth showing, not worth a commit
            return replace(row, last_updated_at=task.last_updated_at or row.last_updated_at)
        return await self.record(row, shown_task, ctx=ctx)

    async def _ended(self, ctx: Context, row: TaskRow, task: Task) -> TaskRow:
        end = await self._end_of(row, task)
        if end is None:
            return row  # not to be had yet: poll on
        if end.reason is not None:
            ctx.trace.lenient("ML-TERMINAL", end.reason)
        return await self.end(row, end, task, ctx=ctx)

    async def _end_of(self, row: TaskRow, task: Task) -> End | None:
        """Settle how a task ended that the server says has; None where its payload is not to be had yet."""
        states = self._room.upstream(row).dialect.inwards.values()
        # a dialect without the state says error for both (CS-STATUS)
        cancelled = row.cancel_requested and Status.CANCELLED not in states
        if task.status is Status.CANCELLED or (task.status is Status.FAILED and cancelled):
            return End(Status.CANCELLED)
        if task.result is not None or task.error is not None:
            return End(task.status, task.result, task.error)
        try:
            response = await self._results.payload(row)
        except TaskUnknown:
            response = None
        if response is None and task.status is Status.COMPLETED:
            return None
        return end_of(task.status, response, task.status_message)

    async def _listen(self, row: TaskRow, task: Task) -> None:
        """Open the task's stream for questions, and give one that is on its way a moment to come."""
        stream = self._results.ensure(row)
        if task.status is not Status.INPUT_REQUIRED or await self._room.ledger.inputs(row.pk):
            return
        with self._room.changes.watching(row.pk) as changed:
            if stream.done():
                return
            try:
                async with asyncio.timeout(_CAPTURE_MS / 1000):
                    await changed.wait()
            except TimeoutError:
                return

    def _remember(self, row: TaskRow) -> None:
        now_ms = self._room.clock.ticks_ms()
        self._seen[row.pk] = _Seen(now_ms, row.last_updated_at)
        while now_ms - next(iter(self._seen.values())).at_ticks_ms > _FRESH_AT_MOST_MS:
            self._seen.popitem(last=False)

    def _note(self, old: TaskRow, observed: Observed, *, ctx: Context | None) -> None:
        """Tell what became of an observation; an end is told by who wrote it, however many saw it (HUB-2)."""
        new = observed.row
        trace = ctx.trace if ctx is not None else self._room.own_context(old).trace
        if observed.illegal:
            trace.event("hub.illegal_transition", rule="HUB-1", detail=f"{new.status} is final")
        elif observed.changed and new.status is not old.status:
            age_ms = self._room.clock.now_ms() - new.first_seen_ms
            name = "task.ended" if new.status in TERMINAL else "task.status"
            trace.event(name, task_id=new.task_id, **{"from": old.status, "to": new.status}, age_ms=age_ms)
        self._seen.pop(old.pk, None)
        self._room.changes.publish(old.pk)


def _unreadable(ctx: Context, exc: Exception) -> UpstreamFault:
    ctx.trace.event("upstream.invalid", rule="HUB-4", detail=str(exc))
    return unreadable(exc)


def _same(row: TaskRow, task: Task) -> bool:
    return (
        row.status is task.status
        and row.status_message == task.status_message
        and row.ttl_ms == task.ttl_ms
        and row.poll_interval_ms == task.poll_interval_ms
    )
