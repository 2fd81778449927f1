"""What time does to tasks: abandonment and expiry (DUR-4, DUR-6)."""

from shim.audit.trace import Trace
from shim.ledger.records import TaskRow
from shim.tasks.cancel import cancel
from shim.tasks.observe import Observer
from shim.tasks.room import Room
from shim.wire.errors import ShimError

_BATCH = 500


class Sweeper:
    """Goes through the ledger every `tasks.sweep_ms`."""

    def __init__(self, room: Room, observer: Observer) -> None:
        self._room = room
        self._observer = observer
        self._abandoned: set[int] = set()
        self._cancelled: set[int] = set()

    async def run(self) -> None:
        """Sweep until the shim stops."""
        while True:
            await self._room.clock.sleep_ms(self._room.config.tasks.sweep_ms)
            await self.once()

    async def once(self) -> None:
        """Sweep once: ended tasks lose payload, then row; open ones that nobody touches are seen to."""
        tasks, now_ms = self._room.config.tasks, self._room.clock.now_ms()
        purged = await self._room.ledger.purge(
            now_ms, retention_ms=tasks.retention_ms, tombstone_ms=tasks.tombstone_ms,
            max_age_ms=tasks.max_age_ms,
            idempotency_ms=tasks.idempotency_window_ms,
            session_ms=tasks.max_age_ms, limit=_BATCH,
        )  # fmt: skip
        for task_id in purged.task_ids:
            Trace.background(self._room.sink).event("task.purged", task_id=task_id)
        for upstream in self._room.upstreams.values():
            await upstream.sweep(delete=self._room.config.sessions.close)
        open_rows = await self._room.ledger.open_tasks(limit=_BATCH)
        if len(open_rows) < _BATCH:  # these are all: what has ended is forgotten
            self._abandoned &= {row.pk for row in open_rows}
            self._cancelled &= self._abandoned
        for row in open_rows:
            if now_ms - row.touched_ms >= tasks.abandoned_after_ms:
                await self._abandon(row)

    async def _abandon(self, row: TaskRow) -> None:
        ctx = self._room.own_context(row)
        if row.pk not in self._abandoned:
            self._abandoned.add(row.pk)
            ctx.trace.event("task.abandoned", task_id=row.task_id)
        if self._room.config.tasks.on_abandon != "cancel" or row.pk in self._cancelled:
            return
        if not self._room.waits(ctx, row):
            self._cancelled.add(row.pk)
            try:
                await cancel(self._room, self._observer, ctx, row)
            except ShimError:
                self._cancelled.discard(row.pk)  # the next sweep tries again
