"""One session of a legacy process: what goes with which exchange, which HTTP would say by its streams."""

from collections import deque

from shim.hub import rawjson
from shim.hub.rawjson import RawJsonError
from shim.upstreams.stdio.peer import Inbox, Peer, progress_token
from shim.upstreams.stdio.process import Process
from shim.wire.envelope import related_task_of
from shim.wire.jsonrpc import Message, Request, Response, write_request
from shim.wire.methods import RUN

_CALLS = RUN | {"completion/complete"}
"""What a server may ask something back for."""
_HELD = 100
"""Messages kept until somebody listens."""


class LegacyPeer(Peer):
    """A process that serves one session."""

    def __init__(self, process: Process, name: str, now_ms: int) -> None:
        super().__init__(process, name, now_ms)
        self._stream: Inbox | None = None
        self._held: deque[bytes] = deque(maxlen=_HELD)

    @property
    def busy(self) -> bool:
        """True while a request is under way or somebody listens."""
        return super().busy or self._stream is not None

    async def ask(self, request: Request) -> Inbox:
        """Send a request under its own id: a session's are used once. Raises ConnectionError."""
        inbox = self._opened(request.id, request)
        await self.tell(write_request(request.id, request.method, request.params or None))
        return inbox

    async def left(self, inbox: Inbox) -> None:
        """Forget the exchange; in this era that calls nothing off."""
        if inbox.request is None:
            self._stream = None
        elif self.inboxes.get(inbox.request.id) is inbox:
            del self.inboxes[inbox.request.id]

    def listen(self) -> Inbox | None:
        """Give what comes besides answers; None where somebody listens already."""
        if self._stream is not None:
            return None
        self._stream = Inbox()
        while self._held:
            self._stream.put(self._held.popleft())
        return self._stream

    def take(self, message: Message, line: bytes) -> None:
        """Give an answer to who asked, the rest to the exchange it belongs to as far as that can be told."""
        if isinstance(message, Response):
            inbox = self.inboxes.get(message.id or b"")
            if inbox is not None:
                inbox.put(line, last=True)
            return
        inbox = self._about(message) or self._stream or self._newest()
        if inbox is not None:
            inbox.put(line)
        else:
            self._held.append(line)

    def break_off(self) -> None:
        """Break off the requests and the stream."""
        super().break_off()
        if self._stream is not None:
            self._stream.close()

    def _about(self, message: Message) -> Inbox | None:
        """Find the request that a message belongs to: by its token, its task, or as the only call."""
        assert not isinstance(message, Response)  # noqa: S101 - those are told by their ids
        token = progress_token(message)
        if token is not None:
            return next((one for one in self.inboxes.values() if _token_of(one) == token), None)
        task_id = related_task_of(message.params)
        if task_id is not None:
            return next((one for one in self.inboxes.values() if _result_of(one) == task_id), None)
        if not isinstance(message, Request):
            return None
        calls = [one for one in self.inboxes.values() if one.request and one.request.method in _CALLS]
        return calls[0] if len(calls) == 1 else None

    def _newest(self) -> Inbox | None:
        return next(reversed(self.inboxes.values()), None)


def _token_of(inbox: Inbox) -> bytes | None:
    if inbox.request is None:
        return None
    try:
        return rawjson.members(inbox.request.params.get("_meta", b"{}")).get("progressToken")
    except RawJsonError:
        return None


def _result_of(inbox: Inbox) -> str | None:
    """Give the task whose result a request waits for."""
    if inbox.request is None or not inbox.request.method.endswith("/result"):
        return None
    return rawjson.string(inbox.request.params.get("taskId"))
