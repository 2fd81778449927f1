"""The hub's verbs, each once, for every front (DESIGN "The rooms")."""

import asyncio
from collections.abc import Mapping, Sequence

from shim.callers.keys import Keys
from shim.hub.dialect import Dialect
from shim.hub.rawjson import Members
from shim.hub.status import TERMINAL
from shim.hub.task import Task
from shim.ledger.records import SessionRow, TaskRow
from shim.tasks.access import own
from shim.tasks.cancel import cancel
from shim.tasks.create import Plan, create, plan
from shim.tasks.handback import HandBack
from shim.tasks.idempotency import Idempotency
from shim.tasks.listing import Listing
from shim.tasks.observe import Observer
from shim.tasks.questions import Questions
from shim.tasks.results import Results
from shim.tasks.room import Room
from shim.tasks.sweep import Sweeper
from shim.tasks.view import task_of
from shim.upstreams.base import Context, Upstream
from shim.wire.jsonrpc import Response


class Tasks:
    """What can be done with tasks, by whoever owns them."""

    def __init__(
        self, room: Room, keys: Keys, questions: Questions, *, instance: str, dialects: Mapping[str, Dialect]
    ) -> None:
        self.room = room
        self.questions = questions
        self.results = Results(room)
        self.observer = Observer(room, self.results, questions)
        self.idempotency = Idempotency(room, instance, dialects)
        self.hand_back = HandBack(room)
        self.listing = Listing(room, self.observer, keys)
        self.sweeper = Sweeper(room, self.observer)

    async def start(self) -> None:
        """Take up what an earlier run left: answers that were acknowledged go out first (DUR-2, DUR-5)."""
        for asked in await self.room.ledger.undelivered():
            self.questions.deliver(await self.room.ledger.own_task(asked.task_pk), asked)
        self.room.start(self.sweeper.run(), "sweep")

    async def close(self) -> None:
        """Call off what is open upstream, so that nothing is swallowed while no shim runs."""
        await self.results.close()
        await self.room.close()

    async def plan(self, ctx: Context, upstream: Upstream, tool: str, *, declared: bool) -> Plan:
        """Decide how a tools/call runs. Raises ShimError."""
        return await plan(self.room, ctx, upstream, tool, declared=declared)

    async def create(
        self,
        ctx: Context,
        upstream: Upstream,
        params: Members,
        *,
        ttl_ms: int | None,
        session: SessionRow | None = None,
    ) -> TaskRow | Response:
        """Make a task, or give the answer that upstream gave instead. Raises ShimError."""
        return await create(self.room, ctx, upstream, params, ttl_ms=ttl_ms, session=session)

    async def get(self, ctx: Context, task_id: str) -> TaskRow:
        """Read a task of the caller's. Raises ShimError."""
        return await self.observer.current(ctx, await self._own(ctx, task_id))

    async def shown(self, ctx: Context, row: TaskRow) -> Task:
        """Show a row to a client that can answer what it declared."""
        asked = () if row.status in TERMINAL else await self.room.ledger.inputs(row.pk)
        return task_of(row, asked, ctx.kinds)

    async def update(self, ctx: Context, task_id: str, responses: Mapping[str, bytes]) -> None:
        """Take answers to a task's questions; returns once they are on disk. Raises ShimError."""
        row = await self._own(ctx, task_id)
        if row.status not in TERMINAL:
            await self.questions.answer(ctx, row, responses)
            self.observer.forget(row.pk)

    async def cancel(self, ctx: Context, task_id: str) -> TaskRow:
        """Cancel a task of the caller's and give it as it then is. Raises ShimError."""
        row = await self._own(ctx, task_id)
        return await cancel(self.room, self.observer, ctx, row)

    async def ended(self, ctx: Context, row: TaskRow) -> TaskRow:
        """Wait until a task ends, looking at the pace upstream asks for. Raises ShimError."""
        with self.room.changes.watching(row.pk) as changed:
            while (row := await self.observer.current(ctx, row)).status not in TERMINAL:
                hint_ms = row.poll_interval_ms or self.room.config.tasks.default_poll_interval_ms
                await self._change(changed, hint_ms)
                row = await self.room.ledger.own_task(row.pk)
        return row

    async def page(
        self, ctx: Context, cursor: str | None, client_session: str | None
    ) -> tuple[Sequence[TaskRow], str | None]:
        """List the caller's tasks. Raises ShimError."""
        return await self.listing.page(ctx, cursor, client_session)

    async def _own(self, ctx: Context, task_id: str) -> TaskRow:
        row = await own(self.room.ledger, ctx, task_id)
        self.room.ledger.touch(row.pk, self.room.clock.now_ms())
        return row

    async def _change(self, changed: asyncio.Event, at_most_ms: float) -> None:
        """Wait for news of a task, or until it is time to look again."""
        news = asyncio.ensure_future(changed.wait())
        nap = asyncio.ensure_future(self.room.clock.sleep_ms(at_most_ms))
        try:
            await asyncio.wait((news, nap), return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()
            nap.cancel()
        changed.clear()
