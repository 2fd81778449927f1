"""The tasks that a subscription follows, each said once for every change (ML-LISTEN)."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass

from msgspec.structs import replace

from shim.hub.codec import CodecError
from shim.hub.status import TERMINAL
from shim.hub.task import Task
from shim.ledger.records import TaskRow
from shim.tasks.adopt import adopt
from shim.tasks.service import Tasks
from shim.upstreams.base import Context
from shim.wire.envelope import recoded
from shim.wire.errors import ShimError

_SHOWN_CHARS = 200


class _Signal(asyncio.Event):
    """An event that is noted where it is set."""

    def __init__(self, note: Callable[[], None]) -> None:
        super().__init__()
        self._note = note

    def set(self) -> None:
        """Note it."""
        self._note()


@dataclass(slots=True)
class _Followed:
    """A task, and what was said of it last."""

    row: TaskRow
    watch: contextlib.ExitStack
    said: Task | None = None


class Following:
    """Follows tasks for one subscription; `wake` is called when there is something to say."""

    def __init__(self, tasks: Tasks, ctx: Context, wake: Callable[[], None]) -> None:
        self._tasks = tasks
        self._ctx = ctx
        self._wake = wake
        self._followed: dict[int, _Followed] = {}
        self._changed: dict[int, None] = {}
        self._made: dict[int, None] = {}
        self._answers = True
        """False once the server failed to show a task: then the ledger has to do for the others."""

    async def own(self, task_ids: Iterable[str]) -> list[TaskRow]:
        """Give those that are the caller's; not theirs and not there are left out alike (OWN-CHECK)."""
        room, ctx, found = self._tasks.room, self._ctx, []
        for task_id in task_ids:
            looked = await room.ledger.lookup(ctx.caller.key, task_id)
            row = looked.row
            if row is None and looked.reason == "unknown_task":
                row = await adopt(room, ctx, task_id)
            if row is None:
                reason = looked.reason or "unknown_task"
                ctx.trace.event("denied", reason=reason, task_id=task_id[:_SHOWN_CHARS])
            elif not row.purged:
                found.append(row)
        return found

    async def every(self) -> list[TaskRow]:
        """Give the caller's tasks that have not ended."""
        room = self._tasks.room
        at_most = room.config.limits.open_tasks_per_caller
        return await room.ledger.open_tasks_of(self._ctx.caller.key, limit=at_most)

    def expecting(self) -> contextlib.AbstractContextManager[None]:
        """Follow every task that the caller makes from now on, while the block runs."""

        def made(pk: int) -> None:
            self._made[pk] = None
            self._wake()

        return self._tasks.room.changes.expecting(self._ctx.caller.key, made)

    def follow(self, row: TaskRow) -> None:
        """Say a task as it is, and again at every change until it ends."""
        if row.pk in self._followed:
            return

        def changed() -> None:
            self._changed[row.pk] = None
            self._wake()

        one = self._followed[row.pk] = _Followed(row, contextlib.ExitStack())
        if row.status not in TERMINAL:
            one.watch.enter_context(self._tasks.watchers.watching(row, _Signal(changed)))
        changed()

    async def news(self) -> AsyncIterator[Task]:
        """Give what has changed since it was said."""
        while self._made:
            pk = next(iter(self._made))
            del self._made[pk]
            self.follow(await self._tasks.room.ledger.own_task(pk))
        while self._changed:
            pk = next(iter(self._changed))
            del self._changed[pk]
            if (one := self._followed.get(pk)) is not None and (task := await self._look(one)) is not None:
                yield task

    def close(self) -> None:
        """Follow nothing any more."""
        for one in self._followed.values():
            one.watch.close()
        self._followed.clear()

    async def _look(self, one: _Followed) -> Task | None:
        """Give a task as `tasks/get` would, where it is not what was said last."""
        row = await self._latest(one)
        if row.status in TERMINAL or row.purged:
            one.watch.close()
            del self._followed[row.pk]
        if row.purged:
            return None
        try:
            task = await self._tasks.shown(self._ctx, row)
        except ShimError:  # what it ended with cannot be had now: for who asks for it (DUR-8)
            return None
        if task.error is not None:
            task = replace(task, error=recoded(task.error))
        said, one.said = one.said, replace(task, last_updated_at="")
        return None if said == one.said else task

    async def _latest(self, one: _Followed) -> TaskRow:
        """Look afresh the first time; later whoever watches the task has looked."""
        room = self._tasks.room
        if one.said is None and self._answers:
            try:
                await self._tasks.observer.current(self._ctx, one.row)
            except ShimError:
                self._answers = False
            except CodecError:
                pass  # shown as it was known before (HUB-4)
        return await room.ledger.own_task(one.row.pk)
