"""One call that may ask its client something while it runs, and what it asks (ML-MRTR)."""

import asyncio
import itertools
import secrets
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from shim.clock import retry_ms
from shim.hub import rawjson
from shim.tasks.answers import PAUSES_MS, as_response
from shim.tasks.room import Room
from shim.upstreams.base import Context, Question, SessionLost
from shim.wire.budget import Holding
from shim.wire.errors import INTERNAL, METHOD_NOT_FOUND, UpstreamFault, outcome_unknown
from shim.wire.jsonrpc import Response
from shim.wire.questions import KIND_OF, declined, question_params

GATHER_MS = 50
"""How long further questions are waited for when the first is there: a server may ask several at once."""

Run = Callable[[], Awaitable[Response]]
"""Makes the call and gives its answer."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that is open."""

    question: Question
    kind: str
    asked_ms: int


class ParkedCall:
    """One call and what it asks. Implements `Asking`."""

    def __init__(
        self, room: Room, ctx: Context, upstream: str, bound_to: Callable[[], str], run: Run
    ) -> None:
        self.id = secrets.token_urlsafe(16)
        self.ctx = ctx
        """The call's own; what is told of its progress goes to whoever waits for it at the time."""
        self.kinds = ctx.kinds
        """What its client can be asked, as its latest request declares."""
        self.upstream = upstream
        self.bound_to = bound_to
        self.called_off = False
        self.ended: str | None = None
        """Why it was ended before it came to an answer."""
        self.open: dict[str, _Asked] = {}
        self.round = 0
        self.outcomes: dict[int, asyncio.Task[Response]] = {}
        """What the answers to a round lead to; the current one has none before it is answered."""
        self.until_ms = 0
        self.waiters = 0
        self.lock = asyncio.Lock()
        self._room = room
        self._held = Holding(room.budget)
        self._asked = 0
        self._news = asyncio.Event()
        ctx.asking = self
        self.work = asyncio.create_task(_run(run), name="call")
        room.keep(self.work)

    async def question(self, question: Question) -> None:
        """Take up a question; refuse what the client does not declare, and what nobody can answer."""
        method = question.request.method
        kind = KIND_OF.get(method)
        if kind is None or kind not in self.kinds:
            what = kind or method
            await question.refuse(METHOD_NOT_FOUND, f"the client that made the call did not declare {what}")
            self.ctx.trace.loss("ML-MRTR", what)
        elif self.work.done() or self.ended is not None:
            await question.refuse(INTERNAL, "the call has ended")
        elif self._asked >= self._room.config.limits.questions_per_task:
            message = "too many questions of one call (limits.questions_per_task)"
            await question.refuse(METHOD_NOT_FOUND, message)
            self.ctx.trace.denied("limit", "limits.questions_per_task")
            self.ctx.trace.reached("limits.questions_per_task")
        else:
            self._asked += 1
            key = f"{kind}-{self._asked}"
            self.open[key] = _Asked(question, kind, self._room.clock.now_ms())
            self.weigh()
            self._news.set()
            self.ctx.trace.event("input.asked", key=key, kind=kind)

    async def asks(self) -> bool:
        """Wait until the call asks something, all that it asks at once; False when it came to its end."""
        while not self.work.done():
            await _first_of(self.work, asyncio.create_task(self._news.wait()))
            if not self.work.done():
                await _first_of(self.work, asyncio.create_task(self._room.clock.sleep_ms(GATHER_MS)))
            if self.open:
                break  # else what came was called off again
        return not self.work.done()

    def withdrawn(self, request_id: bytes) -> None:
        """Strike a question that the server called off: an answer to it is one to nothing."""
        for key, asked in list(self.open.items()):
            if asked.question.request.id == request_id:
                self._strike(key)
                waited_ms = self._room.clock.now_ms() - asked.asked_ms
                self.ctx.trace.event("input.withdrawn", key=key, kind=asked.kind, waited_ms=waited_ms)

    async def answer(self, ctx: Context, responses: Mapping[str, bytes]) -> None:
        """Give the server the answers to what is open, each once; others are ignored.

        Raises Denied, UpstreamFault: what the server has not taken is still open.
        """
        for key, raw in responses.items():
            asked = self.open.get(key)
            if asked is None:
                continue
            response = as_response(ctx, asked.kind, raw)
            if not await self._deliver(ctx, asked.question, response):
                ctx.trace.event("upstream.invalid", rule="ML-MRTR", detail="refused an answer")
            self._strike(key)
            ctx.trace.event(
                "input.declined" if declined(response) else "input.answered",
                key=key, kind=asked.kind, waited_ms=self._room.clock.now_ms() - asked.asked_ms,
            )  # fmt: skip

    def _strike(self, key: str) -> None:
        self.open.pop(key, None)
        self.weigh()
        if not self.open:
            self._news.clear()

    def weigh(self) -> None:
        """Count what the call asks and what is kept of its rounds in the budget of all that waits."""
        asked = () if self.work.done() else self.open.values()
        params = [value for one in asked for value in one.question.request.params.values()]
        kept = [_result(one) for one in self.outcomes.values()]
        self._held.set(sum(map(len, params)) + sum(map(len, kept)))

    def forget(self) -> None:
        """Hold nothing any more: nobody can ask for it."""
        self.open.clear()
        self.outcomes.clear()
        self._held.set(0)

    def hand_over(self, ctx: Context) -> None:
        """Let the call speak to the request that waits for it now, by that one's credential."""
        self.kinds = ctx.kinds
        own = self.ctx
        own.caller, own.trace, own.headers = ctx.caller, ctx.trace, ctx.headers
        own.notify, own.progress_token, own.log_level = ctx.notify, ctx.progress_token, ctx.log_level

    def shown(self) -> bytes:
        """Give what is open as `inputRequests`."""
        return rawjson.join({key: _shown(asked.question) for key, asked in self.open.items()})

    async def end(self, why: str) -> None:
        """End the call, at the server too."""
        self.ended = self.ended or why
        self.called_off = True
        self.work.cancel()
        await asyncio.wait([self.work])

    def leave(self) -> None:
        """Take it that the client closed the last stream that waited for the call (ML-CLOSE)."""
        self.ended = self.ended or "its client closed the response stream"
        self.work.cancel()

    async def _deliver(self, ctx: Context, question: Question, response: bytes) -> bool:
        lost = False
        for attempt in itertools.count():
            try:
                return await question.answer(ctx, response)
            except SessionLost:  # counts only if it is said twice (ML-SESSION-LOST)
                if lost:
                    await self.end("the upstream lost its session")
                    raise outcome_unknown() from None
                lost = True
            except UpstreamFault:
                if self.work.done():
                    return False
                pause = self._room.clock.sleep_ms(retry_ms(PAUSES_MS, attempt))
                await _first_of(self.work, asyncio.create_task(pause))
        return False


async def _run(run: Run) -> Response:
    return await run()


async def _first_of(work: asyncio.Task[Response], other: asyncio.Task[object]) -> None:
    """Wait for one of two; the other one is left off."""
    try:
        await asyncio.wait((work, other), return_when=asyncio.FIRST_COMPLETED)
    finally:
        other.cancel()


def _result(outcome: asyncio.Task[Response]) -> bytes:
    """Give the result that a round led to, as far as it has led to one."""
    if not outcome.done() or outcome.cancelled() or outcome.exception() is not None:
        return b""
    return outcome.result().result or b""


def _shown(question: Question) -> bytes:
    request = question.request
    params = question_params(rawjson.join(request.params))
    return rawjson.join({"method": rawjson.encode(request.method), "params": params})
