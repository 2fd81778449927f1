"""One call, however often it is sent under one key, in whichever era (DUR-3).

A key and its caller are a call's identity. What the call got is kept in the dialect of the client that made
it; who repeats it in another dialect gets it in theirs.
"""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from shim.hub import rawjson
from shim.hub.codec import CodecError, Reading, read_create, write_create
from shim.hub.dialect import Dialect
from shim.hub.facts import CALL
from shim.hub.rawjson import RawJsonError
from shim.ledger.records import IdemRow
from shim.tasks.room import Room
from shim.upstreams.base import Context
from shim.upstreams.broken import Denied, NeverSent
from shim.wire.envelope import modern_result
from shim.wire.errors import (
    ClientFault,
    ShimError,
    answer_not_kept,
    invalid_params,
    outcome_unknown,
    too_many,
)
from shim.wire.hosting import legacy_result
from shim.wire.jsonrpc import Response


@dataclass(frozen=True, slots=True)
class Keyed:
    """A call that carries an idempotency key."""

    key: str
    body: bytes

    @property
    def body_hash(self) -> str:
        """Give what tells one body from another without keeping it."""
        return hashlib.sha256(self.body).hexdigest()


@dataclass(frozen=True, slots=True)
class Answer:
    """What a keyed call got, and the dialect it is written in."""

    dialect: str
    response: Response


class NothingRan(Exception):
    """The call was turned away before it ran: its key is free again."""


Settle = Callable[[Answer], Awaitable[None]]
"""Commits a call's answer; a front calls it before the client sees the answer."""
Run = Callable[[Settle], Awaitable[None]]
"""Runs a call and settles it. Raises NothingRan, ShimError."""


@dataclass(slots=True)
class _UnderWay:
    """A call that runs, or is being looked up; the future gives None when the key is free again."""

    body_hash: str
    answered: "asyncio.Future[Answer | None]"


class Idempotency:
    """Runs a keyed call once per caller and gives every repetition the same answer."""

    def __init__(self, room: Room, instance: str, dialects: Mapping[str, Dialect]) -> None:
        self._room = room
        self._instance = instance
        self._dialects = dialects
        self._running: dict[tuple[str, str], _UnderWay] = {}

    async def once(
        self, ctx: Context, call: Keyed, run: Run, dialect: Dialect, *, takes_task: bool
    ) -> Response:
        """Give the call's answer to a client of `dialect`, running it only if it never ran.

        `takes_task`: the client can have a handle. A caller that leaves does not end the call: whoever comes
        back under the key gets its answer. Raises ShimError, NothingRan.
        """
        ctx.trace.rule("DUR-3")
        return self._fitted(await self._answer(ctx, call, run), dialect, takes_task=takes_task)

    async def _answer(self, ctx: Context, call: Keyed, run: Run) -> Answer:
        where = (ctx.caller.key, call.key)
        while (under_way := self._running.get(where)) is not None:
            _same_body(call, under_way.body_hash)
            answer = await asyncio.shield(under_way.answered)
            if answer is not None:
                return answer
        if len(self._running) >= self._room.config.limits.concurrent_requests:
            raise too_many(
                "limits.concurrent_requests is reached", limit="limits.concurrent_requests", retry_after_s=1
            )
        under_way = _UnderWay(call.body_hash, asyncio.get_running_loop().create_future())
        self._running[where] = under_way
        work = asyncio.create_task(self._first(where, call, run, under_way), name="keyed-call")
        self._room.keep(work)
        return await asyncio.shield(work)

    async def _first(self, where: tuple[str, str], call: Keyed, run: Run, under_way: _UnderWay) -> Answer:
        answer: Answer | None = None
        try:
            row = IdemRow(
                caller=where[0], key=where[1], body_hash=call.body_hash, state="pending", answer=None,
                is_error=False, created_ms=self._room.clock.now_ms(), instance=self._instance,
            )  # fmt: skip
            known = await self._room.ledger.idem_begin(row)
            answer = await self._run(where, run) if known is None else self._stored(call, known)
            return answer
        finally:
            del self._running[where]
            under_way.answered.set_result(answer)

    async def _run(self, where: tuple[str, str], run: Run) -> Answer:
        settled: Answer | None = None

        async def settle(answer: Answer) -> None:
            nonlocal settled
            if settled is None:
                settled = answer
                await self._room.ledger.idem_finish(
                    *where, answer=answer.response.result or answer.response.error,
                    is_error=answer.response.error is not None, dialect=answer.dialect,
                    handle=self._handle(answer),
                )  # fmt: skip

        try:
            await run(settle)
        except (NothingRan, ClientFault, NeverSent, Denied):
            if settled is None:
                await self._room.ledger.idem_release(*where)
            raise
        except ShimError as fault:
            await settle(_failed(fault))
            raise
        if settled is None:  # the answer broke off, or was none
            await settle(_failed(outcome_unknown()))
        assert settled is not None  # noqa: S101 - settled above at the latest
        return settled

    def _stored(self, call: Keyed, known: IdemRow) -> Answer:
        _same_body(call, known.body_hash)
        if known.state == "pending":  # the run that began it is over
            raise outcome_unknown()
        answer = known.answer or known.handle
        if answer is None:
            raise answer_not_kept(restarted=known.instance != self._instance)
        if known.is_error:
            return Answer(known.dialect, Response(None, None, answer))
        return Answer(known.dialect, Response(None, answer, None))

    def _handle(self, answer: Answer) -> bytes | None:
        """Give an answer's handle without what the server says of the task, if the answer is one."""
        made = self._made(answer)
        if made is None:
            return None
        task = replace(
            made.task, status_message=None, meta=None, result=None, error=None, input_requests=None
        )
        return write_create(self._dialects[answer.dialect], task)

    def _made(self, answer: Answer) -> Reading | None:
        if answer.response.result is None:
            return None
        try:
            return read_create(self._dialects[answer.dialect], rawjson.members(answer.response.result))
        except (RawJsonError, CodecError):
            return None

    def _fitted(self, answer: Answer, to: Dialect, *, takes_task: bool) -> Response:
        response = answer.response
        if response.result is None:
            return response
        source, made = self._dialects[answer.dialect], self._made(answer)
        if made is not None and not takes_task:  # a handle is no answer to who asked for none
            raise invalid_params("the idempotency key was used for a call that became a task: take a new key")
        if source.name == to.name:
            return response
        if made is not None:
            return Response(None, write_create(to, made.task), None)
        if source.era == to.era:
            return response
        if to.era == "modern":
            return Response(None, modern_result(response.result, method=CALL, server_info=None), None)
        return Response(None, legacy_result(response.result)[0], None)


def _failed(fault: ShimError) -> Answer:
    return Answer("", Response(None, None, fault.error_object()))


def _same_body(call: Keyed, body_hash: str) -> None:
    if body_hash != call.body_hash:
        raise invalid_params("the idempotency key was used for another call: take a new key")
