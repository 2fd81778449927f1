"""Tasks that live in the shim: a plain call that runs on behind a handle (LM-CREATE).

The call may end in an answer, in an error, in questions, or in a task of the server's own, which the
handle then stands for. What the call needs is in memory: after a kill it is failed, "outcome unknown".
"""

import asyncio
import uuid
from dataclasses import dataclass, field, replace

from msgspec import structs

from shim.hub import rawjson
from shim.hub.codec import Reading
from shim.hub.rawjson import Members
from shim.hub.status import Status
from shim.hub.task import Task
from shim.ledger.records import InputRow, TaskRow
from shim.tasks.observe import Observer
from shim.tasks.questions import Questions
from shim.tasks.recording import iso, record
from shim.tasks.room import Room
from shim.tasks.terminal import End, error
from shim.upstreams.base import Answered, Context, Created, Upstream
from shim.wire.errors import ShimError, UpstreamFault, outcome_unknown
from shim.wire.jsonrpc import Notification, Response
from shim.wire.modern import MoreInput, bare_result, more_input

_TAKE_UP = 10_000
_PROGRESS = "notifications/progress"


@dataclass(slots=True)
class _Call:
    """A call that runs behind a handle."""

    work: asyncio.Task[None]
    answers: dict[str, bytes] = field(default_factory=dict)
    answered: asyncio.Event = field(default_factory=asyncio.Event)


