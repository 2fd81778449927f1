"""A plain TCP client: bytes out, bytes back, for what no HTTP library would send or leave undone."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

HEAD = b"POST %b HTTP/1.1\r\nHost: localhost\r\nAccept: application/json, text/event-stream\r\n"


@dataclass
class Answer:
    """One HTTP answer, its body by Content-Length or to the end."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass
class Wire:
    """An open connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self) -> Answer:
        """Read one answer whose length is told."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").rstrip("\r\n").split("\r\n")
        pairs = (line.partition(": ") for line in lines)
        headers = {name.lower(): value for name, _, value in pairs}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(int(first.split()[1]), headers, body)

    def half_close(self) -> None:
        """Say that nothing more will be sent; answers are still read."""
        self.writer.write_eof()

    def abort(self) -> None:
        """Cut the connection."""
        self.writer.transport.abort()


@asynccontextmanager
async def wire(url: str, *, receive_bytes: int | None = None) -> AsyncIterator[Wire]:
    """Connect; `receive_bytes` bounds what the kernel takes in for a reader that does not read."""
    parts = urlsplit(url)
    sock = socket.socket()
    sock.setblocking(False)  # noqa: FBT003 - the socket module's own signature
    if receive_bytes is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    await asyncio.get_running_loop().sock_connect(sock, (parts.hostname, parts.port))
    reader, writer = await asyncio.open_connection(sock=sock, limit=receive_bytes or 65_536)
    try:
        yield Wire(reader, writer)
    finally:
        writer.transport.abort()


def post(body: bytes, *lines: bytes, path: bytes = b"/mcp", length: int | None = None) -> bytes:
    """A POST of JSON with further header lines; `length` may lie."""
    said = b"Content-Length: %d" % (len(body) if length is None else length)
    head = b"".join(line + b"\r\n" for line in (b"Content-Type: application/json", said, *lines))
    return HEAD % path + head + b"\r\n" + body
