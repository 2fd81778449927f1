"""A small SSE reader for tests, written apart from the shim's own so that both cannot err alike."""

import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BLANK = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")


@dataclass(frozen=True)
class Frame:
    """One event or comment block, with the bytes it came in."""

    raw: bytes
    event: str
    data: bytes | None
    id: str | None
    retry_ms: int | None
    comment: bool

    @property
    def json(self) -> Any:
        """The data decoded."""
        assert self.data is not None, f"no data in {self.raw!r}"
        return json.loads(self.data)


def parse(raw: bytes) -> Frame:
    """Read one block, its blank line included or not."""
    event, data, event_id, retry_ms, comment = "message", None, None, None, False
    for line in _LINE_END.split(raw):
        if not line:
            continue
        if line.startswith(b":"):
            comment = True
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            event = value.decode()
        elif name == b"data":
            data = value if data is None else data + b"\n" + value
        elif name == b"id":
            event_id = value.decode()
        elif name == b"retry":
            retry_ms = int(value)
    return Frame(raw, event, data, event_id, retry_ms, comment and data is None)


def split(body: bytes) -> list[Frame]:
    """All blocks of a finished stream."""
    frames = []
    while match := _BLANK.search(body):
        frames.append(parse(body[: match.end()]))
        body = body[match.end() :]
    if body.strip():
        frames.append(parse(body))
    return frames


async def iterate(chunks: AsyncIterator[bytes]) -> AsyncIterator[Frame]:
    """Blocks as they arrive."""
    buffer = b""
    async for chunk in chunks:
        buffer += chunk
        while match := _BLANK.search(buffer):
            yield parse(buffer[: match.end()])
            buffer = buffer[match.end() :]
