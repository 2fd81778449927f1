"""Open tasks that no client asks for: the shim itself looks at them, so that nothing waits for ever (DUR-6).

Once a task's end and its result are in the ledger it holds no session, and counts as open no more.
"""

import asyncio
from collections.abc import Callable

import structlog

from shim.ledger.records import TaskRow
from shim.tasks.observe import Observer
from shim.tasks.room import Room
from shim.upstreams.faults import fault_of

log = structlog.get_logger("shim.tasks")
_PAGE = 500
_AT_ONCE = 8
_ANY_STAGE = 3
"""Above every stage of an abandoned task: abandoned or not, it may end."""


class Lookout:
    """Looks at each such task once in `sessions.idle_ms`, a few at once.

    `waited_for` gives the keys of the tasks that somebody waits for, who hears of their end.
    """

    def __init__(self, room: Room, observer: Observer, waited_for: Callable[[], set[int]]) -> None:
        self._room = room
        self._observer = observer
        self._waited_for = waited_for

    async def run(self) -> None:
        """Look until the shim stops."""
        while True:
            await self._room.clock.sleep_ms(self._room.config.sessions.idle_ms)
            try:
                await self.once()
            except Exception:
                # the next round may go
                log.exception("the tasks that nobody asks for could not be looked at")

    async def once(self) -> None:
        """Look at each open task once that no client has touched for `sessions.idle_ms`."""
        before_ms, after = self._room.clock.now_ms() - self._room.config.sessions.idle_ms, 0
        while rows := await self._room.ledger.untouched_tasks(
            before_ms, below=_ANY_STAGE, after=after, limit=_PAGE
        ):
            for start in range(0, len(rows), _AT_ONCE):
                waited_for = self._waited_for()
                few = (row for row in rows[start : start + _AT_ONCE] if row.pk not in waited_for)
                await asyncio.gather(*(self._one(row) for row in few))
            after = rows[-1].pk

    async def _one(self, row: TaskRow) -> None:
        try:
            await look(self._room, self._observer, await self._room.ledger.own_task(row.pk))
        except Exception:
            log.exception("a task that nobody asks for could not be looked at", task_id=row.task_id)


async def look(room: Room, observer: Observer, row: TaskRow) -> None:
    """Look at a task at its server, unless it waits for a credential; a fault is for the next look."""
    if row.local:
        return
    ctx = room.own_context(row)
    try:
        if not room.waits(ctx, row):
            await observer.current(ctx, row)
    except Exception as exc:
        if fault_of(exc) is None:
            raise
