"""Where calls wait that asked their client something (ML-MRTR).

A legacy server asks in the middle of a call and waits; a modern client gets the questions as the call's
answer and comes back with a request of its own. In between the call is parked: it goes on at the server, on
the session that it has to itself, and the `requestState` names it. Each state stands for one round. What the
answers to a round lead to is kept as long as its state is valid, so that the same retry gets the same answer.
All of it is in memory: no other process could take the call up.
"""

import asyncio
import hashlib
import json
from functools import partial

from shim.callers.keys import Keys
from shim.hub import rawjson
from shim.hub.rawjson import Members, RawJsonError
from shim.tasks.parked_call import ParkedCall, Run
from shim.tasks.room import Room
from shim.upstreams.base import Context, Upstream
from shim.wire.budget import KEY as BUFFERS
from shim.wire.errors import (
    INTERNAL,
    OwnFault,
    UpstreamFault,
    all_in_use,
    invalid_params,
    stopping,
    too_many,
)
from shim.wire.jsonrpc import Request, Response

_PURPOSE = "requestState"
_NOT_KEPT = "its answer is no longer kept"
_KEPT_ROUNDS = 16
"""Rounds of one call whose outcome is kept."""
_NOT_SALIENT = frozenset(("_meta", "inputResponses", "requestState"))


