"""Questions to legacy clients of a modern server, and their answers (LM-INPUT, LM-MRTR).

A task's question is sent under one id over one session, whatever becomes of its streams: the id is on disk
before the question is sent. A plain call's question lives as long as the call does.
"""

import asyncio
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence

from shim.config import Config
from shim.fronts.hosted.streams import Streams, reached
from shim.fronts.open_streams import unless
from shim.hub import rawjson
from shim.hub.status import TERMINAL
from shim.ledger.records import EVERY_STATE, AskRow, InputRow, InputState, SessionRow, TaskRow
from shim.tasks.answers import as_response
from shim.tasks.refusal import refused
from shim.tasks.service import Tasks
from shim.upstreams.base import Context
from shim.wire.envelope import with_related_task
from shim.wire.errors import UpstreamFault
from shim.wire.ids import IdMaker
from shim.wire.jsonrpc import Response, write_notification, write_request
from shim.wire.methods import CANCELLED
from shim.wire.questions import KIND_OF, legacy_question, question_params

Say = Callable[[bytes, str], Awaitable[None]]
"""Sends a message under an event id over one stream."""

_REFUSALS: Mapping[str, bytes] = {"elicitation": b'{"action":"cancel"}', "roots": b'{"roots":[]}'}
"""What an error becomes as an answer to a question; a sampling can only be answered."""
_OPEN: Sequence[InputState] = ("outstanding", "lost")
"""What can be answered; of the latter there is no text any more that could be sent."""


