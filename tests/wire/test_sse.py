"""The SSE parser: frames as they came, whatever the chunks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.wire.sse import Frame, SseFrameTooLarge, SseParser, encode_event

LINES = st.sampled_from([
    b"data: a", b"data:b", b"data", b"data:", b"id: 7", b"id: ", b"event: x", b": note", b"retry: 15",
    b"retry: x", b"unknown: y", b"", b"",
])  # fmt: skip
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])


def parse(chunks: list[bytes]) -> tuple[list[Frame], bytes]:
    parser = SseParser(10_000)
    frames = [frame for chunk in chunks for frame in parser.feed(chunk)]
    return frames, parser.rest


@pytest.mark.rule("SSE")
@given(st.lists(st.tuples(LINES, ENDS)), st.lists(st.integers(0, 400)))
def test_any_chunking_gives_the_same_frames_and_every_byte(
    lines: list[tuple[bytes, bytes]], cuts: list[int]
) -> None:
    text = b"".join(line + end for line, end in lines)
    whole, rest = parse([text])
    assert b"".join(frame.raw for frame in whole) + rest == text
    at = sorted({cut for cut in cuts if cut < len(text)})
    pieces = [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]
    assert parse(pieces) == (whole, rest)


@pytest.mark.rule("SSE")
@pytest.mark.parametrize(
    ("text", "data", "event", "event_id"),
    [
        (b"data: one\ndata: two\n\n", b"one\ntwo", "message", None),
        (b"event: endpoint\nid: 9\ndata: {}\n\n", b"{}", "endpoint", "9"),
        (b"id: 4\ndata:\n\n", b"", "message", "4"),
        (b"id: 4\n\n", None, "message", "4"),
        (b": keep-alive\n\n", None, "message", None),
        (b"\xef\xbb\xbfdata: x\n\n", b"x", "message", None),
        ("data: a\u2028b\n\n".encode(), "a\u2028b".encode(), "message", None),
    ],
)
def test_a_frame_says_what_the_format_says(
    text: bytes, data: bytes | None, event: str, event_id: str | None
) -> None:
    [frame] = SseParser(1_000).feed(text)
    assert (frame.data, frame.event, frame.id, frame.raw) == (data, event, event_id, text)


@pytest.mark.rule("SSE")
def test_a_frame_over_the_bound_is_refused() -> None:
    parser = SseParser(16)
    assert parser.feed(b"data: short\n\n")
    with pytest.raises(SseFrameTooLarge):
        parser.feed(b"data: " + b"x" * 20)


@given(st.binary().filter(lambda data: b"\r" not in data))
def test_what_is_written_is_read(data: bytes) -> None:
    [frame] = SseParser(100_000).feed(encode_event(data, event_id="3"))
    assert (frame.data, frame.id) == (data, "3")
