"""One poller for each task that someone waits for, however many wait (LM-RESULT, DUR-6)."""

import asyncio
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from shim.hub.status import TERMINAL
from shim.ledger.records import TaskRow
from shim.tasks.observe import Observer
from shim.tasks.room import Room
from shim.upstreams.base import Context
from shim.upstreams.broken import Denied
from shim.wire.errors import ClientFault, ShimError, UpstreamFault, task_expired

_JITTER = (1.1, 1.2)
_BACK_OFF = 5
"""How many times slower a server is asked that does not answer."""


@dataclass(slots=True)
class _Watch:
    """A task that is watched."""

    watchers: int = 0
    poller: asyncio.Task[None] | None = None


class Watchers:
    """Looks at tasks at the upstream's pace while someone waits for them."""

    def __init__(self, room: Room, observer: Observer) -> None:
        self._room = room
        self._observer = observer
        self._watched: dict[int, _Watch] = {}

    @contextmanager
    def watching(self, row: TaskRow, wake: asyncio.Event | None = None) -> Iterator[asyncio.Event]:
        """Give an event that is set at every change of the task; the watcher clears it.

        `wake` is set in its place, where one watcher has many tasks.
        """
        watch = self._watched.setdefault(row.pk, _Watch())
        watch.watchers += 1
        if watch.poller is None:
            watch.poller = self._room.start(self._poll(row.pk), f"watch {row.pk}")
        try:
            with self._room.changes.watching(row.pk, wake) as changed:
                yield changed
        finally:
            watch.watchers -= 1
            if not watch.watchers:
                watch.poller.cancel()
                del self._watched[row.pk]

    async def ended(self, ctx: Context, row: TaskRow) -> TaskRow:
        """Wait until a task ends. Raises ClientFault, Denied: a fault of the caller's own is told at once.

        A server that is away is waited for: an error here would be taken for the task's own. Who comes to
        a task that is watched already costs the server no look.
        """
        comes_first = row.pk not in self._watched
        with self.watching(row) as changed:
            if comes_first:
                await self._look(ctx, row)
            while (row := await self.latest(row)).status not in TERMINAL:
                await changed.wait()
                changed.clear()
        while True:
            try:
                return await self._observer.whole(ctx, await self.latest(row))
            except Denied:
                raise
            except UpstreamFault:
                await self._room.clock.sleep_ms(self._hint_ms(row) * _BACK_OFF)

    async def latest(self, row: TaskRow) -> TaskRow:
        """Give a watched task as it was last seen. Raises ClientFault where it has expired."""
        row = await self._room.ledger.own_task(row.pk)
        if row.purged:
            raise task_expired()
        return row

    async def _look(self, ctx: Context, row: TaskRow) -> None:
        try:
            await self._observer.current(ctx, row)
        except Denied:
            raise
        except UpstreamFault:
            return

    async def _poll(self, pk: int) -> None:
        """Look at the task until it ends; a server that is away is asked more slowly, and waited for.

        The first look is the watcher's own.
        """
        room, slowness = self._room, 1
        while (row := await room.ledger.own_task(pk)).status not in TERMINAL:
            jitter = random.uniform(*_JITTER)  # noqa: S311 - no secret
            await room.clock.sleep_ms(self._hint_ms(row) * slowness * jitter)
            ctx = room.own_context(row)
            try:
                await room.credential(ctx, row)
                await self._observer.current(ctx, row)
            except ClientFault:  # it has expired
                break
            except ShimError:
                slowness = _BACK_OFF
            else:
                slowness = 1
        room.changes.publish(pk)  # what time ended was told to nobody

    def _hint_ms(self, row: TaskRow) -> int:
        return row.poll_interval_ms or self._room.config.tasks.default_poll_interval_ms