class Asking:
    """Sends questions and takes their answers."""

    def __init__(self, config: Config, tasks: Tasks, ids: IdMaker, streams: Streams) -> None:
        self.streams = streams
        """The sessions' own streams, which questions go over where they are open."""
        self._config = config
        self._tasks = tasks
        self._ledger = tasks.room.ledger
        self._ids = ids
        self._calls: dict[tuple[str, bytes], asyncio.Future[Response]] = {}

    # -- questions of tasks ----------------------------------------------------------------------

    async def task(
        self, row: TaskRow, session: SessionRow, say: Say, sent: dict[str, AskRow], *, related: bool
    ) -> None:
        """Send what a task asks and this stream has not sent; call off what need not be answered any more.

        `sent` is what went over this stream, by key; `related` names the task in the question.
        """
        # the end closes what is still open (INPUT-END)
        ended = (await self._ledger.own_task(row.pk)).status in TERMINAL
        questions = await self._ledger.inputs(row.pk, EVERY_STATE)
        asks = await self._ledger.asks_of(row.pk) if questions else []
        for asked in questions:
            if ended or asked.state not in _OPEN:
                if (ask := sent.pop(asked.key, None)) is not None and asked.by != "session":
                    await self._call_off(ask, say)
            elif (
                asked.state != "lost"
                and asked.kind in session.kinds
                and not _stands(sent.get(asked.key), asks)
            ):
                before = sent.pop(asked.key, None)
                if before is not None and before.sent_ms < asked.asked_ms:  # withdrawn, and asked anew
                    await self._call_off(before, say)
                await self._send(row, asked, session, say, sent, asks, related=related)

    async def back(
        self, session_id: str, last_event_id: str | None, carried: Container[str] | None
    ) -> dict[int, dict[str, AskRow]]:
        """Give the questions, by task, that a client which comes back has had, by its `Last-Event-ID`.

        What need not be answered any more is among them: it is called off when its task is looked at.
        What that id shows to be lost is due at once; without one, nothing is known. `carried` are the events
        of the stream, where they are known: what went over another is none of its business.
        """
        had: dict[int, dict[str, AskRow]] = {}
        for one in await self._ledger.asks(session_id) if last_event_id else ():
            if reached(last_event_id or "", one.event_id):
                had.setdefault(one.task_pk, {})[one.key] = one
            elif carried is None or one.event_id in carried:
                await self._ledger.ask_is_due(one)
        return had

    async def _send(
        self, row: TaskRow, asked: InputRow, session: SessionRow, say: Say, sent: dict[str, AskRow],
        asks: list[AskRow], *, related: bool,
    ) -> None:  # fmt: skip
        now_ms = self._tasks.room.clock.now_ms()
        lately_ms = now_ms - self._config.legacy.redeliver_after_ms
        if any(one.key == asked.key and one.sent_ms > lately_ms for one in asks):
            return
        ask = await self._ledger.ask(
            AskRow(
                session_id=session.session_id, request_id=self._ids.next(), task_pk=row.pk, key=asked.key,
                sent_ms=now_ms, event_id=self.streams.ids.next(),
            ),
            unless_since_ms=lately_ms,
        )  # fmt: skip
        if ask is None:  # another stream was faster
            return
        sent[asked.key] = ask
        params = with_related_task(asked.params, row.task_id) if related else asked.params
        question = legacy_question(params, ask.request_id)
        await say(write_request(ask.request_id, asked.method, question), ask.event_id)

    async def _call_off(self, ask: AskRow, say: Say) -> None:
        message = write_notification(CANCELLED, {"requestId": ask.request_id})
        await say(message, self.streams.ids.next())
        await self._ledger.unask(ask)

    # -- questions of a plain call ---------------------------------------------------------------

    async def call(
        self, ctx: Context, session: SessionRow | None, requests: Mapping[str, bytes], say: Say
    ) -> dict[str, bytes]:
        """Ask what a call asks and give the answers by key.

        Raises UpstreamFault for what cannot be asked, ClientFault where there is no room for what is.
        """
        if session is None:
            raise _cannot("a client without a session")
        with self._tasks.room.budget.holding() as held:
            held.add(sum(map(len, requests.values())))
            return await self._asked_in(ctx, session, requests, say)

    async def _asked_in(
        self, ctx: Context, session: SessionRow, requests: Mapping[str, bytes], say: Say
    ) -> dict[str, bytes]:
        waiting: dict[str, tuple[str, bytes, asyncio.Future[Response]]] = {}
        try:
            for key, raw in requests.items():
                question = rawjson.members(raw)
                method = rawjson.string(question.get("method")) or ""
                if (kind := KIND_OF.get(method)) not in session.kinds or kind is None:
                    ctx.trace.loss("LM-MRTR", kind or "inputRequests")
                    raise _cannot(f"a client that did not declare {kind or 'such questions'}")
                rid = self._ids.next()
                answer: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
                self._calls[session.session_id, rid] = answer
                waiting[key] = (kind, rid, answer)
                params = legacy_question(question_params(question.get("params", b"{}")), rid)
                await say(write_request(rid, method, params), self.streams.ids.next())
            return {
                key: as_response(ctx, kind, _answer(kind, await self._given(answer)))
                for key, (kind, _, answer) in waiting.items()
            }
        finally:
            for _, rid, _ in waiting.values():
                self._calls.pop((session.session_id, rid), None)

    async def _given(self, answer: asyncio.Future[Response]) -> Response:
        """Wait for an answer. Raises UpstreamFault when the shim stops: no answer gets through any more."""

        async def given() -> Response:
            return await answer

        response = await unless(self._tasks.hand_back.stopping, given())
        if response is None:
            raise UpstreamFault("the shim stopped before its question was answered: call again", 503)
        return response

    def waits(self, session_id: str, request_id: bytes) -> bool:
        """Tell whether a plain call asked something over a session under an id."""
        return (session_id, request_id) in self._calls

    # -- answers ---------------------------------------------------------------------------------

    async def answered(self, ctx: Context, session: SessionRow, message: Response) -> None:
        """Take a client's answer; the first one counts, others are dropped. Raises ShimError."""
        where = (session.session_id, message.id or b"")
        waiting = self._calls.get(where)
        if waiting is not None:
            if not waiting.done():
                waiting.set_result(message)
            return
        ask = await self._ledger.asked_under(*where)
        row = await self._ledger.own_task(ask.task_pk) if ask is not None else None
        if ask is None or row is None or row.caller != ctx.caller.key:
            ctx.trace.lenient("LM-INPUT", "an answer to no question: dropped")
            return
        questions = await self._ledger.inputs(row.pk, EVERY_STATE)
        asked = next((one for one in questions if one.key == ask.key), None)
        if asked is None or asked.state not in _OPEN:
            closed = asked is None or asked.state == "closed"
            which = (
                "an answer to a question that was called off" if closed else "a second answer to one question"
            )
            ctx.trace.lenient("LM-INPUT", f"{which}: dropped")
            return
        ctx.trace.task_id = row.task_id
        ctx.trace.feature("server request")
        if message.result is None and asked.kind not in _REFUSALS:
            await self._tasks.refuse(ctx, row, asked, message.error)
        else:
            responses = {ask.key: _answer(asked.kind, message)}
            await self._tasks.questions.answer(ctx, row, responses, by="session")
        self._tasks.observer.forget(row.pk)
        self.streams.wake(row.client_session)


def _stands(sent: AskRow | None, asks: Sequence[AskRow]) -> bool:
    """Whether a question is on its way; one whose answer the server refused is to be asked anew."""
    return sent is not None and any(one.request_id == sent.request_id for one in asks)


def _answer(kind: str, message: Response) -> bytes:
    """Give a client's answer as the new API has it: an error has no place there. Raises UpstreamFault."""
    answer = message.result or _REFUSALS.get(kind)
    if answer is None:
        raise refused(kind, message.error)
    return answer


def _cannot(whom: str) -> UpstreamFault:
    return UpstreamFault(f"the server asks in the middle of the call: {whom} has no answer")
