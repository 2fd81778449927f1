"""What is said with one process: each message goes to the exchange that waits for it.

Standard output is one channel. A legacy process serves one session and its messages are sorted by
`legacy.py`; a modern one serves a caller's requests and `modern.py` sorts its.
"""

import abc
import asyncio

from shim.hub.rawjson import RawJsonError
from shim.upstreams.stdio.process import Process
from shim.wire.errors import UpstreamFault
from shim.wire.jsonrpc import Message, Notification, Request, read_upstream
from shim.wire.methods import PROGRESS

_UNREAD = 1_000
"""Messages that wait for one exchange; it is broken off when there are more."""

_SHOWN = 200


class Inbox:
    """What a process says to one exchange, in order."""

    def __init__(self, request: Request | None = None) -> None:
        self.request = request
        """What is to be answered; None for the stream that a session listens on."""
        self._messages: asyncio.Queue[tuple[bytes, bool] | None] = asyncio.Queue()
        self._closed = False

    def put(self, message: bytes, *, last: bool = False) -> None:
        """Add a message; `last` is the answer."""
        if not self._closed:
            self._messages.put_nowait((message, last))
            if self._messages.qsize() > _UNREAD:
                self.close()

    def close(self) -> None:
        """Break it off: nothing else will come."""
        self._closed = True
        self._messages.put_nowait(None)

    async def next(self) -> tuple[bytes, bool] | None:
        """Give the next message and whether it is the answer; None where the exchange broke off."""
        return await self._messages.get()


class Peer(abc.ABC):
    """A process that is spoken to."""

    def __init__(self, process: Process, name: str, now_ms: int) -> None:
        self.name = name
        """The session, or the caller, that it serves."""
        self.inboxes: dict[bytes, Inbox] = {}
        """The requests under way, by the id that the process knows them by."""
        self.used_ms = now_ms
        self.over = False
        self._process = process
        self._ending: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """True while anything waits for it."""
        return bool(self.inboxes)

    @abc.abstractmethod
    async def ask(self, request: Request) -> Inbox:
        """Send a request and give where its answer comes. Raises ConnectionError."""

    @abc.abstractmethod
    async def left(self, inbox: Inbox) -> None:
        """Take it that nobody reads an exchange any more."""

    @abc.abstractmethod
    def take(self, message: Message, line: bytes) -> None:
        """Sort a message of the process."""

    async def tell(self, message: bytes) -> None:
        """Send what wants no answer. Raises ConnectionError."""
        await self._process.write(message)

    async def run(self) -> None:
        """Take up what the process says until it is gone; what still waits then is broken off."""
        try:
            async for line in self._process.lines():
                if not line.isspace():
                    self._heard(line.strip())
            if not self.over:
                self._process.complain("the process has ended")
        finally:
            self.retire()
        if self._ending is not None:
            await self._ending

    def _heard(self, line: bytes) -> None:
        try:
            self.take(read_upstream(line), line)
        except (UpstreamFault, RawJsonError):
            self._process.complain(f"no message on standard output: {line[:_SHOWN]!r}")

    def _opened(self, key: bytes, request: Request) -> Inbox:
        """Give where the answer comes to a request that is about to be sent under an id."""
        inbox = self.inboxes[key] = Inbox(request)
        if self.over:
            inbox.close()
        return inbox

    def break_off(self) -> None:
        """Break off all that is under way."""
        for inbox in list(self.inboxes.values()):
            inbox.close()

    def retire(self) -> None:
        """Take no more, break off what is under way and begin to end the process, if that has not begun."""
        self.over = True
        self.break_off()
        if self._ending is None:
            self._ending = asyncio.create_task(self._process.end(), name=f"end {self._process.pid}")


def progress_token(message: Message) -> bytes | None:
    """Give the token of a progress notification."""
    if isinstance(message, Notification) and message.method == PROGRESS:
        return message.params.get("progressToken")
    return None
