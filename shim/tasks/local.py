"""Tasks that live in the shim: a plain call that runs on behind a handle (LM-CREATE, PROMOTE-1 to -3).

The call may end in an answer, in an error, in questions, or in a task of the server's own, which the
handle then stands for. What the call needs is in memory: after a kill it is failed, "outcome unknown",
but for one that may run twice.
"""

import asyncio
import contextlib
import uuid
from dataclasses import replace

from msgspec import structs

from shim.hub import rawjson
from shim.hub.codec import Reading
from shim.hub.facts import CALL
from shim.hub.rawjson import Members
from shim.hub.status import TERMINAL, Status
from shim.hub.task import Task
from shim.ledger.records import EVERY_STATE, InputRow, TaskRow
from shim.tasks.observe import Observer
from shim.tasks.overheard import Overheard
from shim.tasks.promote import is_idempotent
from shim.tasks.questions import Claim, Questions
from shim.tasks.recording import iso, record
from shim.tasks.room import Room
from shim.tasks.run import Made, Run, unattended
from shim.tasks.terminal import End
from shim.upstreams.base import Answered, Context, Created, SessionLost, TaskUnknown, Upstream
from shim.upstreams.faults import fault_of
from shim.wire.errors import ShimError, UpstreamFault, internal, outcome_unknown
from shim.wire.jsonrpc import Response
from shim.wire.modern import MoreInput

_TAKE_UP = 10_000
_UNASKABLE = "the server asks what the task's client did not declare, or more than there is room for"


