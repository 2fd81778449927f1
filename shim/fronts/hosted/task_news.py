"""What a session's stream says of its client's tasks: their questions, their changes (LM-INPUT)."""

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from shim.config import Config
from shim.fronts.hosted.asking import Asking, Say
from shim.fronts.hosted.streams import Open
from shim.hub.codec import write_task
from shim.hub.dialect import Dialect
from shim.hub.rawjson import members
from shim.hub.status import TERMINAL
from shim.ledger.records import AskRow, SessionRow, TaskRow
from shim.tasks.service import Tasks
from shim.tasks.view import task_of, with_tool_error
from shim.wire.jsonrpc import write_notification

Had = dict[int, dict[str, AskRow]]
"""The questions, by task and key, that went over a connection."""


@dataclass(slots=True)
class _Shown:
    """What the stream has said of a task."""

    row: TaskRow
    watch: contextlib.ExitStack


@dataclass(slots=True)
class TaskNews:
    """Follows tasks for one session's stream, which is woken at every change."""

    config: Config
    tasks: Tasks
    asking: Asking
    session: SessionRow
    dialect: Dialect
    stream: Open
    shown: dict[int, _Shown] = field(default_factory=dict)

    async def open_tasks(self) -> list[TaskRow]:
        """Give the tasks that the session has made and that have not ended."""
        return await self.tasks.room.ledger.open_tasks_of(
            self.session.caller, client_session=self.session.session_id,
            limit=self.config.limits.open_tasks_per_caller,
        )  # fmt: skip

    def follow(self, row: TaskRow) -> None:
        """Watch a task from now on, until it has ended."""
        if row.pk not in self.shown:
            one = self.shown[row.pk] = _Shown(row, contextlib.ExitStack())
            one.watch.enter_context(self.tasks.watchers.watching(row, self.stream.wake))

    async def tell(self, say: Callable[[bytes], Awaitable[None]], ask: Say | None, had: Had) -> None:
        """Say what is new of all that are followed; without `ask` nothing is asked."""
        for pk, one in list(self.shown.items()):
            if (await self._look(one, say, ask, had.setdefault(pk, {}))).status in TERMINAL:
                self.shown.pop(pk).watch.close()
                had.pop(pk, None)

    def close(self) -> None:
        """Watch nothing any more."""
        for one in self.shown.values():
            one.watch.close()
        self.shown.clear()

    async def _look(
        self, one: _Shown, say: Callable[[bytes], Awaitable[None]], ask: Say | None, sent: dict[str, AskRow]
    ) -> TaskRow:
        """Say what is new of a task: its questions before its state, as servers do."""
        ledger, dialect = self.tasks.room.ledger, self.dialect
        row = await ledger.own_task(one.row.pk)
        if ask is not None:
            await self.asking.task(row, self.session, ask, sent, related=dialect.related_task)
        changed = (row.status, row.status_message) != (one.row.status, one.row.status_message)
        one.row = row
        if changed and dialect.carries.announces and dialect.methods.status_notification:
            asked = () if row.status in TERMINAL else await ledger.inputs(row.pk)
            task = with_tool_error(row, task_of(row, asked), self.config.legacy.tool_error_status)
            await say(
                write_notification(dialect.methods.status_notification, members(write_task(dialect, task)))
            )
        return row
