"""What passes between a server and the client that drives a session (LL-ROUTE, CS-INPUT).

Questions are written down before they pass, so that another session of the caller, or `tasks/update`, can
answer them too; the first answer wins. Between different dialects they are made to fit.
"""

import asyncio
import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from aiohttp import web
from msgspec.structs import replace

from shim.fronts.naming import Names
from shim.fronts.relay import DROPPED, Relay, Tap
from shim.fronts.reply import Reply
from shim.hub import rawjson
from shim.hub.dialect import Dialect
from shim.hub.facts import UPDATED
from shim.ledger.records import EVERY_STATE, SessionRow, TaskRow
from shim.recent import Recent
from shim.tasks.answers import as_response
from shim.tasks.handback import Exchange
from shim.tasks.service import Tasks
from shim.upstreams.base import Context, Question, Upstream
from shim.wire.envelope import related_task_of, strip_related_task, with_related_task
from shim.wire.errors import UpstreamFault
from shim.wire.http import SERVER_ERROR
from shim.wire.jsonrpc import (
    Notification,
    Request,
    Response,
    read_upstream,
    write_message,
    write_notification,
    write_request,
)
from shim.wire.methods import CANCELLED
from shim.wire.questions import legacy_question

_REMEMBERED = 10_000
_CREATE_S = 1
_TASKS_OF_A_SESSION = 1_000


