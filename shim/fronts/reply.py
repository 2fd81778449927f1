"""One answer to one client request: JSON while nothing else has to be said, an event stream from then on."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import hdrs, web

from shim.audit.trace import Trace
from shim.upstreams.broken import Denied
from shim.wire.budget import Holding
from shim.wire.challenge import named_elsewhere
from shim.wire.http import JSON_TYPE, SSE_TYPE, UNSENDABLE, is_success
from shim.wire.jsonrpc import Notification, is_error, write_notification
from shim.wire.sse import COMMENT, encode_event

_CHALLENGED = (401, 403)
_PIECE_BYTES = 64 * 1024


class SlowReader(ConnectionError):
    """The client did not read for `limits.slow_reader_ms`; it is shed, nothing is buffered for it."""


class Reply:
    """Answers a request, at once or by a stream."""

    def __init__(
        self,
        request: web.BaseRequest,
        trace: Trace,
        headers: Iterable[tuple[str, str]],
        *,
        slow_reader_ms: int,
    ) -> None:
        self._request = request
        self._trace = trace
        self._headers = [*headers, ("X-Request-Id", trace.request_id)]
        self._of_success: tuple[tuple[str, str], ...] = ()
        self._patience_s = slow_reader_ms / 1000
        self.metadata_url: str | None = None
        """The public address of the endpoint's metadata; a challenge names it in the place of another."""
        self.resumable = False
        """True once the stream carried an event id: its client can take it up again."""
        self._stream: web.StreamResponse | None = None
        self._endures = False
        self._gone = False
        self._names_events = True
        self._carried_by: Callable[[bytes, str | None], str] | None = None
        self._on_answer: Callable[[bytes], Awaitable[None]] | None = None
        self.said: bytes | None = None
        """The last message that may have been the answer."""

    @property
    def streaming(self) -> bool:
        """True once the answer is an event stream."""
        return self._stream is not None

    def endure(self) -> None:
        """Let what is said go on when the client has left: from then on it is said to nobody."""
        self._endures = True

    def keep(self, carried: Callable[[bytes, str | None], str]) -> None:
        """Let each message be kept that goes on the stream, under the id given; then the reply endures."""
        self._carried_by = carried

    def without_event_ids(self) -> None:
        """Give no message an id: what its client resumes by them is at another server."""
        self._names_events = False

    def let_go(self) -> None:
        """Say no more to this client: it reads on elsewhere."""
        self._gone = True

    def on_answer(self, hear: Callable[[bytes], Awaitable[None]] | None) -> None:
        """Let each message that may be the answer be heard before the client sees it."""
        self._on_answer = hear

    async def answering(self, message: bytes) -> None:
        """Tell who wants to hear it that this message is about to be sent."""
        if message:
            self.said = message
        if self._on_answer is not None:
            await self._on_answer(message)

    def add_header(self, name: str, value: str) -> None:
        """Add a header, which may be an upstream's; only before the answer has begun."""
        self._headers.append((name, _sendable(value)))

    def add_headers(self, headers: Iterable[tuple[str, str]]) -> None:
        """Add headers; only before the answer has begun."""
        self._headers.extend(headers)

    def on_success(self, headers: Iterable[tuple[str, str]]) -> None:
        """Set headers that only a successful answer carries (SUNSET)."""
        self._of_success = tuple(headers)

    def failed(self) -> None:
        """Note that the answer is an error: what only a successful one carries is left out."""
        self._of_success = ()

    def header(self, name: str) -> str | None:
        """Give the value of a header that the answer will carry or carries."""
        return next((value for key, value in self._headers if key.lower() == name.lower()), None)

    def relayed_denial(self, denied: Denied) -> web.StreamResponse:
        """Finish with an upstream's 401 or 403 and its challenge (ERRORS)."""
        self.failed()
        for value in denied.challenge:
            self.add_header("WWW-Authenticate", value)
        return self.raw(denied.status, denied.body, denied.content_type)

    def abandoned(self) -> web.StreamResponse:
        """Give what stands for an answer that nobody reads any more."""
        return self._stream or web.Response(status=499)

    async def open_stream(self, status: int = 200) -> None:
        """Send the headers of an event stream now."""
        if self._stream is None and not self._gone:
            self._trace.http_status = status
            stream = web.StreamResponse(status=status, headers=self._carried(status))
            stream.content_type = SSE_TYPE
            stream.headers[hdrs.CACHE_CONTROL] = "no-cache, no-transform"
            stream.headers["X-Accel-Buffering"] = "no"
            try:
                await stream.prepare(self._request)
            except ConnectionResetError:
                if not self._goes_on():
                    raise
            else:
                self._stream = stream

    async def notify(self, notification: Notification) -> None:
        """Send a notification before the answer; the answer becomes a stream."""
        await self.event(write_notification(notification.method, notification.params))

    async def event(self, message: bytes, event_id: str | None = None) -> None:
        """Send a message on the stream. Raises SlowReader."""
        if self._carried_by is not None:
            event_id = self._carried_by(message, event_id)
            self._endures = self.resumable = True
        await self.open_stream()
        await self._write(encode_event(message, event_id=event_id if self._names_events else None))

    async def prime(self, event_id: str) -> None:
        """Give the client an event id to come back with, on an event that says nothing. Raises SlowReader."""
        await self._write(encode_event(b"", event_id=event_id, event=None))

    async def raw_frame(self, frame: bytes) -> None:
        """Pass a frame of an upstream's stream on as it came. Raises SlowReader."""
        await self._write(frame)

    async def end_stream(self) -> web.StreamResponse:
        """Finish the stream; it must be open, or its client gone."""
        if self._gone:
            return self.abandoned()
        assert self._stream is not None  # noqa: S101 - a fault of ours, not of a peer
        try:
            await self._stream.write_eof()
        except ConnectionResetError:
            if not self._goes_on():
                raise
        return self._stream

    def raw(self, status: int, body: bytes, content_type: str | None) -> web.StreamResponse:
        """Finish with an upstream's whole answer as it came."""
        self._trace.http_status = status
        self._trace.bytes_out += len(body)
        headers = self._carried(status)
        if content_type is not None:
            headers.append((hdrs.CONTENT_TYPE, _sendable(content_type)))
        return web.Response(status=status, body=body or None, headers=headers)

    async def comment(self) -> None:
        """Keep the stream alive."""
        await self._write(COMMENT)

    async def send(self, body: bytes, status: int = 200) -> web.StreamResponse:
        """Finish with a JSON-RPC message, on the stream if there is one."""
        await self.answering(body)
        if self._of_success and is_error(body):
            self.failed()
        self._trace.http_status = status
        if self._stream is None:
            self._trace.bytes_out += len(body)
            return web.Response(
                status=status, body=body, headers=self._carried(status), content_type=JSON_TYPE
            )
        await self.event(body)
        return await self.end_stream()

    async def finish(self, response: web.StreamResponse, held: Holding) -> web.StreamResponse:
        """Send a large answer piece by piece: that shows whether its client reads. Raises SlowReader."""
        body = response.body if isinstance(response, web.Response) else None
        if not isinstance(body, bytes) or len(body) <= _PIECE_BYTES:
            return response
        held.count(len(body))  # it is there, whatever the bound; requests that come then are refused
        stream = web.StreamResponse(status=response.status, headers=response.headers)
        stream.content_length = len(body)
        await stream.prepare(self._request)
        self._stream = stream
        whole = memoryview(body)
        for at in range(0, len(body), _PIECE_BYTES):
            if not await self._push(stream, whole[at : at + _PIECE_BYTES]):
                return stream
        await stream.write_eof()
        return stream

    def empty(self, status: int) -> web.StreamResponse:
        """Finish without a body."""
        self._trace.http_status = status
        return web.Response(status=status, headers=self._carried(status))

    def _carried(self, status: int) -> list[tuple[str, str]]:
        """Give the headers of an answer of that status."""
        if self.metadata_url is not None and status in _CHALLENGED:
            return [(name, self._public(name, value)) for name, value in self._headers]
        successful = is_success(status)
        return [*self._headers, *(self._of_success if successful else ())]

    def _public(self, name: str, value: str) -> str:
        """Give a header's value as it is true for a client."""
        if self.metadata_url is None or name != hdrs.WWW_AUTHENTICATE:
            return value
        return named_elsewhere(value, self.metadata_url)

    async def _write(self, data: bytes) -> None:
        if self._stream is not None and await self._push(self._stream, data):
            self._trace.bytes_out += len(data)

    async def _push(self, stream: web.StreamResponse, data: bytes | memoryview) -> bool:
        """Write what the client has to read within its time; False where it is gone. Raises SlowReader."""
        if self._gone:
            return False
        try:
            async with asyncio.timeout(self._patience_s):
                await stream.write(data)
        except ConnectionResetError:
            if not self._goes_on():
                raise
            return False
        except TimeoutError:
            self._trace.reached("limits.slow_reader_ms")
            if self._request.transport is not None:
                self._request.transport.abort()
            if not self._goes_on():
                raise SlowReader("the client does not read") from None
            return False
        return True

    def _goes_on(self) -> bool:
        """Note that the client has left, and tell whether the answer goes on without it."""
        self._gone = True
        return self._endures


def _sendable(value: str) -> str:
    return UNSENDABLE.sub("", value)
