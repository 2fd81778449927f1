"""The SSE parser: the same frames however the bytes are cut, those of the standard, within the bound."""

from fuzz.reference import events
from fuzz.source import Source
from shim.wire.sse import Frame, SseFrameTooLarge, SseParser, encode_event

SEEDS = (
    b"\x40\x01\x02\x03\0data: a\n\n", b"\x40\x01\0data:a\r\n\r\nid: 7\rdata: b\r\r: c\n\n",
    b"\x40\x03\x02\0\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", b"\x08\x01\x01\x01\0event: x\nretry: 30\ndata: a\n\n",
    b"\xff\x09\0data: {}\ndata: x\r\ndata\r\n\r\ndata: half", b"\x05\x04\0data: too long\n\n", b"\x40\0id: a\0b\nid\n\n",
)  # fmt: skip
WORDS = (
    b"data: ", b"data:", b"event: x", b"id: 1", b"id", b"retry: 5", b"retry: \xd9\xa3", b":", b"\n", b"\r", b"\r\n",
    b"\n\n", b"\r\r", b"\r\n\r\n", b"\xef\xbb\xbf", b"\0", b"\xe2\x80\xa8", b"\x0b", b"\x85", b" ", b"{}",
)  # fmt: skip
_UNBOUNDED = 1 << 20


def check(data: bytes) -> None:
    """Parse a stream in one piece, byte by byte and as the input says; write what was read."""
    source = Source(data)
    bound = source.byte()
    sizes = []
    while size := source.byte():
        sizes.append(size)
    stream = source.rest()
    whole = _parse([stream], _UNBOUNDED)
    pieces = _cut(stream, sizes)
    assert b"".join(frame.raw for frame in whole) == stream, "bytes are lost"
    assert _parse(pieces, _UNBOUNDED) == whole, "the cut matters"
    assert _parse([stream[at : at + 1] for at in range(len(stream))], _UNBOUNDED) == whole, "the cut matters"
    read = [(frame.event, frame.data, frame.id, frame.retry_ms) for frame in whole]
    ended = events(stream)
    assert read[: len(ended)] == ended, "it is not what the standard reads"
    assert all(frame == Frame(frame.raw) for frame in whole[len(ended) :]), "half a frame says something"
    _bounded(pieces, bound, whole)
    _bounded([stream], bound, whole)
    for frame in whole[: len(ended)]:
        if frame.data is not None:
            _written(frame)


def _parse(pieces: list[bytes], bound: int) -> list[Frame]:
    parser, found, seen = SseParser(bound), list[Frame](), 0
    for piece in pieces:
        found += parser.feed(piece)
        seen += len(piece)
        assert sum(len(frame.raw) for frame in found) + len(parser.rest) == seen
    return found + parser.finish()


def _cut(stream: bytes, sizes: list[int]) -> list[bytes]:
    pieces = []
    for size in sizes:
        pieces.append(stream[:size])
        stream = stream[size:]
    return [*pieces, stream]


def _bounded(pieces: list[bytes], bound: int, whole: list[Frame]) -> None:
    try:
        found = _parse(pieces, bound)
    except SseFrameTooLarge:
        assert any(len(frame.raw) > bound for frame in whole), "a frame within the bound is refused"
    else:
        assert found == whole
        assert all(len(frame.raw) <= bound for frame in whole), "a frame over the bound passes"


def _written(frame: Frame) -> None:
    again = _parse([frame.with_data(frame.data or b"")], _UNBOUNDED)
    said = (frame.event, frame.data, frame.id, frame.retry_ms)
    assert [(one.event, one.data, one.id, one.retry_ms) for one in again] == [said], "written it is another"
    assert _parse([encode_event(frame.raw.replace(b"\r", b""))], _UNBOUNDED)[0].data == frame.raw.replace(
        b"\r", b""
    )
