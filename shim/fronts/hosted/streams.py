"""The GET streams of sessions that the shim serves itself, and the ids of what goes over them."""

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from shim.hub.status import TERMINAL
from shim.ledger.records import TaskRow
from shim.wire.budget import KEY as BUFFERS
from shim.wire.budget import Budget, Holding
from shim.wire.errors import INVALID_REQUEST, ClientFault

_CONFLICT = 409
_TOUCHED = 100
_NUMBER = re.compile(r"[0-9]{1,18}")


class EventIds:
    """Makes ids of events that grow over all runs, so that a client's last one can be compared."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self._count = 0

    def next(self) -> str:
        """Give the next id, `<epoch>-<n>`."""
        self._count += 1
        return f"{self._epoch}-{self._count}"


def reached(last: str, event_id: str) -> bool:
    """Tell whether a client that has seen `last` has seen `event_id`; an id not ours has seen nothing."""
    seen, asked = _order(last), _order(event_id)
    return seen is not None and asked is not None and seen >= asked


def _order(event_id: str) -> tuple[int, int] | None:
    epoch, _, count = event_id.partition("-")
    if not (_NUMBER.fullmatch(epoch) and _NUMBER.fullmatch(count)):
        return None
    return int(epoch), int(count)


@dataclass(slots=True)
class Open:
    """A session's GET stream, for as long as it is there."""

    held: Holding
    """What waits to be sent, in the budget of all that waits."""
    wake: asyncio.Event = field(default_factory=asyncio.Event)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when the client asked for other news than before."""
    touched: OrderedDict[int, None] = field(default_factory=OrderedDict)
    """Tasks of other sessions of the caller that this one asked for last."""
    news: dict[bytes, None] = field(default_factory=dict)
    """Notifications of the server that wait to be sent, each once."""
    overflown: str | None = None
    """The bound that what was announced is beyond, once it is: what followed is not here."""
    read: bool = False
    """True while its client reads it."""
    stays: bool = False
    """True where it goes on when its client has left."""

    def announce(self, message: bytes, at_most: int) -> None:
        """Let a notification of the server wait; the same one again changes nothing."""
        if message not in self.news and self.overflown is None:
            if len(self.news) >= at_most:
                self.overflown = "limits.queue_per_stream"
            elif not self.held.fits(len(message)):
                self.overflown = BUFFERS
            else:
                self.news[message] = None
        self.wake.set()

    def next_news(self) -> bytes:
        """Take the notification that has waited for longest."""
        message = next(iter(self.news))
        del self.news[message]
        self.held.count(-len(message))
        return message

    def forget_news(self) -> None:
        """Let nothing wait any more."""
        self.news.clear()
        self.held.set(0)
        self.overflown = None


class Streams:
    """Which sessions have their GET stream open, and what is known of it."""

    def __init__(self, ids: EventIds, budget: Budget) -> None:
        self.ids = ids
        """What events go under, whichever stream carries them."""
        self._budget = budget
        self._open: dict[str, Open] = {}

    @contextmanager
    def opening(self, session_id: str) -> Iterator[Open]:
        """Hold a session's one stream while its client reads it. Raises ClientFault for a second reader."""
        if self.is_open(session_id):
            raise ClientFault(INVALID_REQUEST, "this session's stream is open already", _CONFLICT)
        stream = self._open.setdefault(session_id, Open(Holding(self._budget)))
        stream.read = True
        try:
            yield stream
        finally:
            stream.read = False
            if not stream.stays:
                self._close(session_id)

    def forget(self, session_id: str) -> None:
        """Let a session's stream end with its reader, or now where it has none."""
        stream = self._open[session_id]
        stream.stays = False
        if not stream.read:
            self._close(session_id)

    def is_open(self, session_id: str | None) -> bool:
        """Tell whether a session's stream is open, and read."""
        stream = self._open.get(session_id or "")
        return stream is not None and stream.read

    def wake(self, session_id: str | None) -> None:
        """Let a session's stream look again at what there is to send."""
        if (stream := self._open.get(session_id or "")) is not None:
            stream.wake.set()

    def ask_anew(self, session_id: str) -> None:
        """Let a session's stream ask the server for what the client wants now."""
        if (stream := self._open.get(session_id)) is not None:
            stream.asked.set()

    def touched(self, session_id: str | None, row: TaskRow) -> None:
        """Note that a session asked for a task, whose questions it may be sent if nobody else is there."""
        stream = self._open.get(session_id or "")
        if stream is not None and row.client_session != session_id and row.status not in TERMINAL:
            stream.touched[row.pk] = None
            stream.touched.move_to_end(row.pk)
            while len(stream.touched) > _TOUCHED:
                stream.touched.popitem(last=False)
            stream.wake.set()

    def _close(self, session_id: str) -> None:
        self._open.pop(session_id).forget_news()
