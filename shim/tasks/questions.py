"""Questions inside a task: captured, stored under a key of their own, answered once (ML-INPUT, ML-UPDATE).

A question is stored with its upstream id before anyone sees it; an answer is stored before it is
acknowledged and then delivered until the server takes it, forgets the session, or the task ends.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from msgspec.structs import replace

from shim.audit.trace import Trace
from shim.hub import rawjson
from shim.hub.status import TERMINAL, Status
from shim.hub.task import Task
from shim.ledger.records import EVERY_STATE, InputRow, TaskRow
from shim.tasks.answers import Delivery, as_response
from shim.tasks.room import Room
from shim.tasks.terminal import End, error
from shim.upstreams.base import Context, Question
from shim.wire.errors import INTERNAL, METHOD_NOT_FOUND, ClientFault
from shim.wire.questions import KIND_OF, declined, question_params


@dataclass(frozen=True, slots=True)
class Claim:
    """Answers that were stored as the first ones, and by key all that may go on to the server."""

    claimed: list[InputRow]
    onwards: dict[str, bytes]
    """What was answered before is left out; what is not known here is the server's to judge."""


class Ends(Protocol):
    """What a lost question may need of the observer."""

    async def record(self, row: TaskRow, task: Task, *, ctx: Context | None = None) -> TaskRow:
        """Take an observation into the ledger."""

    async def end(
        self, row: TaskRow, end: End, task: Task | None = None, *, ctx: Context | None = None
    ) -> TaskRow:
        """End the task."""


