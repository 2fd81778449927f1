"""Server-sent events without I/O: bytes in, frames out (SSE).

A frame keeps the bytes it came in, so that a stream can be passed on exactly as it was. Lines end with
CR, LF or CRLF and nothing else; the parser looks at each byte once.
"""

import re
from dataclasses import dataclass
from typing import NoReturn

COMMENT = b": keep-alive\n\n"

_LINE_END = re.compile(rb"\r\n|\n|\r")
_BOM = b"\xef\xbb\xbf"
_RETRY_DIGITS = 9


class SseFrameTooLarge(ValueError):
    """A frame is larger than the bound."""


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame: its bytes as received, and what they say. `data` is None where the frame carries none."""

    raw: bytes
    event: str = "message"
    data: bytes | None = None
    id: str | None = None
    retry_ms: int | None = None

    def with_data(self, data: bytes) -> bytes:
        """Give the frame with other data, everything else as it was."""
        return encode_event(data, event_id=self.id, event=self.event, retry_ms=self.retry_ms)


class SseParser:
    """Cuts a byte stream into frames; the frames' raw bytes and `rest` add up to the stream."""

    def __init__(self, max_frame_bytes: int) -> None:
        self._max = max_frame_bytes
        self._buffer = bytearray()
        self._scanned = 0
        self._line_start = 0
        self._lines: list[bytes] = []
        self._first = True

    @property
    def rest(self) -> bytes:
        """The bytes of the frame that has not ended yet."""
        return bytes(self._buffer)

    def feed(self, chunk: bytes) -> list[Frame]:
        """Take bytes and give the frames they complete. Raises SseFrameTooLarge."""
        self._buffer += chunk
        frames: list[Frame] = []
        while (end := _LINE_END.search(self._buffer, self._scanned)) is not None:
            if end.group() == b"\r" and end.end() == len(self._buffer):
                break  # the LF that may belong to it has not come yet
            line = bytes(self._buffer[self._line_start : end.start()])
            self._line_start = self._scanned = end.end()
            if self._first:
                line, self._first = line.removeprefix(_BOM), False
            if line:
                self._lines.append(line)
                continue
            if end.end() > self._max:
                self._refuse()
            frames.append(self._frame(bytes(self._buffer[: end.end()])))
            del self._buffer[: end.end()]
            self._line_start = self._scanned = 0
        else:
            self._scanned = len(self._buffer)
        if len(self._buffer) > self._max:
            self._refuse()
        return frames

    @property
    def waiting(self) -> int:
        """How many bytes wait for the rest of their frame."""
        return len(self._buffer)

    def finish(self) -> list[Frame]:
        """Give what the stream's end completes: a frame that ended in a lone CR, or half a frame."""
        if bytes(self._buffer[self._line_start :]) == b"\r":
            frame = self._frame(self.rest)
        else:
            frame = Frame(self.rest)
        self._buffer.clear()
        return [frame] if frame.raw else []

    def _refuse(self) -> NoReturn:
        raise SseFrameTooLarge(f"a frame is larger than {self._max} bytes")

    def _frame(self, raw: bytes) -> Frame:
        event, data, event_id, retry_ms = "message", [], None, None
        for line in self._lines:
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"event":
                event = value.decode("utf-8", "replace") or "message"
            elif name == b"id" and b"\0" not in value:
                event_id = value.decode("utf-8", "replace")
            elif name == b"retry" and value.isdigit() and len(value) <= _RETRY_DIGITS:
                retry_ms = int(value)
        self._lines.clear()
        return Frame(raw, event, b"\n".join(data) if data else None, event_id, retry_ms)


def encode_event(
    data: bytes, *, event_id: str | None = None, event: str | None = "message", retry_ms: int | None = None
) -> bytes:
    """Write an event; data over several lines is split as the format wants it."""
    parts: list[bytes] = []
    if event is not None:
        parts.append(b"event: " + event.encode() + b"\n")
    if event_id is not None:
        parts.append(b"id: " + event_id.encode() + b"\n")
    if retry_ms is not None:
        parts.append(b"retry: %d\n" % retry_ms)
    if b"\n" in data or b"\r" in data:
        parts.extend(b"data: " + line + b"\n" for line in _LINE_END.split(data))
    else:
        parts.append(b"data: " + data + b"\n")
    parts.append(b"\n")
    return b"".join(parts)
