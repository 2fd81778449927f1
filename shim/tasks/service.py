"""The hub's verbs, each once, for every front (DESIGN "The rooms")."""

from collections.abc import Mapping, Sequence

from shim.callers.keys import Keys
from shim.hub.dialect import Dialect
from shim.hub.rawjson import Members
from shim.hub.status import TERMINAL
from shim.hub.task import Task
from shim.ledger.records import InputRow, SessionRow, TaskRow
from shim.tasks.access import own
from shim.tasks.cancel import cancel
from shim.tasks.create import Plan, create, plan
from shim.tasks.handback import HandBack
from shim.tasks.idempotency import Idempotency
from shim.tasks.listing import Listing
from shim.tasks.local import LocalTasks
from shim.tasks.lookout import Lookout
from shim.tasks.observe import Observer
from shim.tasks.origin import Origins
from shim.tasks.parked import ParkedCalls
from shim.tasks.questions import Questions
from shim.tasks.refusal import end_refused
from shim.tasks.results import DRAIN_MS, Results
from shim.tasks.room import Room
from shim.tasks.sweep import Sweeper
from shim.tasks.view import task_of
from shim.tasks.watch import Watchers
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
        self.local = room.local = LocalTasks(room, self.observer, questions)
        self.watchers = Watchers(room, self.observer)
        self.idempotency = Idempotency(room, instance, dialects)
        self.parked = ParkedCalls(room, keys, instance)
        self.origins = Origins(keys, several=len(room.config.upstream) > 1)
        self.hand_back = HandBack(room)
        self.listing = Listing(room, self.observer, keys)
        self.sweeper = Sweeper(room, self.observer, self._waited_for)
        self.lookout = Lookout(room, self.observer, self._waited_for)

    async def start(self) -> None:
        """Take up what an earlier run left: answers that were acknowledged go out first (DUR-2, DUR-5)."""
        await self.local.recover()
        for asked in await self.room.ledger.undelivered():
            self.questions.deliver(await self.room.ledger.own_task(asked.task_pk), asked)
        self.room.start(self.sweeper.run(), "sweep")
        self.room.start(self.lookout.run(), "look out")

    async def close(self) -> None:
        """Call off what is open upstream, so that nothing is swallowed while no shim runs."""
        await self.parked.close()
        await self.results.close()
        await self.questions.arrived(DRAIN_MS)
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
        handle: bool = False,
        promoted: bool = False,
    ) -> TaskRow | Response:
        """Make a task, or give the answer that upstream gave instead. Raises ShimError.

        `handle`: the client cannot take an answer in its place; only an error is one (LM-CREATE).
        `promoted`: the shim runs a plain call as the task (PROMOTE-1).
        """
        return await create(
            self.room, self.local, ctx, upstream, params,
            ttl_ms=ttl_ms, session=session, handle=handle, promoted=promoted,
        )  # fmt: skip

    async def get(self, ctx: Context, task_id: str) -> TaskRow:
        """Read a task of the caller's. Raises ShimError."""
        return await self.observer.current(ctx, await own(self.room, ctx, task_id))

    async def shown(self, ctx: Context, row: TaskRow) -> Task:
        """Show a row to a client that can answer what it declared. Raises ShimError."""
        row = await self.observer.whole(ctx, row)
        asked = () if row.status in TERMINAL else await self.room.ledger.inputs(row.pk)
        return task_of(row, asked, ctx.kinds)

    async def update(self, ctx: Context, task_id: str, responses: Mapping[str, bytes]) -> None:
        """Take answers to a task's questions; returns once they are on disk. Raises ShimError."""
        row = await own(self.room, ctx, task_id)
        if row.status not in TERMINAL:
            await self.questions.answer(ctx, row, responses)
            self.observer.forget(row.pk)

    async def refuse(self, ctx: Context, row: TaskRow, asked: InputRow, error: bytes | None) -> None:
        """Take it that a client would not answer a question: the server is told, or it is the task's end."""
        if not await self.local.refuse(row, asked, error):
            ctx.trace.loss("LM-INPUT", "error")
            await end_refused(self.room, self.observer, ctx, row, asked.kind, error)

    async def cancel(self, ctx: Context, task_id: str, *, pin: bool = False) -> TaskRow:
        """Cancel a task of the caller's and give it as it then is. Raises ShimError.

        `pin`: the client is told that it is cancelled, so it is (LM-CANCEL).
        """
        row = await own(self.room, ctx, task_id)
        return await cancel(self.room, self.observer, ctx, row, pin=pin)

    async def ended(self, ctx: Context, row: TaskRow) -> TaskRow:
        """Wait until a task ends, looking at the pace upstream asks for, and give it with what it ended with.

        Raises ClientFault, Denied.
        """
        return (
            row if row.status in TERMINAL and not row.lacks_payload else await self.watchers.ended(ctx, row)
        )

    async def page(
        self, ctx: Context, cursor: str | None, client_session: str | None
    ) -> tuple[Sequence[TaskRow], str | None]:
        """List the caller's tasks. Raises ShimError."""
        return await self.listing.page(ctx, cursor, client_session)

    def _waited_for(self) -> set[int]:
        return {*self.room.changes.waited_for, *self.hand_back.waited_for}