class ParkedCalls:
    """The calls that may ask; those that did wait here for their clients, within bounds."""

    def __init__(self, room: Room, keys: Keys, instance: str) -> None:
        self._room = room
        self._keys = keys
        self._instance = instance
        self._calls: dict[str, ParkedCall] = {}
        self._stopping = False

    def __len__(self) -> int:
        """Count the calls that go on."""
        return sum(not call.work.done() for call in self._calls.values())

    def at(self, upstream: str) -> int:
        """Count those that go on at an upstream."""
        return sum(one.upstream == upstream and not one.work.done() for one in self._calls.values())

    async def begin(self, ctx: Context, upstream: Upstream, request: Request, run: Run) -> Response:
        """Make a call and give its answer, or what it asks first. Raises what `run` raises, ShimError."""
        if not ctx.kinds:
            return await run()  # what it asks all the same is refused
        call = ParkedCall(self._room, ctx, upstream.name, partial(_bound_to, ctx, upstream, request), run)
        try:
            return await self._outcome(call)
        except asyncio.CancelledError:
            call.leave()
            raise
        finally:
            if call.id not in self._calls:
                call.forget()

    async def resume(
        self, ctx: Context, upstream: Upstream, request: Request, responses: Members
    ) -> Response:
        """Bring a parked call the answers and wait on. Raises ShimError."""
        ctx.trace.rule("ML-MRTR")
        number, call = self._named(ctx, upstream, request)
        async with call.lock:
            if number == call.round and number not in call.outcomes:
                call.hand_over(ctx)
                if not call.work.done():
                    await call.answer(ctx, responses)
                call.outcomes[number] = asyncio.create_task(self._outcome(call), name="parked-call")
                call.outcomes[number].add_done_callback(lambda _: self._kept(call))
                self._room.keep(call.outcomes[number])
                call.outcomes.pop(number - _KEPT_ROUNDS, None)
        outcome = call.outcomes.get(number)
        if outcome is None:
            raise _gone(_NOT_KEPT)
        call.waiters += 1
        try:
            return await asyncio.shield(outcome)
        except asyncio.CancelledError:
            if call.waiters == 1 and not outcome.done():
                call.leave()
            raise
        finally:
            call.waiters -= 1

    async def close(self) -> None:
        """End every parked call at the server; its client is told when it comes back."""
        self._stopping = True
        await asyncio.gather(*(call.end("the shim was stopped") for call in self._calls.values()))

    async def _outcome(self, call: ParkedCall) -> Response:
        """Wait for what comes next of a call: its answer, or what it asks."""
        if await call.asks():
            return await self._park(call)
        if call.work.cancelled():
            raise UpstreamFault(f"the call was ended: {call.ended or 'the shim stops'}; call again", None)
        return call.work.result()

    async def _park(self, call: ParkedCall) -> Response:
        """Give the questions to the client as the call's answer, under a state that names the call."""
        call.ctx.trace.rule("ML-MRTR")
        await self._admit(call)
        call.round += 1
        call.until_ms = self._room.clock.now_ms() + self._room.config.limits.parked_ms
        payload = f"{self._instance} {call.id} {call.round} {call.until_ms}"
        result: Members = {
            "resultType": b'"input_required"',
            "inputRequests": call.shown(),
            "requestState": rawjson.encode(self._keys.sign(_PURPOSE, call.bound_to(), payload)),
        }
        call.ctx.notify = None
        if call.round == 1:
            self._room.start(self._watch(call), "parked-call")
        return Response(None, rawjson.join(result), None)

    async def _admit(self, call: ParkedCall) -> None:
        """Make room for a call; one that has its answer makes way. Raises ClientFault: the call is ended."""
        if self._stopping:
            await call.end("the shim stops")
            raise stopping()
        if call.id not in self._calls:
            await self._admit_one_more(call)
        if not self._fits(call):
            await call.end("limits.buffer_bytes is reached")
            raise all_in_use(
                "the shim's buffers are full (limits.buffer_bytes): the call was ended; call again later",
                limit=BUFFERS,
                retry_after_s=1,
            )
        self._calls[call.id] = call

    async def _admit_one_more(self, call: ParkedCall) -> None:
        """See that there are not too many. Raises ClientFault: the call is ended."""
        limits, caller = self._room.config.limits, call.ctx.caller
        mine = [one for one in self._calls.values() if one.ctx.caller.key == caller.key]
        if caller.kind != "none" and len(mine) >= limits.parked_calls_per_caller and not self._evict(mine):
            await call.end("limits.parked_calls_per_caller is reached")
            raise too_many(
                "too many calls of this caller wait for answers (limits.parked_calls_per_caller): the call "
                "was ended; answer one of them or wait, then call again",
                limit="limits.parked_calls_per_caller",
                retry_after_s=1,
            )
        if len(self._calls) >= limits.parked_calls and not self._evict(list(self._calls.values())):
            await call.end("limits.parked_calls is reached")
            raise all_in_use(
                "too many calls wait for answers (limits.parked_calls): the call was ended; call again later",
                limit="limits.parked_calls",
                retry_after_s=1,
            )

    def _kept(self, call: ParkedCall) -> None:
        """Count what a round has led to; for one that there is no room for, kept answers make way."""
        if call.id in self._calls:
            call.weigh()
            self._fits(None)

    def _fits(self, call: ParkedCall | None) -> bool:
        """Keep within the budget of all that waits, as far as others' kept answers can make way."""
        while not self._room.budget.fits(0):
            if not self._evict([one for one in self._calls.values() if one is not call]):
                return False
            self._room.sink.reached[BUFFERS] += 1
        return True

    def _evict(self, calls: list[ParkedCall]) -> bool:
        over = next((one for one in calls if one.work.done()), None)
        if over is not None:
            self._forget(over)
        return over is not None

    def _forget(self, call: ParkedCall) -> None:
        self._calls.pop(call.id, None)
        call.forget()

    async def _watch(self, call: ParkedCall) -> None:
        """End a call whose client does not come back; forget one that nobody can ask for any more."""
        clock = self._room.clock
        while True:
            await clock.sleep_ms(call.until_ms - clock.now_ms())
            async with call.lock:
                outcome = call.outcomes.get(call.round)
                if clock.now_ms() >= call.until_ms and outcome is None and not call.work.done():
                    call.ctx.trace.loss("ML-MRTR", "answers: the client did not come back (limits.parked_ms)")
                    call.ctx.trace.reached("limits.parked_ms")
                    await call.end("its client did not come back in time (limits.parked_ms)")
            if outcome is not None:
                await asyncio.wait([outcome])
            if call.work.done() and clock.now_ms() >= call.until_ms:
                self._forget(call)
                return

    def _named(self, ctx: Context, upstream: Upstream, request: Request) -> tuple[int, ParkedCall]:
        """Find the round and the call that a state names. Raises ShimError."""
        state = rawjson.string(request.params.get("requestState")) or ""
        payload = self._keys.verify(_PURPOSE, _bound_to(ctx, upstream, request), state)
        if payload is None:
            raise invalid_params("params.requestState: not one that was given to you for this request")
        instance, call_id, number, until_ms = payload.split(" ")
        if self._room.clock.now_ms() >= int(until_ms):
            raise invalid_params("params.requestState: expired; call again without it")
        call = self._calls.get(call_id)
        if call is None:
            raise _gone(_NOT_KEPT if instance == self._instance else "the shim was restarted")
        return int(number), call


def _gone(why: str) -> OwnFault:
    return OwnFault(INTERNAL, f"the call that waited for these answers is gone: {why}; call again")


def _bound_to(ctx: Context, upstream: Upstream, request: Request) -> str:
    """Tell one request from another: whose it is, to which server, and all that the call is made of."""
    salient = {key: _canonical(raw) for key, raw in request.params.items() if key not in _NOT_SALIENT}
    digest = hashlib.sha256(json.dumps(salient, sort_keys=True).encode()).hexdigest()
    return json.dumps([ctx.caller.key, upstream.name, upstream.dialect.name, request.method, digest])


def _canonical(raw: bytes) -> str:
    """Write a value one way, whatever the order of its keys; what cannot be taken apart stays as it is."""
    try:
        return json.dumps(rawjson.decode(raw), sort_keys=True)
    except (RawJsonError, RecursionError):
        return raw.decode()
