"""What all the verbs share: the ledger, the upstreams, the time, the log, and who waits for what."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import structlog

from shim.audit.events import AuditSink
from shim.audit.trace import Trace
from shim.callers.caller import Caller, Kind
from shim.clock import Clock
from shim.config import Config
from shim.ledger.protocol import Ledger
from shim.ledger.records import TaskRow
from shim.tasks.changes import Changes
from shim.upstreams.base import Context, Holder, Upstream
from shim.wire.budget import Budget
from shim.wire.errors import UpstreamFault

_HANDLE_MS = 1_000
"""How long a handle that is on its way is waited for when its client has left."""

log = structlog.get_logger("shim.tasks")


@dataclass(slots=True)
class Room:
    """The parts that every verb is written against."""

    config: Config
    ledger: Ledger
    upstreams: Mapping[tuple[str, str], Upstream]
    """The speakers by upstream and dialect: a server may have one of each era."""
    clock: Clock
    sink: AuditSink
    budget: Budget = field(default_factory=Budget)
    """What may wait in memory."""
    changes: Changes = field(default_factory=Changes)
    adopting: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while a task is looked for that the ledger does not know (OWN-ADOPT)."""
    local: Holder | None = None
    """Where the tasks live that no server has."""
    creating: Counter[str] = field(default_factory=Counter)
    """How many tasks of each caller are being made, and are in no ledger yet."""
    background: set[asyncio.Task[Any]] = field(default_factory=set)

    def upstream(self, row: TaskRow) -> Upstream:
        """Give the upstream that made a task. Raises UpstreamFault for one that is not there any more."""
        try:
            return self.upstreams[row.upstream, row.dialect]
        except KeyError:
            where = f"upstream {row.upstream!r} and speaks {row.dialect}"
            raise UpstreamFault(f"the task lives at {where}, which is not configured") from None

    def holder(self, row: TaskRow) -> Holder:
        """Give where a task lives."""
        return self.local if row.local and self.local is not None else self.upstream(row)

    def own_context(self, row: TaskRow) -> Context:
        """Make the context of the shim's own work on a task: its owner's session, no client's request."""
        trace = Trace.background(self.sink, upstream=row.upstream)
        trace.task_id = row.task_id
        caller = Caller(key=row.caller, kind=cast("Kind", row.caller_kind), label=None, credential=None)
        return Context(caller=caller, trace=trace, kinds=row.kinds)

    def waits(self, ctx: Context, row: TaskRow) -> bool:
        """Tell whether work on a task has to wait for its owner's credential; each pause is told once."""
        credentials = self.upstream(row).credentials
        if not credentials.waiting(ctx):
            return False
        if credentials.pause(ctx, row.pk):
            ctx.trace.event("task.waiting_credential", task_id=row.task_id)
        return True

    async def credential(self, ctx: Context, row: TaskRow) -> None:
        """Wait until the shim may work on a task for its owner (OWN-CREDENTIAL)."""
        while self.waits(ctx, row):
            await self.upstream(row).credentials.renewed(ctx)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Run work in the background until it ends or the shim stops; a failure is logged, never lost."""
        task = asyncio.create_task(_guarded(work, name), name=name)
        task.add_done_callback(lambda _: work.close())  # one that is ended before it began
        self.keep(task)
        return task

    def keep(self, task: asyncio.Task[Any]) -> None:
        """Hold on to work that outlives the request which began it; at the end of the shim it is ended."""
        self.background.add(task)
        task.add_done_callback(self._over)

    def leave(self, call: asyncio.Task[Any]) -> None:
        """Close a modern call whose client has left, which cancels it, but for a handle on its way."""

        async def leaving() -> None:
            nap = asyncio.ensure_future(self.clock.sleep_ms(_HANDLE_MS))
            try:
                await asyncio.wait((call, nap), return_when=asyncio.FIRST_COMPLETED)
            finally:
                nap.cancel()
                call.cancel()

        self.start(leaving(), "leave a call")

    def _over(self, task: asyncio.Task[Any]) -> None:
        self.background.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for it was told

    async def close(self) -> None:
        """End all background work."""
        for task in list(self.background):
            task.cancel()
        await asyncio.gather(*self.background, return_exceptions=True)


async def _guarded(work: Coroutine[Any, Any, None], name: str) -> None:
    with contextlib.suppress(asyncio.CancelledError):
        try:
            await work
        except Exception:
            log.exception("background work failed", work=name)
