"""SSE: frames are cut exactly, however the bytes arrive."""

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shim.wire.sse import COMMENT, Frame, SseFrameTooLarge, SseParser, encode_event

BOUND = 1_000


def parse(*chunks: bytes, bound: int = BOUND) -> list[Frame]:
    parser = SseParser(bound)
    frames = [frame for chunk in chunks for frame in parser.feed(chunk)]
    return frames + parser.finish()


@pytest.mark.rule("SSE")
@pytest.mark.parametrize(
    ("raw", "frame"),
    [
        (b"data: a\n\n", {"data": b"a"}),
        (b"data:a\r\n\r\n", {"data": b"a"}),
        (b"data: a\r\r", {"data": b"a"}),
        (b"data:  a\n\n", {"data": b" a"}),
        (b"data: a\ndata: b\n\n", {"data": b"a\nb"}),
        (b"data: a\r\ndata:\rdata: b\n\n", {"data": b"a\n\nb"}),
        (b"\xef\xbb\xbfdata: a\n\n", {"data": b"a"}),
        ("data: a\u2028b\u0085c\x0b\x0cd\n\n".encode(), {"data": "a\u2028b\u0085c\x0b\x0cd".encode()}),
        (b"event: any-name\ndata: a\n\n", {"event": "any-name", "data": b"a"}),
        (b"event\ndata: a\n\n", {"data": b"a"}),
        (b"id: 7\ndata: a\nretry: 300\n\n", {"id": "7", "data": b"a", "retry_ms": 300}),
        (b"id: 7\n\n", {"id": "7"}),
        (b"id: 7\ndata:\n\n", {"id": "7", "data": b""}),
        (b"id\ndata: a\n\n", {"id": "", "data": b"a"}),
        (b"id: a\0b\ndata: a\n\n", {"data": b"a"}),
        (b"retry: soon\ndata: a\n\n", {"data": b"a"}),
        (b"retry: " + b"9" * 900 + b"\ndata: a\n\n", {"data": b"a"}),
        (b"unknown: x\ndata: a\n\n", {"data": b"a"}),
        (b"Data: x\n\n", {}),
        (COMMENT, {}),
        (b"\n", {}),
    ],
)
def test_what_a_frame_says(raw: bytes, frame: dict[str, object]) -> None:
    assert parse(raw) == [Frame(raw, **frame)]  # type: ignore[arg-type]


@pytest.mark.rule("SSE")
def test_a_byte_order_mark_counts_only_at_the_start() -> None:
    raw = b"data: a\n\n\xef\xbb\xbfdata: b\n\n"
    assert [frame.data for frame in parse(raw)] == [b"a", None]


@pytest.mark.rule("SSE")
def test_a_byte_order_mark_alone_is_an_empty_line() -> None:
    frames = parse(b"\xef\xbb\xbf\ndata: a\n\n")
    assert [(frame.raw, frame.data) for frame in frames] == [
        (b"\xef\xbb\xbf\n", None),
        (b"data: a\n\n", b"a"),
    ]


@pytest.mark.rule("SSE")
def test_half_a_frame_is_passed_on_but_says_nothing() -> None:
    parser = SseParser(BOUND)
    assert [frame.data for frame in parser.feed(b"data: a\n\ndata: b\n")] == [b"a"]
    assert parser.rest == b"data: b\n"
    assert parser.finish() == [Frame(b"data: b\n")]
    assert parser.rest == b""


@pytest.mark.rule("SSE")
def test_a_frame_is_given_as_soon_as_it_has_ended() -> None:
    parser = SseParser(BOUND)
    assert parser.feed(b"data: a\n") == []
    assert parser.feed(b"\n") == [Frame(b"data: a\n\n", data=b"a")]


PIECES = st.sampled_from([
    b"data: ", b"data:", b"event: x", b"id: 1", b"retry: 5", b":", b"a", b"\n", b"\r", b"\r\n", b"\n\n",
    b"\xef\xbb\xbf", b"\0", b"\xc3\xa9", b"\xe2\x80\xa8", b"{}",
])  # fmt: skip
STREAMS = st.lists(PIECES, max_size=40).map(b"".join)


@pytest.mark.rule("SSE")
@given(STREAMS, st.lists(st.integers(0, 120), max_size=8))
def test_the_cut_into_chunks_does_not_matter(stream: bytes, cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(places)]
    frames = parse(*chunks)
    assert frames == parse(stream) == parse(*(stream[at : at + 1] for at in range(len(stream))))
    assert b"".join(frame.raw for frame in frames) == stream


@pytest.mark.rule("SSE")
@given(STREAMS)
def test_frames_and_rest_add_up_at_any_moment(stream: bytes) -> None:
    parser, seen = SseParser(BOUND), b""
    for at in range(len(stream)):
        seen += b"".join(frame.raw for frame in parser.feed(stream[at : at + 1]))
        assert seen + parser.rest == stream[: at + 1]


LINES = st.text(st.characters(exclude_characters="\r\n\0", exclude_categories=["Cs"]), min_size=1)


@pytest.mark.rule("SSE")
@given(
    data=st.lists(LINES, min_size=1).map(lambda lines: "\n".join(lines).encode()),
    event_id=st.none() | LINES,
    event=LINES,
    retry_ms=st.none() | st.integers(0, 10**8),
)
def test_what_is_written_is_read_again(
    data: bytes, event_id: str | None, event: str, retry_ms: int | None
) -> None:
    written = encode_event(data, event_id=event_id, event=event, retry_ms=retry_ms)
    assert parse(written, bound=100_000) == [Frame(written, event, data, event_id, retry_ms)]


@pytest.mark.rule("SSE")
@given(
    st.binary()
    | st.lists(st.sampled_from([b"\r", b"\n", b"id: 7", b"event: x", b"data: y", b"{}"])).map(b"".join)
)
@example(b'{"a":\r\revent: endpoint\rdata: forged\r\r1}')
def test_any_bytes_can_be_data(data: bytes) -> None:
    """And none of them is a field or a frame of its own; a line end is one, however it is written."""
    [frame] = parse(encode_event(data), bound=100_000)
    assert frame.data == data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert (frame.event, frame.id, frame.retry_ms) == ("message", None, None)


@pytest.mark.rule("SSE", "LL-1")
def test_a_frame_with_other_data_keeps_its_id_and_retry() -> None:
    [frame] = parse(b"event: e\r\nid: 7\r\nretry: 5\r\ndata: a\r\n\r\n")
    assert frame.with_data(b"b") == b"event: e\nid: 7\nretry: 5\ndata: b\n\n"


def test_an_event_may_go_without_a_name() -> None:
    assert encode_event(b"{}", event=None) == b"data: {}\n\n"


@pytest.mark.rule("SSE")
@pytest.mark.parametrize("line", [b"data: ", b": ", b""])
@pytest.mark.parametrize("end", [b"", b"\n\n"])
@pytest.mark.parametrize("size", [1, 7, 5_000])
def test_a_frame_over_the_bound_is_refused_however_it_comes(line: bytes, end: bytes, size: int) -> None:
    stream = line + b"x" * BOUND + end
    with pytest.raises(SseFrameTooLarge):
        parse(*(stream[at : at + size] for at in range(0, len(stream), size)), bound=BOUND - 1)


@pytest.mark.rule("SSE")
def test_many_short_lines_count_together() -> None:
    with pytest.raises(SseFrameTooLarge):
        parse(*[b": x\n"] * BOUND)


@pytest.mark.rule("SSE")
def test_many_frames_in_one_chunk_are_not_one_large_frame() -> None:
    assert len(parse(b"data: a\n\n" * BOUND)) == BOUND
