"""Answers to a task's questions: how a client's is read, and how it gets to the server (ML-UPDATE)."""

import asyncio
import itertools

from shim.clock import retry_ms
from shim.hub import rawjson
from shim.hub.status import TERMINAL
from shim.ledger.records import InputRow, TaskRow
from shim.tasks.room import Room
from shim.upstreams.base import Context, SessionLost
from shim.wire.errors import ShimError

PAUSES_MS = (200, 1_000, 5_000, 15_000)
"""Between tries to bring an answer to a server that cannot be reached."""


def as_response(ctx: Context, kind: str, raw: bytes) -> bytes:
    """Read an answer; a bare object for an elicitation is the accepted content (section 1 of the rules)."""
    if kind == "elicitation" and "action" not in rawjson.members(raw):
        ctx.trace.lenient("ML-UPDATE", "inputResponses: object without action")
        return rawjson.join({"action": b'"accept"', "content": raw})
    return raw


class Delivery:
    """Brings stored answers to the server until it takes them, forgets the session, or the task ends."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._under_way: dict[tuple[int, str], asyncio.Task[None]] = {}

    def begin(self, row: TaskRow, asked: InputRow) -> None:
        """Deliver an answer in the background; one that is under way is not begun again."""
        if (row.pk, asked.key) not in self._under_way:
            work = self._room.start(self._run(row, asked), f"deliver {row.pk}/{asked.key}")
            self._under_way[row.pk, asked.key] = work

    async def arrived(self, wait_ms: int) -> None:
        """Give what is under way a moment to get there: not all of it outlives the shim (DUR-8)."""
        if self._under_way:
            await asyncio.wait(self._under_way.values(), timeout=wait_ms / 1000)

    async def _run(self, row: TaskRow, asked: InputRow) -> None:
        room = self._room
        ctx = room.own_context(row)
        try:
            for attempt in itertools.count():
                await room.credential(ctx, row)
                if (await room.ledger.own_task(row.pk)).status in TERMINAL:
                    return
                try:
                    if not await room.holder(row).answer(ctx, row, asked):
                        ctx.trace.event("upstream.invalid", rule="ML-UPDATE", detail="refused an answer")
                        if not row.local and room.upstream(row).dialect.asks_inline:
                            # such a server asks on, until it gets an answer that it takes
                            await room.ledger.release_input(row.pk, asked.key)
                            room.changes.publish(row.pk)
                            return
                    await room.ledger.deliver_input(row.pk, asked.key)
                    room.changes.publish(row.pk)
                    return
                except SessionLost:
                    return  # the task's own end is decided by who reads it next
                except ShimError:
                    if room.waits(ctx, row):
                        continue
                    await room.clock.sleep_ms(retry_ms(PAUSES_MS, attempt))
        finally:
            self._under_way.pop((row.pk, asked.key), None)
