"""Reading a task: from the ledger when it has ended, else from upstream, once for all who ask (ML-GET)."""

import asyncio
from dataclasses import dataclass

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
from shim.wire.errors import UpstreamFault, lost_task, task_expired

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
        self._flights: dict[tuple[int, str], asyncio.Task[TaskRow]] = {}
        self._unknown_since: Recent[int, float] = Recent(_REMEMBERED)

    def forget(self, pk: int) -> None:
        """Let the next reader ask upstream: an update or a cancel came in between."""
        self._seen.pop(pk, None)

    async def current(self, ctx: Context, row: TaskRow) -> TaskRow:
        """Give the task as it is now. Raises ShimError."""
        if row.status in TERMINAL:
            return row
        if row.local:
            return await self._room.ledger.own_task(row.pk)
        seen = self._seen.get(row.pk)
        if seen is not None and self._fresh(row, seen):
            return replace(row, last_updated_at=seen.last_updated_at)
        # a second credential of the same caller is no reader of the first one's flight (OWN-VOUCH)
        key = (row.pk, ctx.caller.credential.fingerprint if ctx.caller.credential else "")
        flight = self._flights.get(key)
        if flight is None:
            flight = asyncio.create_task(self._observe(ctx, row), name=f"observe {row.pk}")
            self._flights[key] = flight
            self._room.keep(flight)
            flight.add_done_callback(lambda _: self._flights.pop(key, None))
        return await asyncio.shield(flight)

    async def take(self, ctx: Context, row: TaskRow, reading: Reading) -> TaskRow:
        """Take in what a look at a task showed, whoever looked, and give the task as it now is."""
        self._unknown_since.pop(row.pk, None)
        for one in reading.lenient:
            ctx.trace.lenient(one.rule, one.detail)
        latest = await self._advance(ctx, row, reading.task)
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
        await room.holder(row).ended(observed.row)
        await self._results.drop(row.pk)
        room.changes.ended(observed.row)
        return observed.row

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
            raise task_expired()
        since = self._unknown_since.setdefault(row.pk, room.clock.ticks_ms())
        if room.clock.ticks_ms() - since < room.config.tasks.lost_confirm_ms:
            return row
        fault = lost_task()
        ctx.trace.event("task.lost", task_id=row.task_id, reason="unknown_twice")
        return await self.end(row, End(Status.FAILED, error=error(fault.code, fault.message)), ctx=ctx)

    def _fresh(self, row: TaskRow, seen: _Seen) -> bool:
        hint = row.poll_interval_ms or self._room.config.tasks.default_poll_interval_ms
        age_ms = self._room.clock.ticks_ms() - seen.at_ticks_ms
        return age_ms < min(hint / _FRESH_SHARE, _FRESH_AT_MOST_MS)

    async def _observe(self, ctx: Context, row: TaskRow) -> TaskRow:
        try:
            reading = await self._room.upstream(row).get(ctx, row)
        except TaskUnknown:
            return await self.missed(ctx, row)
        except SessionLost:
            return row
        except (CodecError, RawJsonError) as exc:
            ctx.trace.event("upstream.invalid", rule="HUB-4", detail=str(exc))
            raise UpstreamFault(-32603, f"the upstream's answer cannot be read: {exc}", 502) from exc
        return await self.take(ctx, row, reading)

    async def _advance(self, ctx: Context, row: TaskRow, task: Task) -> TaskRow:
        if row.status in TERMINAL:
            if task.status is not row.status:
                ctx.trace.event(
                    "hub.illegal_transition", rule="HUB-1", detail=f"{row.status} -> {task.status}"
                )
            return row
        if task.status in TERMINAL:
            return await self._ended(ctx, row, task)
        if task.input_requests:
            await self._questions.inline(ctx, row, task.input_requests)
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
        states = self._room.upstream(row).dialect.inwards.values()
        # a dialect without the state says error for both (CS-STATUS)
        cancelled = row.cancel_requested and Status.CANCELLED not in states
        if task.status is Status.CANCELLED or (task.status is Status.FAILED and cancelled):
            return await self.end(row, End(Status.CANCELLED), task, ctx=ctx)
        if task.result is not None or task.error is not None:
            return await self.end(row, End(task.status, task.result, task.error), task, ctx=ctx)
        try:
            response = await self._results.payload(row)
        except TaskUnknown:
            response = None
        if response is None and task.status is Status.COMPLETED:
            return row  # not to be had yet: poll on
        end = end_of(task.status, response, task.status_message)
        if end.reason is not None:
            ctx.trace.lenient("ML-TERMINAL", end.reason)
        return await self.end(row, end, task, ctx=ctx)

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
        self.forget(old.pk)
        self._room.changes.publish(old.pk)


def _same(row: TaskRow, task: Task) -> bool:
    return (
        row.status is task.status
        and row.status_message == task.status_message
        and row.ttl_ms == task.ttl_ms
        and row.poll_interval_ms == task.poll_interval_ms
    )