class LocalTasks:
    """Runs calls behind handles. Implements `Holder`: a local task is asked here, not upstream."""

    def __init__(self, room: Room, observer: Observer, questions: Questions) -> None:
        self._room = room
        self._observer = observer
        self._questions = questions
        self._runs: dict[int, Run] = {}

    async def recover(self) -> None:
        """End what an earlier run left: how far such a call got is not known (DUR-2, PROMOTE-3)."""
        for row in await self._room.ledger.open_local_tasks(limit=_TAKE_UP):
            call = await self._room.ledger.take_call(row.pk)
            upstream = self._room.upstreams.get((row.upstream, row.dialect))
            if call is None or upstream is None or not self._room.config.tasks.promote_rerun:
                await self._observer.end(row, End(Status.FAILED, error=outcome_unknown().error_object()))
            else:
                self._room.start(self._again(upstream, row, rawjson.members(call)), f"rerun {row.pk}")

    async def create(
        self, ctx: Context, upstream: Upstream, params: Members, *, ttl_ms: int | None,
        session_id: str | None = None,
    ) -> TaskRow | Response:  # fmt: skip
        """Call the tool and give a handle: the server's own task, or a local one. Raises ShimError.

        An error that comes before any handle is the answer, and there is no task. `session_id` is a session
        that the client drives itself.
        """
        overheard = Overheard(self._questions, ctx)
        behind = unattended(ctx, overheard)

        async def send(params: Members) -> Made:
            return await upstream.create(behind, params, ttl_ms, session_id=session_id)

        run = Run(behind, upstream, params, ttl_ms, send, overheard, driven=session_id is not None)
        made = await self._begun(run, self._room.config.tasks.handle_after_ms)
        if isinstance(made, Created):
            await overheard.settled(None)
            row = await record(
                self._room, ctx, upstream, made.reading, session_id=made.session_id,
                driven=run.driven, tool=rawjson.string(params.get("name")), meta=made.meta,
            )  # fmt: skip
            await upstream.keep(row)
            return row
        if made is not None and made.response.error is not None:
            return made.response
        return await self._behind_handle(run)

    async def promote(
        self, ctx: Context, upstream: Upstream, params: Members, *, ttl_ms: int | None, handle: bool
    ) -> TaskRow | Response:
        """Run a plain call behind a handle, or give the answer that came first (PROMOTE-1). Raises ShimError.

        `handle`: only an error is an answer.
        """
        tasks = self._room.config.tasks
        rerun = tasks.promote_rerun and await is_idempotent(
            self._room.config, upstream, ctx, rawjson.string(params.get("name")) or ""
        )
        run = self._plain_run(ctx, upstream, params, ttl_ms)
        made = await self._begun(run, tasks.promote_after_ms)
        asks = made is not None and run.more(made) is not None
        if isinstance(made, Answered) and not asks and not (handle and made.response.error is None):
            await run.overheard.settled(None)
            return made.response
        return await self._behind_handle(run, rerun=rerun)

    # -- what the verbs ask of a local task ----------------------------------------------------

    async def cancel(self, ctx: Context, row: TaskRow) -> bool:
        """Leave the call, which is how a call is cancelled, and end the task."""
        if (run := self._runs.pop(row.pk, None)) is not None:
            run.leave()
        await self._observer.end(row, End(Status.CANCELLED), ctx=ctx)
        return True

    async def answer(self, ctx: Context, row: TaskRow, asked: InputRow) -> bool:
        """Take an answer to the call's question, or bring it to its session. Raises UpstreamFault."""
        run = self._runs.get(row.pk)
        if run is None:
            return False
        if asked.upstream_id is not None:
            return await run.overheard.answer(ctx, asked)
        run.answers[asked.key] = asked.response or b"{}"
        run.answered.set()
        return True

    async def refuse(self, row: TaskRow, asked: InputRow, error: bytes | None) -> bool:
        """Tell the server that the client would not answer; False where it can only be told an answer."""
        run = self._runs.get(row.pk)
        if run is None or asked.upstream_id is None:
            return False
        if await self._room.ledger.answer_input(row.pk, asked.key, error or b"{}", by="session"):
            await run.overheard.refuse(asked, error)
            await self._questions.taken(row, Claim([asked], {}))
        return True

    async def ended(self, row: TaskRow) -> None:
        """Forget the call; one that goes on although its task has ended is left."""
        run = self._runs.pop(row.pk, None)
        if run is not None and run.work is not asyncio.current_task():
            run.leave()

    # -- the call ------------------------------------------------------------------------------

    def _plain_run(self, ctx: Context, upstream: Upstream, params: Members, ttl_ms: int | None) -> Run:
        """Make a run of a call that the server knows no task of."""
        overheard = Overheard(self._questions, ctx)
        behind = replace(unattended(ctx, overheard), takes_tasks=False, asking=overheard)

        async def send(params: Members) -> Made:
            return Answered(await upstream.plain(behind, CALL, params))

        return Run(behind, upstream, params, ttl_ms, send, overheard)

    async def _begun(self, run: Run, wait_ms: int) -> Made | None:
        """Start a call and give what came of it in a while; None for one that goes on. Raises ShimError."""
        run.first = asyncio.create_task(run.begun(), name="local-call")
        self._room.keep(run.first)
        if not wait_ms:
            return None
        nap = asyncio.ensure_future(self._room.clock.sleep_ms(wait_ms))
        asks = asyncio.ensure_future(run.overheard.asks.wait())
        try:
            await asyncio.wait((run.first, nap, asks), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            run.first.cancel()
            raise
        finally:
            nap.cancel()
            asks.cancel()
        if not run.first.done():
            return None
        try:
            return run.first.result()
        except Exception:
            await run.overheard.settled(None)
            raise

    async def _behind_handle(self, run: Run, *, rerun: bool = False) -> TaskRow:
        """Write the task down and let the call go on for it."""
        try:
            row = await self._hand_out(run)
            if rerun:
                await self._room.ledger.keep_call(row.pk, rawjson.join(run.params))
        except BaseException:
            await run.overheard.settled(None)
            if run.first is not None:
                run.first.cancel()
            raise
        await self._follow(run, row, 0)
        return row

    async def _hand_out(self, run: Run) -> TaskRow:
        tasks, now = self._room.config.tasks, iso(self._room.clock.now_ms())
        task = Task(
            task_id=str(uuid.uuid4()), status=Status.WORKING, created_at=now, last_updated_at=now,
            ttl_ms=run.ttl_ms if run.ttl_ms is not None else tasks.default_ttl_ms,
            poll_interval_ms=tasks.default_poll_interval_ms,
        )  # fmt: skip
        return await record(
            self._room, run.ctx, run.upstream, Reading(task), session_id=None, driven=False,
            tool=rawjson.string(run.params.get("name")), local=True,
        )  # fmt: skip

    async def _again(self, upstream: Upstream, row: TaskRow, params: Members) -> None:
        """Run a call once more that was under way when the shim died; what it asked it asks anew."""
        ledger, ctx = self._room.ledger, self._room.own_context(row)
        ctx = replace(ctx, capabilities=dict.fromkeys(row.kinds, b"{}"))
        rounds = len(await ledger.inputs(row.pk, EVERY_STATE))
        await ledger.close_inputs(row.pk)
        ctx.trace.event("task.rerun", task_id=row.task_id)
        await self._room.credential(ctx, row)
        run = self._plain_run(ctx, upstream, params, row.ttl_ms)
        await self._begun(run, 0)
        await self._follow(run, row, rounds)

    async def _follow(self, run: Run, row: TaskRow, rounds: int) -> None:
        self._runs[row.pk] = run
        run.work = self._room.start(self._through(run, row, rounds), f"local {row.pk}")
        await run.overheard.settled(row.pk)

    async def _through(self, run: Run, row: TaskRow, rounds: int) -> None:
        """Take what comes of the call into the task, however many rounds of questions it has.

        `rounds` were there before this run.
        """
        assert run.first is not None  # noqa: S101 - it was begun
        try:
            made = await run.first
            for number in range(self._room.config.tasks.input_rounds):
                more = run.more(made)
                if more is None:
                    break
                for one in more.lenient:
                    run.ctx.trace.lenient(one.rule, one.detail)
                responses = await self._ask(run, row, more, rounds + number)
                made = await run.send(more.retry(run.params, responses))
        except Exception as exc:
            fault = fault_of(exc)
            end = End(Status.FAILED, error=(fault or internal()).error_object())
            await self._observer.end(row, end, ctx=run.ctx)
            if fault is None:
                raise
            return
        if isinstance(made, Created):
            await self._map(run, row, made)
        else:
            await self._observer.end(row, run.end(made), ctx=run.ctx)

    async def _map(self, run: Run, row: TaskRow, made: Created) -> None:
        """Let the handle stand for the task that the server made after all."""
        self._runs.pop(row.pk, None)
        await self._room.ledger.map_task(
            row.pk, made.reading.task.task_id, made.session_id, driven=run.driven
        )
        row = await self._room.ledger.own_task(row.pk)
        if row.status in TERMINAL:  # cancelled in the same moment
            with contextlib.suppress(ShimError, TaskUnknown, SessionLost):
                await run.upstream.cancel(run.ctx, row)
            return
        await run.upstream.keep(row)
        task = made.reading.task
        await self._observer.record(row, structs.replace(task, status=Status.WORKING), ctx=run.ctx)

    async def _ask(self, run: Run, row: TaskRow, more: MoreInput, number: int) -> dict[str, bytes]:
        """Show a round's questions and wait for all their answers. Raises UpstreamFault."""
        own_keys = {f"{number + 1}.{key}": key for key in more.requests}
        shown = {own: more.requests[key] for own, key in own_keys.items()}
        await self._questions.inline(run.ctx, row, shown)
        outstanding = {one.key for one in await self._room.ledger.inputs(row.pk, ("outstanding", "answered"))}
        if not shown.keys() <= outstanding:
            raise UpstreamFault(_UNASKABLE)
        while not shown.keys() <= run.answers.keys():
            await run.answered.wait()
            run.answered.clear()
        return {key: run.answers[own] for own, key in own_keys.items()}