class Questions:
    """Implements `SessionEvents`: hears what upstream sessions ask and keeps it for whoever owns the task."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._unasked_since: dict[int, float] = {}
        self._reported: dict[int, str] = {}
        """Open task -> its last progress, for as long as upstream says nothing of its own."""
        self._delivery = Delivery(room)

    # -- what a session says ------------------------------------------------------------------

    async def question(self, question: Question) -> None:
        """Store a question of a task and show the task as input_required; refuse what belongs to none."""
        request, pk = question.request, question.task_pk
        kind = KIND_OF.get(request.method)
        if pk is None or kind is None:
            await question.refuse(METHOD_NOT_FOUND, "no task and no call of this session can be asked that")
            Trace.background(self._room.sink).loss("ML-INPUT", request.method)
            return
        row = await self._room.ledger.own_task(pk)
        ctx = self._room.own_context(row)
        if row.status in TERMINAL:
            await question.refuse(INTERNAL, "the task has ended")
            return
        if kind not in row.kinds:
            await question.refuse(METHOD_NOT_FOUND, f"the client that made the task did not declare {kind}")
            ctx.trace.loss("ML-UPDATE", kind)
            return
        full = await self._store(
            ctx,
            row,
            kind,
            request.method,
            question_params(rawjson.join(request.params)),
            upstream_id=request.id,
            session_id=question.session_id,
            key=None,
        )
        if full is not None:
            await question.refuse(METHOD_NOT_FOUND, f"too many questions wait for answers ({full})")

    async def withdrawn(self, session_id: str, request_id: bytes) -> None:
        """Close a question that the server called off, unless it was answered: then that is on its way."""
        ledger = self._room.ledger
        asked = await ledger.input_by_upstream_id(session_id, request_id)
        if asked is None:
            return
        row = await ledger.own_task(asked.task_pk)
        if await self._withdraw(self._room.own_context(row), row, asked, before_ms=asked.asked_ms + 1):
            await self._settle(row)

    async def status(self, task_pk: int) -> None:
        """Wake those who wait for the task: the server announced a change."""
        self._room.changes.publish(task_pk)

    async def unheard(self, task_pk: int) -> None:
        """Tell that a task's session is not listened to until its owner comes back (OWN-CREDENTIAL)."""
        row = await self._room.ledger.own_task(task_pk)
        self._room.waits(self._room.own_context(row), row)

    async def progress(self, task_pk: int, message: str) -> None:
        """Show progress as the statusMessage of a task that has none of its own (ML-PROGRESS)."""
        row = await self._room.ledger.own_task(task_pk)
        if row.status in TERMINAL or row.status_message not in {None, self._reported.get(task_pk)}:
            return
        self._reported[task_pk] = message
        if row.status_message != message:
            await self._observe(row, row.status, message)

    def reported(self, task_pk: int) -> str | None:
        """Give the last progress of a task."""
        return self._reported.get(task_pk)

    # -- what a server without streams shows in its status ------------------------------------

    async def looked(self, ctx: Context, row: TaskRow, task: Task, *, began_ms: int | None) -> None:
        """Take in which questions a task shows; `began_ms` is when the look at it began (INPUT-GONE).

        It shows all that are open: what was asked before that and is not there any more was withdrawn, or
        answered past the shim. What the server says by itself has no beginning, and tells of none gone.
        """
        requests = task.input_requests or {}
        # one that waits for input and shows no question says nothing of those there were
        if began_ms is not None and (requests or task.status is not Status.INPUT_REQUIRED):
            unanswered = await self._room.ledger.inputs(row.pk, ("outstanding", "lost"))
            gone = [one for one in unanswered if _is_gone(one, requests)]
            if any([await self._withdraw(ctx, row, one, before_ms=began_ms) for one in gone]):
                self._room.changes.publish(row.pk)
        await self.inline(ctx, row, requests, began_ms=began_ms)

    async def inline(
        self, ctx: Context, row: TaskRow, requests: Mapping[str, bytes], *, began_ms: int | None = None
    ) -> None:
        """Store questions that the upstream shows in the task itself, under the upstream's own keys.

        One that was withdrawn is asked anew, but not by a look that began before that.
        """
        for key, raw in requests.items():
            members = rawjson.members(raw)
            method = rawjson.string(members.get("method")) or ""
            kind = KIND_OF.get(method)
            if kind is None or kind not in row.kinds:
                ctx.trace.loss("ML-UPDATE", kind or method)
                continue
            await self._store(
                ctx,
                row,
                kind,
                method,
                question_params(members.get("params", b"{}")),
                upstream_id=None,
                session_id=None,
                key=key,
                began_ms=began_ms,
            )

    # -- no question although upstream says input_required ------------------------------------

    async def unasked(self, ctx: Context, row: TaskRow, shown: Task, ends: Ends) -> TaskRow:
        """Show `working` while no question was captured; after `question_wait_ms` report it as lost."""
        tasks = self._room.config.tasks
        if await self._room.ledger.inputs(row.pk, ("answered",)):
            return await ends.record(row, shown, ctx=ctx)  # answered, and on its way to the server
        since = self._unasked_since.setdefault(row.pk, self._room.clock.ticks_ms())
        if self._room.clock.ticks_ms() - since < tasks.question_wait_ms:
            return await ends.record(row, shown, ctx=ctx)
        message = "the server waits for input, but its question was lost"
        if row.status_message != message:
            ctx.trace.event("input.lost", task_id=row.task_id)
        if tasks.lost_input == "fail":
            self.asked_after_all(row.pk)
            return await ends.end(row, End(Status.FAILED, error=error(INTERNAL, message)), ctx=ctx)
        return await ends.record(row, replace(shown, status_message=message), ctx=ctx)

    def asked_after_all(self, pk: int) -> None:
        """Forget that a question was missing."""
        self._unasked_since.pop(pk, None)

    # -- answers ------------------------------------------------------------------------------

    async def answer(
        self, ctx: Context, row: TaskRow, responses: Mapping[str, bytes], *, by: str = "update"
    ) -> None:
        """Store answers to outstanding questions and start their delivery; other keys are ignored.

        `by` says how they came: "update" or "session".
        """
        claim = await self.claim(ctx, row, responses, by=by)
        for asked in claim.claimed:
            self.deliver(row, asked)
        if responses:
            await self._settle(row)

    async def claim(
        self, ctx: Context, row: TaskRow, responses: Mapping[str, bytes], *, by: str = "update"
    ) -> Claim:
        """Store the first answer to each outstanding question, for whoever brings it to the server."""
        known = {one.key: one for one in await self._room.ledger.inputs(row.pk, EVERY_STATE)}
        claim = Claim([], {})
        for key, raw in responses.items():
            asked = known.get(key)
            if asked is None:
                claim.onwards[key] = raw
                continue
            response = as_response(ctx, asked.kind, raw)
            if await self._room.ledger.answer_input(row.pk, key, response, by=by):
                now_ms = self._room.clock.now_ms()
                name = "input.declined" if declined(response) else "input.answered"
                ctx.trace.event(
                    name, task_id=row.task_id, key=key, kind=asked.kind, waited_ms=now_ms - asked.asked_ms
                )
                claim.claimed.append(replace(asked, state="answered", response=response))
                claim.onwards[key] = response
        return claim

    async def taken(self, row: TaskRow, claim: Claim) -> None:
        """Note that the server has the answers that were claimed."""
        for asked in claim.claimed:
            await self._room.ledger.deliver_input(row.pk, asked.key)
        await self._settle(row)

    async def refused(self, row: TaskRow, claim: Claim) -> None:
        """Ask again: the server would not have the answers that were claimed."""
        for asked in claim.claimed:
            await self._room.ledger.release_input(row.pk, asked.key)
        self._room.changes.publish(row.pk)

    def deliver(self, row: TaskRow, asked: InputRow) -> None:
        """Deliver a stored answer in the background, once."""
        self._delivery.begin(row, asked)

    async def arrived(self, wait_ms: int) -> None:
        """Give answers that are on their way a moment to get to the server."""
        await self._delivery.arrived(wait_ms)

    async def close(self, row: TaskRow) -> None:
        """Close the questions of a task that has ended (INPUT-END)."""
        self.forget(row.pk)
        await self._room.ledger.close_inputs(row.pk)

    def forget(self, pk: int) -> None:
        """Forget what an open task has of its own in memory."""
        self.asked_after_all(pk)
        self._reported.pop(pk, None)

    async def _store(
        self,
        ctx: Context,
        row: TaskRow,
        kind: str,
        method: str,
        params: bytes,
        *,
        upstream_id: bytes | None,
        session_id: str | None,
        key: str | None,
        began_ms: int | None = None,
    ) -> str | None:
        """Write a question down and show it; gives the bound that leaves no room for it, if one does."""
        ledger = self._room.ledger
        now_ms = self._room.clock.now_ms()
        while True:
            known = await ledger.inputs(row.pk, EVERY_STATE)
            full = len(known) >= self._room.config.limits.questions_per_task
            if full and all(one.key != key for one in known):
                return _full(ctx, "limits.questions_per_task")
            asked = InputRow(
                task_pk=row.pk, key=key or f"{kind}-{len(known) + 1}", method=method, params=params,
                kind=kind, upstream_id=upstream_id, session_id=session_id,
                asked_ms=now_ms, state="outstanding", response=None, by=None,
            )  # fmt: skip
            try:
                stored = await ledger.add_input(asked)
                if stored.withdrawn_ms is not None and await ledger.ask_again(
                    asked, withdrawn_before_ms=now_ms + 1 if began_ms is None else began_ms
                ):
                    stored = asked
            except ClientFault as fault:
                return _full(ctx, fault.limit or "")
            if key is not None or stored.upstream_id == upstream_id:
                break  # else a question that came on another stream took the key
        if any(_superseded(one, asked) for one in known):
            detail = "asked another question under the id of one that is open; the first was closed"
            ctx.trace.event("upstream.invalid", rule="ML-INPUT", detail=detail)
        if stored.state != "outstanding":
            return None
        self.asked_after_all(row.pk)
        if stored is asked or stored.asked_ms == asked.asked_ms:
            ctx.trace.event("input.asked", task_id=row.task_id, key=stored.key, kind=kind)
        await self._observe(row, Status.INPUT_REQUIRED, row.status_message)
        return None

    async def _withdraw(self, ctx: Context, row: TaskRow, asked: InputRow, *, before_ms: int) -> bool:
        """Close a question that was asked before a time and that nobody has answered; tell whether it was."""
        now_ms = self._room.clock.now_ms()
        if not await self._room.ledger.withdraw_input(
            row.pk, asked.key, now_ms=now_ms, asked_before_ms=before_ms
        ):
            return False
        ctx.trace.event(
            "input.withdrawn", task_id=row.task_id, key=asked.key, kind=asked.kind,
            waited_ms=now_ms - asked.asked_ms,
        )  # fmt: skip
        return True

    async def _settle(self, row: TaskRow) -> None:
        """Show the task as working again once nothing is outstanding."""
        if not await self._room.ledger.inputs(row.pk):
            await self._observe(row, Status.WORKING, row.status_message)
        self._room.changes.publish(row.pk)

    async def _observe(self, row: TaskRow, status: Status, message: str | None) -> None:
        await self._room.ledger.observe(
            row.pk, status=status, status_message=message, last_updated_at=None, ttl_ms=row.ttl_ms,
            poll_interval_ms=row.poll_interval_ms, now_ms=self._room.clock.now_ms(),
        )  # fmt: skip
        self._room.changes.publish(row.pk)


def _is_gone(one: InputRow, shown: Mapping[str, bytes]) -> bool:
    """Whether a question that stood in the task itself stands there no more."""
    return one.upstream_id is None and one.key not in shown


def _full(ctx: Context, limit: str) -> str:
    ctx.trace.denied("limit", limit)
    ctx.trace.reached(limit)
    return limit


def _superseded(one: InputRow, asked: InputRow) -> bool:
    """Whether a question was closed by another under its id: the server can take only one answer there."""
    same_id = one.upstream_id is not None and one.upstream_id == asked.upstream_id
    open_there = same_id and one.session_id == asked.session_id and one.state == "outstanding"
    return open_there and (one.method, one.params) != (asked.method, asked.params)
