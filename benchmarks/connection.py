"""One HTTP/1.1 client connection without a library: a request written whole, its answer awaited."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Self
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class Answer:
    """A complete HTTP answer; a chunked body still has its chunk heads."""

    status: int
    head: bytes
    body: bytes

    def header(self, name: str) -> str | None:
        """Give a header's value."""
        for line in self.head.decode("latin-1").split("\r\n")[1:]:
            key, _, value = line.partition(":")
            if key.lower() == name.lower():
                return value.strip()
        return None


def parse(data: bytes | bytearray) -> Answer | None:
    """Give the one answer that `data` is, or None while it is not complete."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    head, start = bytes(data[:end]), end + 4
    lower = head.lower()
    at = lower.find(b"\r\ncontent-length:")
    if at >= 0:
        length = int(lower[at + 17 :].split(b"\r\n", 1)[0])
        complete = len(data) - start >= length
    elif b"\r\ntransfer-encoding: chunked" in lower:
        complete = data.endswith(b"\r\n0\r\n\r\n") or data[start:] == b"0\r\n\r\n"
    else:
        complete = True
    return Answer(int(head[9:12]), head, bytes(data[start:])) if complete else None


class Connection(asyncio.Protocol):
    """A keep-alive connection with one request at a time."""

    def __init__(self) -> None:
        self.on_answer: Callable[[Answer], None] | None = None
        self.on_lost: Callable[[], None] | None = None
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, url: str) -> Self:
        """Connect to the URL's host and port."""
        place = urlsplit(url)
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(cls, place.hostname or "", place.port or 80)
        return connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self._transport = transport  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Collect an answer; give it away once it is complete."""
        if self._buffer:
            self._buffer += data
            answer = parse(self._buffer)
        else:
            answer = parse(data)
            if answer is None:
                self._buffer += data
        if answer is not None:
            self._buffer.clear()
            if self.on_answer is not None:
                self.on_answer(answer)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        """Tell whoever waits."""
        if self.on_lost is not None:
            self.on_lost()

    def send(self, request: bytes) -> None:
        """Write a request; its answer goes to `on_answer`."""
        assert self._transport is not None
        self._transport.write(request)

    async def exchange(self, request: bytes) -> Answer:
        """Send a request and wait for its answer. Raises ConnectionError if there is none."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def lost() -> None:
            if not answered.done():
                answered.set_exception(ConnectionError("connection lost"))

        self.on_answer, self.on_lost = answered.set_result, lost
        self.send(request)
        try:
            return await answered
        finally:
            self.on_answer = self.on_lost = None

    async def opens(self, request: bytes, marker: bytes) -> None:
        """Send a request whose answer does not end, and wait for `marker` in it."""
        self.send(request)
        while marker not in self._buffer:  # noqa: ASYNC110 - set-up, not measured
            await asyncio.sleep(0.005)

    def close(self) -> None:
        """Close at once."""
        self.on_lost = None
        if self._transport is not None:
            self._transport.abort()


async def hold_open(count: int, one: Callable[[int], Awaitable[Connection]], *, at_once: int) -> None:
    """Open so many streams, say so, and keep them until standard input ends."""
    gate = asyncio.Semaphore(at_once)

    async def opened(number: int) -> Connection:
        async with gate:
            return await one(number)

    streams = await asyncio.gather(*map(opened, range(count)))
    print("open", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for stream in streams:
        stream.close()
