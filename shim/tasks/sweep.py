"""What time does to tasks: abandonment and expiry (DUR-4, DUR-6)."""

import asyncio
from collections.abc import Callable

import structlog

from shim.audit.trace import Trace
from shim.ledger.records import TaskRow
from shim.tasks.cancel import cancel
from shim.tasks.observe import Observer
from shim.tasks.room import Room
from shim.upstreams.faults import fault_of

log = structlog.get_logger("shim.tasks")
_BATCH = 500
_TOLD, _SEEN_TO = 1, 2


class Sweeper:
    """Goes through the ledger every `tasks.sweep_ms`.

    `waited_for` gives the keys of the tasks that somebody waits for: that is as good as asking for them.
    """

    def __init__(self, room: Room, observer: Observer, waited_for: Callable[[], set[int]]) -> None:
        self._room = room
        self._observer = observer
        self._waited_for = waited_for
        self._sweeping = asyncio.Lock()

    async def run(self) -> None:
        """Sweep until the shim stops."""
        while True:
            await self._room.clock.sleep_ms(self._room.config.tasks.sweep_ms)
            try:
                await self.once()
            except Exception:
                log.exception("a sweep failed")  # the next one may go through

    async def once(self) -> None:
        """Sweep once: ended tasks lose payload, then row; open ones that nobody touches are seen to."""
        async with self._sweeping:
            await self._sweep()

    async def _sweep(self) -> None:
        tasks, now_ms = self._room.config.tasks, self._room.clock.now_ms()
        for pk in self._waited_for():
            self._room.ledger.touch(pk, now_ms)
        purged = await self._room.ledger.purge(
            now_ms, retention_ms=tasks.retention_ms, tombstone_ms=tasks.tombstone_ms,
            max_age_ms=tasks.max_age_ms,
            idempotency_ms=tasks.idempotency_window_ms,
            session_ms=tasks.max_age_ms, limit=_BATCH,
        )  # fmt: skip
        for task_id in purged.task_ids:
            Trace.background(self._room.sink).event("task.purged", task_id=task_id)
        for pk in purged.pks:
            await self._observer.gone(pk)
        for upstream in self._room.upstreams.values():
            await upstream.sweep(delete=self._room.config.sessions.close)
        await self._see_to_abandoned(now_ms - tasks.abandoned_after_ms)

    async def _see_to_abandoned(self, before_ms: int) -> None:
        """Tell of each task that no client has touched since, once, and cancel it if that is wanted."""
        after = 0
        while rows := await self._room.ledger.untouched_tasks(
            before_ms, below=_SEEN_TO, after=after, limit=_BATCH
        ):
            for row in rows:
                await self._abandon(row)
            after = rows[-1].pk

    async def _abandon(self, row: TaskRow) -> None:
        ctx, ledger = self._room.own_context(row), self._room.ledger
        if row.abandoned < _TOLD:
            await ledger.set_abandoned(row.pk, _TOLD)
            ctx.trace.event("task.abandoned", task_id=row.task_id)
        if self._room.config.tasks.on_abandon == "cancel":
            try:
                if self._room.waits(ctx, row):
                    return
                await cancel(self._room, self._observer, ctx, row)
            except Exception as exc:
                if fault_of(exc) is None:
                    raise
                return  # the next sweep tries again
        await ledger.set_abandoned(row.pk, _SEEN_TO)
