"""Legacy clients' own `tasks/result` exchanges, when the shim stops (DUR-2).

A server writes a question once, to the stream that waits for it, read or not. A stream without event ids
cannot be resumed: it is called off for its client, so that the client's next one gets the question. One that
the hub itself answers ends without an answer (LM-RESULT).
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from shim.ledger.records import TaskRow
from shim.tasks.results import DRAIN_MS
from shim.tasks.room import Room
from shim.upstreams.base import Context, SessionLost
from shim.wire.errors import ShimError, stopping


@dataclass(slots=True, eq=False)
class Waiting:
    """One exchange that is passed through: the client's request and the work that passes its answer."""

    ctx: Context
    row: TaskRow
    request_id: bytes
    resumable: Callable[[], bool]
    work: asyncio.Task[object]
    called_off: bool = False
    """True once the server's answer is not the task's any more, and not for the client."""


@dataclass(slots=True, eq=False)
class Exchange:
    """A call that is passed through, and what its client was asked in it and has not answered."""

    session_id: str
    work: asyncio.Task[object]
    open: set[bytes] = field(default_factory=set)


class HandBack:
    """Knows what legacy clients wait for, and calls it off when the shim stops."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._open: set[Waiting] = set()
        self._wakes: set[asyncio.Event] = set()
        self._exchanges: set[Exchange] = set()
        self.stopping = asyncio.Event()
        """Set once nobody is to wait for a task any more."""

    @contextmanager
    def waiting(
        self, ctx: Context, row: TaskRow, request_id: bytes, resumable: Callable[[], bool]
    ) -> Iterator[Waiting]:
        """Note an exchange while it lasts. Raises UpstreamFault when the shim is stopping."""
        work = asyncio.current_task()
        if self.stopping.is_set() or work is None:
            raise stopping()
        one = Waiting(ctx, row, request_id, resumable, work)
        self._open.add(one)
        try:
            yield one
        finally:
            self._open.discard(one)

    @property
    def waited_for(self) -> Iterator[int]:
        """The keys of the tasks whose exchange is passed through."""
        return (one.row.pk for one in self._open)

    @contextmanager
    def waking(self, wake: asyncio.Event) -> Iterator[None]:
        """Set an event when the shim stops."""
        self._wakes.add(wake)
        try:
            yield
        finally:
            self._wakes.discard(wake)

    @contextmanager
    def passing(self, session_id: str) -> Iterator[Exchange]:
        """Note a call while it is passed through; a stop cuts it off where it waits in vain."""
        work = asyncio.current_task()
        assert work is not None  # noqa: S101 - a request is served by a task
        one = Exchange(session_id, work)
        self._exchanges.add(one)
        try:
            yield one
        finally:
            self._exchanges.discard(one)

    def asked(self, session_id: str, request_id: bytes, exchange: Exchange | None) -> None:
        """Note that a client was asked something, in an exchange, or beside the only one there is."""
        if exchange is None:
            several = [one for one in self._exchanges if one.session_id == session_id]
            exchange = several[0] if len(several) == 1 else None
        if exchange is not None:
            exchange.open.add(request_id)
            if self.stopping.is_set():
                exchange.work.cancel()

    def settled(self, session_id: str, request_id: bytes) -> None:
        """Note that a client has answered, or that the server called its question off."""
        for one in self._exchanges:
            if one.session_id == session_id:
                one.open.discard(request_id)

    async def all(self) -> None:
        """Call off what cannot be resumed, and let go who waits for the hub; from now on nothing is begun."""
        self.stopping.set()
        for wake in self._wakes:
            wake.set()
        for exchange in self._exchanges:
            if exchange.open:
                exchange.work.cancel()
        await asyncio.gather(*(self._call_off(one) for one in self._open if not one.resumable()))

    async def _call_off(self, one: Waiting) -> None:
        one.called_off = True
        with contextlib.suppress(ShimError, SessionLost):
            await self._room.upstream(one.row).abandon_result(one.ctx, one.row, one.request_id)
        await asyncio.wait([one.work], timeout=DRAIN_MS / 1000)
        one.work.cancel()
