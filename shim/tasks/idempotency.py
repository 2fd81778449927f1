"""One call, however often it is sent under one key (DUR-3)."""

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from shim.ledger.records import IdemRow
from shim.tasks.room import Room
from shim.upstreams.base import Context
from shim.wire.errors import ShimError, invalid_params, outcome_unknown
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


class Idempotency:
    """Runs a keyed call once per caller and gives every repetition the same answer."""

    def __init__(self, room: Room, instance: str) -> None:
        self._room = room
        self._instance = instance
        self._running: dict[tuple[str, str], asyncio.Task[Response]] = {}

    async def once(self, ctx: Context, call: Keyed, run: Callable[[], Awaitable[Response]]) -> Response:
        """Give the call's answer, running it only if it never ran. Raises ShimError.

        A caller that leaves does not end the call: whoever comes back under the key gets its answer.
        """
        if ctx.caller.kind == "none":
            ctx.trace.lenient("OWN-NONE", "idempotency key of a caller that cannot be told apart: ignored")
            return await run()
        ctx.trace.rule("DUR-3")
        where = (ctx.caller.key, call.key)
        running = self._running.get(where)
        if running is None:
            row = IdemRow(
                caller=ctx.caller.key, key=call.key, body_hash=call.body_hash, state="pending", answer=None,
                is_error=False, created_ms=self._room.clock.now_ms(), instance=self._instance,
            )  # fmt: skip
            known = await self._room.ledger.idem_begin(row)
            if known is not None:
                return await self._repeat(where, call, known)
            running = asyncio.create_task(self._run(ctx, call, run), name="keyed-call")
            self._running[where] = running
            running.add_done_callback(lambda _: self._running.pop(where, None))
        elif (known := await self._room.ledger.idem_get(*where)) is not None:
            _same_body(call, known)
        return await asyncio.shield(running)

    async def _run(self, ctx: Context, call: Keyed, run: Callable[[], Awaitable[Response]]) -> Response:
        try:
            response = await run()
        except ShimError as fault:
            response = Response(None, None, fault.error_object())
        await self._room.ledger.idem_finish(
            ctx.caller.key, call.key, answer=response.result or response.error,
            is_error=response.error is not None,
        )  # fmt: skip
        return response

    async def _repeat(self, where: tuple[str, str], call: Keyed, known: IdemRow) -> Response:
        _same_body(call, known)
        if known.state == "pending":
            running = self._running.get(where)
            if running is None or known.instance != self._instance:
                raise outcome_unknown()
            return await asyncio.shield(running)
        return Response(None, None, known.answer) if known.is_error else Response(None, known.answer, None)


def _same_body(call: Keyed, known: IdemRow) -> None:
    if known.body_hash != call.body_hash:
        raise invalid_params("the idempotency key was used for another call: take a new key")
