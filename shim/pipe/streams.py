"""Standard input and output as streams of lines, whatever they are: pipes, sockets, files or a terminal."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from typing import BinaryIO


async def lines_of(source: BinaryIO, max_bytes: int) -> AsyncIterator[bytes]:
    """Give line by line until the end. Raises ValueError for a line beyond the bound."""
    reader = asyncio.StreamReader(limit=max_bytes)
    if stat.S_ISREG(os.fstat(source.fileno()).st_mode):
        reader.feed_data(source.read())
        reader.feed_eof()
    else:
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
    while line := await reader.readline():
        yield line


class Lines:
    """Writes messages, one on a line, to a client that reads as fast as it likes."""

    def __init__(self, writer: asyncio.StreamWriter | None, sink: BinaryIO) -> None:
        self._writer = writer
        self._sink = sink

    @classmethod
    async def to(cls, sink: BinaryIO) -> "Lines":
        """Open the way to an output."""
        mode = os.fstat(sink.fileno()).st_mode
        if not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            return cls(None, sink)
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.connect_write_pipe(asyncio.streams.FlowControlMixin, sink)
        return cls(asyncio.StreamWriter(transport, protocol, None, loop), sink)

    async def write(self, message: bytes) -> None:
        """Write a message. Raises ConnectionError where nobody reads any more."""
        # a line end in JSON can only be white space between its parts
        line = message.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n"
        if self._writer is None:
            self._sink.write(line)
            self._sink.flush()
        else:
            self._writer.write(line)
            await self._writer.drain()

    def close(self) -> None:
        """Say that nothing else comes."""
        if self._writer is not None:
            self._writer.close()