@dataclass(slots=True)
class _Creates:
    """The creates that are under way on one session."""

    count: int = 0
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Passing:
    """Sees questions and their answers on the sessions of legacy clients."""

    def __init__(self, upstream: Upstream, relay: Relay, tasks: Tasks) -> None:
        self._upstream = upstream
        self._relay = relay
        self._tasks = tasks
        self._ledger = tasks.room.ledger
        self.names = Names(self._ledger, upstream)
        self._creating: dict[str, _Creates] = {}
        self._shown: Recent[tuple[int, bytes], None] = Recent(_REMEMBERED)

    @contextlib.contextmanager
    def creating(self, session: SessionRow | None) -> Iterator[None]:
        """Note that a task is being made over a session; a question that comes first waits for its row."""
        if session is None:
            yield
            return
        creates = self._creating.setdefault(session.session_id, _Creates())
        creates.count += 1
        try:
            yield
        finally:
            creates.count -= 1
            if not creates.count:
                del self._creating[session.session_id]
                creates.done.set()

    def tap(
        self, ctx: Context, session: SessionRow | None, dialect: Dialect,
        *, row: TaskRow | None = None, alone: bool = False, exchange: Exchange | None = None,
    ) -> Tap | None:  # fmt: skip
        """Give what looks at a relayed stream.

        `exchange` is the call whose stream it is, `row` the task whose result the stream carries. `alone` is
        for the GET stream, where a question that names no task is taken for the session's one open task's.
        """
        if session is None:
            return None

        async def look(data: bytes) -> bytes | None:
            if b'"method"' not in data:
                return None
            message = read_upstream(data)
            if isinstance(message, Response):
                return None
            if isinstance(message, Request):
                return await self._question(
                    message, ctx, session, dialect, row=row, alone=alone, exchange=exchange
                )
            source = self._upstream.dialect
            announces = message.method in {UPDATED, source.methods.status_notification}
            if dialect.name != source.name and announces:
                ctx.trace.loss("LL-1", message.method)  # a hint that polls make up for
                return DROPPED
            if message.method == CANCELLED:  # of its own question: the client's are not here
                withdrawn = message.params.get("requestId", b"")
                self._tasks.hand_back.settled(session.session_id, withdrawn)
                await self._tasks.questions.withdrawn(session.session_id, withdrawn)
            return await self._notice(message, ctx, session, alone=alone)

        return look

    async def answered(
        self, http: web.BaseRequest, message: Response, ctx: Context, reply: Reply, session: SessionRow
    ) -> web.StreamResponse | None:
        """Take a client's answer to a question; None for one that belongs to no task and is relayed.

        A second answer is dropped. The first is on disk before it goes on, and goes on until it is there.
        """
        asked = await self._ledger.input_by_upstream_id(session.session_id, message.id or b"")
        if asked is None:
            self._tasks.hand_back.settled(session.session_id, message.id or b"")
            return None
        row = await self._ledger.own_task(asked.task_pk)
        message = await self.names.inwards(message, ctx)
        if message.result is not None and row.client_dialect != self._upstream.dialect.name:
            message = replace(message, result=as_response(ctx, asked.kind, message.result))
        response = message.result or message.error or b"{}"
        if not await self._ledger.answer_input(row.pk, asked.key, response, by="session"):
            ctx.trace.lenient("LL-ROUTE", "a second answer to one question: dropped")
            return reply.empty(202)
        waited_ms = self._tasks.room.clock.now_ms() - asked.asked_ms
        ctx.trace.event(
            "input.answered", task_id=row.task_id, key=asked.key, kind=asked.kind, waited_ms=waited_ms
        )
        self._tasks.observer.forget(row.pk)
        self._tasks.room.changes.publish(row.pk)
        kept = replace(asked, state="answered", response=response)
        if message.result is not None and row.client_dialect != self._upstream.dialect.name:
            self._tasks.questions.deliver(row, kept)
            return reply.empty(202)
        try:
            answer = await self._relay.forward(http, ctx, reply, write_message(message))
        except UpstreamFault:
            answer = None
            if message.result is None:
                raise
        if message.result is not None and (answer is None or answer.status >= SERVER_ERROR):
            self._tasks.questions.deliver(row, kept)
            return reply.empty(202)
        await self._ledger.deliver_input(row.pk, asked.key)
        return answer

    async def ask(self, row: TaskRow, reply: Reply, dialect: Dialect, sent: set[str]) -> None:
        """Send a task's questions on its result's stream, but those that the client saw elsewhere.

        `sent` are those that went over it; what need not be answered any more is called off (INPUT-GONE).
        """
        for asked in await self._ledger.inputs(row.pk, EVERY_STATE):
            if asked.upstream_id is None or asked.state == "lost":
                continue
            if asked.state != "outstanding":
                if asked.key in sent and asked.by != "session":
                    named = {"requestId": asked.upstream_id}
                    await reply.event(write_notification(CANCELLED, named))
                sent.discard(asked.key)
                continue
            if asked.key in sent or (row.pk, asked.upstream_id) in self._shown:
                continue
            sent.add(asked.key)
            params = with_related_task(asked.params, row.task_id) if dialect.related_task else asked.params
            question = legacy_question(params, asked.upstream_id)
            await reply.event(write_request(asked.upstream_id, asked.method, question))

    async def _question(
        self, message: Request, ctx: Context, session: SessionRow, dialect: Dialect,
        *, row: TaskRow | None, alone: bool, exchange: Exchange | None,
    ) -> bytes | None:  # fmt: skip
        owner = await self._owner(message, session, row=row, alone=alone)
        if owner is None and await self._after_creates(session):
            # the server may ask before it hands the task out; one that waits for the answer is not waited for
            owner = await self._owner(message, session, row=row, alone=alone)
        if owner is None:
            self._tasks.hand_back.asked(session.session_id, message.id, exchange)
            return await self._renamed(message, session)
        ctx.trace.rule("LL-ROUTE")
        await self._tasks.questions.question(
            Question(message, session.session_id, owner.pk, _leave_to_client, _left_to_client)
        )
        self._shown[owner.pk, message.id] = None
        if dialect.related_task == self._upstream.dialect.related_task:
            return await self._renamed(message, session)
        params = rawjson.join(message.params)
        fitted = (
            with_related_task(params, owner.task_id) if dialect.related_task else strip_related_task(params)
        )
        return write_request(message.id, message.method, rawjson.members(fitted))

    async def _notice(
        self, message: Notification, ctx: Context, session: SessionRow, *, alone: bool
    ) -> bytes | None:
        """Let a notice pass under the id the client knows the task by."""
        named = self.names.named(message)
        if named is None:
            return None
        if alone:  # a create's answer may be on its way beside this stream
            known = (await self._ledger.lookup(ctx.caller.key, named)).row
            if known is None or known.session_id != session.session_id:
                await self._after_creates(session)
        return await self._renamed(message, session)

    async def _renamed(self, message: Request | Notification, session: SessionRow) -> bytes | None:
        renamed = await self.names.outwards(message, session.session_id)
        return None if renamed is None else write_message(renamed)

    async def _after_creates(self, session: SessionRow) -> bool:
        """Wait a while for the creates that are under way on a session; False where there are none."""
        under_way = self._creating.get(session.session_id)
        if under_way is None:
            return False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CREATE_S):
                await under_way.done.wait()
        return True

    async def _owner(
        self, message: Request, session: SessionRow, *, row: TaskRow | None, alone: bool
    ) -> TaskRow | None:
        related = related_task_of(message.params)
        if related is None and row is not None:
            return row
        open_tasks = await self._ledger.open_tasks(
            upstream=self._upstream.name, session_id=session.session_id, limit=_TASKS_OF_A_SESSION
        )
        if related is not None:
            return next((one for one in open_tasks if one.upstream_task_id == related), None)
        return open_tasks[0] if alone and len(open_tasks) == 1 else None


async def _leave_to_client(_code: int, _message: str) -> None:
    """Leave a question that passes to the client for the client to refuse."""


async def _left_to_client(_by: Context, _result: bytes) -> bool:
    """Leave the answer to the session that the question passed on."""
    return False