class LocalTasks:
    """Runs calls behind handles. Implements `Holder`: a local task is asked here, not upstream."""

    def __init__(self, room: Room, observer: Observer, questions: Questions) -> None:
        self._room = room
        self._observer = observer
        self._questions = questions
        self._calls: dict[int, _Call] = {}

    async def recover(self) -> None:
        """End what an earlier run left: whether such a call ran to its end is not known (DUR-2)."""
        for row in await self._room.ledger.open_local_tasks(limit=_TAKE_UP):
            await self._observer.end(row, End(Status.FAILED, error=outcome_unknown().error_object()))

    async def create(
        self, ctx: Context, upstream: Upstream, params: Members, *, ttl_ms: int | None,
        session_id: str | None = None,
    ) -> TaskRow | Response:  # fmt: skip
        """Call the tool and give a handle: the server's own task, or a local one. Raises ShimError.

        An error that comes before any handle is the answer, and there is no task. `session_id` is a session
        that the client drives itself.
        """
        progress = _Progress(self._questions)
        behind = replace(ctx, notify=progress.heard, progress_token=b'"progress"')
        call = asyncio.create_task(
            upstream.create(behind, params, ttl_ms, session_id=session_id), name="local-call"
        )
        self._room.keep(call)
        await self._at_most(call, self._room.config.tasks.handle_after_ms)
        if call.done():
            made = call.result()
            if isinstance(made, Created):
                row = await record(
                    self._room, ctx, upstream, made.reading, session_id=made.session_id,
                    driven=session_id is not None, tool=rawjson.string(params.get("name")), meta=made.meta,
                )  # fmt: skip
                await upstream.keep(row)
                return row
            if made.response.error is not None:
                return made.response
        row = await self._hand_out(ctx, upstream, params, ttl_ms)
        progress.pk = row.pk
        follow = self._follow(behind, upstream, row, params, call, session_id)
        self._calls[row.pk] = _Call(self._room.start(follow, f"local {row.pk}"))
        return row

    # -- what the verbs ask of a local task ----------------------------------------------------

    async def cancel(self, ctx: Context, row: TaskRow) -> bool:
        """Leave the call, which is how a call is cancelled, and end the task."""
        call = self._calls.pop(row.pk, None)
        if call is not None:
            call.work.cancel()
        await self._observer.end(row, End(Status.CANCELLED), ctx=ctx)
        return True

    async def answer(self, ctx: Context, row: TaskRow, asked: InputRow) -> bool:
        """Take an answer to the call's question."""
        del ctx
        call = self._calls.get(row.pk)
        if call is None:
            return False
        call.answers[asked.key] = asked.response or b"{}"
        call.answered.set()
        return True

    async def ended(self, row: TaskRow) -> None:
        """Forget the call."""
        self._calls.pop(row.pk, None)

    # -- the call ------------------------------------------------------------------------------

    async def _at_most(self, call: "asyncio.Task[Created | Answered]", wait_ms: int) -> None:
        nap = asyncio.ensure_future(self._room.clock.sleep_ms(wait_ms))
        try:
            await asyncio.wait((call, nap), return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            call.cancel()
            raise
        finally:
            nap.cancel()

    async def _hand_out(
        self, ctx: Context, upstream: Upstream, params: Members, ttl_ms: int | None
    ) -> TaskRow:
        tasks, now = self._room.config.tasks, iso(self._room.clock.now_ms())
        task = Task(
            task_id=str(uuid.uuid4()), status=Status.WORKING, created_at=now, last_updated_at=now,
            ttl_ms=ttl_ms if ttl_ms is not None else tasks.default_ttl_ms,
            poll_interval_ms=tasks.default_poll_interval_ms,
        )  # fmt: skip
        return await record(
            self._room, ctx, upstream, Reading(task), session_id=None, driven=False,
            tool=rawjson.string(params.get("name")), local=True,
        )  # fmt: skip

    async def _follow(
        self, ctx: Context, upstream: Upstream, row: TaskRow, params: Members,
        call: "asyncio.Task[Created | Answered]", session_id: str | None,
    ) -> None:  # fmt: skip
        """Take what comes of the call into the task, however many rounds of questions it has."""
        try:
            made = await call
            for number in range(self._room.config.tasks.input_rounds):
                more = more_input(made.response.result) if isinstance(made, Answered) else None
                if more is None:
                    break
                for one in more.lenient:
                    ctx.trace.lenient(one.rule, one.detail)
                responses = await self._ask(ctx, row, more, number)
                retried = more.retry(params, responses)
                made = await upstream.create(ctx, retried, row.ttl_ms, session_id=session_id)
        except asyncio.CancelledError:
            call.cancel()
            raise
        except ShimError as fault:
            await self._observer.end(row, End(Status.FAILED, error=fault.error_object()), ctx=ctx)
            return
        if isinstance(made, Created):
            await self._map(ctx, upstream, row, made, driven=session_id is not None)
        else:
            await self._observer.end(row, self._end(made.response), ctx=ctx)

    async def _map(
        self, ctx: Context, upstream: Upstream, row: TaskRow, made: Created, *, driven: bool
    ) -> None:
        """Let the handle stand for the task that the server made after all."""
        self._calls.pop(row.pk, None)
        await self._room.ledger.map_task(row.pk, made.reading.task.task_id, made.session_id, driven=driven)
        row = await self._room.ledger.own_task(row.pk)
        await upstream.keep(row)
        task = made.reading.task
        await self._observer.record(row, structs.replace(task, status=Status.WORKING), ctx=ctx)

    def _end(self, response: Response) -> End:
        if response.result is None:
            return End(Status.FAILED, error=response.error)
        if more_input(response.result) is not None:
            message = "the server asked again and again (tasks.input_rounds)"
            return End(Status.FAILED, error=error(-32603, message))
        return End(Status.COMPLETED, result=bare_result(response.result))

    async def _ask(self, ctx: Context, row: TaskRow, more: MoreInput, number: int) -> dict[str, bytes]:
        """Show a round's questions and wait for all their answers. Raises UpstreamFault."""
        own_keys = {f"{number + 1}.{key}": key for key in more.requests}
        shown = {own: more.requests[key] for own, key in own_keys.items()}
        await self._questions.inline(ctx, row, shown)
        outstanding = {one.key for one in await self._room.ledger.inputs(row.pk, ("outstanding", "answered"))}
        if not shown.keys() <= outstanding:
            raise UpstreamFault(-32603, "the server asks what the task's client did not declare", 502)
        call = self._calls[row.pk]
        while not shown.keys() <= call.answers.keys():
            await call.answered.wait()
            call.answered.clear()
        return {key: call.answers[own] for own, key in own_keys.items()}


@dataclass(slots=True)
class _Progress:
    """Makes progress of the call the task's statusMessage, once there is one (ML-PROGRESS)."""

    questions: Questions
    pk: int | None = None

    async def heard(self, message: Notification) -> None:
        """Take a notification of the call."""
        text = rawjson.string(message.params.get("message"))
        if message.method == _PROGRESS and text and self.pk is not None:
            await self.questions.progress(self.pk, text)
