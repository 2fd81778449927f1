"""ML-STREAMS: the GET stream of an upstream session: when it is opened, and opened again."""

from pathlib import Path

import pytest

from tests.corners.ml import Corner, corner, elicit
from tests.scripted import Raw, Scripted, Stream, task, text

BACK_OFF_MS = (250, 1_000, 4_000, 15_000, 15_000)


async def opened_again(ml: Corner, wait_ms: int, number: int) -> None:
    """Hold that the n-th GET comes when so much time has passed, and not a moment before."""
    await ml.clock.slept(wait_ms)
    ml.clock.advance(wait_ms - 1)
    await ml.client.request("server/discover")
    assert len(ml.upstream.seen("GET")) == number - 1
    ml.clock.advance(1)
    await ml.upstream.wait("GET", number)


@pytest.mark.rule("ML-STREAMS")
@pytest.mark.parametrize("status", [409, 429, 500, 503])
async def test_a_busy_or_broken_server_is_asked_again_with_back_off(
    upstream: Scripted, tmp_path: Path, status: int
) -> None:
    upstream.get_answer = Raw(b"", status)
    async with corner(upstream, tmp_path, sessions={"spares": 0}) as ml:
        await ml.create()
        for number, wait_ms in enumerate(BACK_OFF_MS, 2):
            await opened_again(ml, wait_ms, number)
        await ml.clock.slept(BACK_OFF_MS[-1])
        upstream.get_answer = None
        ml.clock.advance(BACK_OFF_MS[-1])
        stream = await upstream.get_stream()
        await stream.opened()
        await stream.close()
        await opened_again(ml, BACK_OFF_MS[0], len(BACK_OFF_MS) + 3)


@pytest.mark.rule("ML-STREAMS")
@pytest.mark.parametrize("refused", [Raw(b"", 405), Raw(b"", 404), Raw(b"<html>", 200, {})])
async def test_a_server_without_the_stream_is_not_asked_again(
    upstream: Scripted, tmp_path: Path, refused: Raw
) -> None:
    upstream.get_answer = refused
    upstream.on("tasks/get", task())
    async with corner(upstream, tmp_path, sessions={"spares": 0}) as ml:
        await ml.create()
        for _ in range(3):
            ml.clock.advance(60_000)
            assert (await ml.get())["status"] == "working"
    assert len(upstream.seen("GET")) == 1


@pytest.mark.rule("ML-STREAMS", "SSE")
@pytest.mark.parametrize("cut", [Stream.close, Stream.abort])
async def test_a_dropped_stream_goes_on_after_the_last_event(
    upstream: Scripted, tmp_path: Path, cut: object
) -> None:
    assert callable(cut)
    upstream.on("tasks/get", task(status="input_required"))
    async with corner(upstream, tmp_path, sessions={"spares": 0}) as ml:
        await ml.create()
        stream = await upstream.get_stream()
        await stream.write(b"id: primed\ndata:\n\n")
        await cut(stream)
        await opened_again(ml, BACK_OFF_MS[0], 2)
        stream = await upstream.get_stream()
        await stream.send(elicit(1, "task-1"), event_id="event-7")
        await ml.until("task-1", "input_required")
        await cut(stream)
        await opened_again(ml, BACK_OFF_MS[0], 3)
        again = await upstream.get_stream()
        await again.send(elicit(1, "task-1"), event_id="event-7")  # a server that replays one too many
        await again.send(elicit(2, "task-1"), event_id="event-8")
        while len(shown := (await ml.get())["inputRequests"]) < 2:
            pass
    assert list(shown) == ["elicitation-1", "elicitation-2"]
    said = [seen.headers.get("Last-Event-ID") for seen in upstream.seen("GET")]
    assert said == [None, "primed", "event-7"]


@pytest.mark.rule("ML-STREAMS", "SSE")
async def test_a_server_says_when_to_come_back(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path, sessions={"spares": 0}) as ml:
        await ml.create()
        stream = await upstream.get_stream()
        await stream.write(b"retry: 7000\n\n")
        await stream.close()
        await opened_again(ml, 7_000, 2)


@pytest.mark.rule("ML-STREAMS", "OWN-CREDENTIAL")
async def test_a_stream_that_was_denied_is_opened_with_the_next_credential(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task())
    upstream.get_answer = Raw(b"", 401)
    async with corner(upstream, tmp_path, sessions={"spares": 0}) as ml:
        await ml.create()
        upstream.get_answer = None
        denied = len(upstream.seen("GET"))
        ml.clock.advance(60_000)
        await ml.get()
        await upstream.get_stream()
    assert len(upstream.seen("GET")) == denied + 1
    assert {seen.headers["Authorization"] for seen in upstream.seen("GET")} == {"Bearer alice"}


@pytest.mark.rule("ML-STREAMS")
async def test_a_session_taken_up_after_a_restart_is_listened_to_before_the_call(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tools/call", text("done"))
    for _ in range(2):
        async with corner(upstream, tmp_path, sessions={"spares": 0}) as ml:
            await ml.client.call("plain")
    first, second = upstream.seen("tools/call")
    assert first.session == second.session
    order = [seen.http_method if seen.method is None else seen.method for seen in upstream.requests]
    assert [one for one in order if one in {"GET", "tools/call"}] == ["GET", "tools/call"] * 2
