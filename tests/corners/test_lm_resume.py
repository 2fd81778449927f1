"""A call's stream that broke is taken up again with `Last-Event-ID` (LM-RESUME)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.corners.lm import BOB, Corner, corner
from tests.corners.mm import until
from tests.scripted import Scripted, Stream, scripted, text

CALL = {"name": "run", "arguments": {}, "_meta": {"progressToken": "p"}}
DONE: dict[str, Any] = {"resultType": "complete", **text("done")}


@pytest.fixture
async def modern_upstream() -> AsyncIterator[Scripted]:
    async with scripted(sessions=False) as server:
        yield server


async def gone(lm: Corner, running: Stream) -> None:
    """Wait until the server's stream is closed; a handle that may be on its way is waited for first."""
    await lm.clock.slept(1_000)
    lm.clock.advance(1_000)
    await running.left()


async def progress(stream: Stream, step: int) -> None:
    """Let the server report."""
    token = (await stream.opened()).params["_meta"]["progressToken"]
    params = {"progressToken": token, "progress": step}
    await stream.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


async def broken(lm: Corner, running: Stream) -> str:
    """Begin a call, read one report, and lose the connection; gives the last event's id."""
    reporting = asyncio.create_task(progress(running, 1))  # headers come with the first message
    async with lm.client.stream("tools/call", CALL, id="call-1") as stream:
        await reporting
        first = await stream.next()
        assert first.json["params"] == {"progressToken": "p", "progress": 1}
        assert first.id
        stream.close()

    async def disconnected() -> bool:
        return any(one["outcome"] == "disconnected" for one in lm.events("request"))

    await until(disconnected)
    return str(first.id)


@pytest.mark.rule("LM-RESUME")
async def test_what_was_missed_and_what_is_yet_to_come(modern_upstream: Scripted, tmp_path: Path) -> None:
    running = modern_upstream.stream("tools/call")
    async with corner(modern_upstream, tmp_path) as lm:
        last = await broken(lm, running)
        await progress(running, 2)
        async with lm.client.get(headers={"Last-Event-ID": last}) as again:
            assert (await again.message())["params"]["progress"] == 2
            await progress(running, 3)
            assert (await again.message())["params"]["progress"] == 3
            await running.result(DONE)
            answer = await again.message()
            assert (answer["id"], answer["result"]) == ("call-1", text("done"))
            assert await again.rest() == []
    assert len(modern_upstream.seen("tools/call")) == 1


@pytest.mark.rule("LM-RESUME")
async def test_an_answer_that_came_meanwhile_is_there_for_a_while(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    running = modern_upstream.stream("tools/call")
    async with corner(modern_upstream, tmp_path, legacy={"replay_ms": 5_000}) as lm:
        last = await broken(lm, running)
        await running.result(DONE)
        await lm.clock.slept(5_000)
        for _ in range(2):  # as often as it takes
            async with lm.client.get(headers={"Last-Event-ID": last}) as again:
                assert [one["id"] for one in await again.rest()] == ["call-1"]
        lm.clock.advance(5_001)
        await asyncio.sleep(0)
        async with lm.client.get(headers={"Last-Event-ID": last}) as stale:
            assert (await stale.next_raw()).data is None  # the session's own stream: it only stays alive


@pytest.mark.rule("LM-RESUME")
async def test_a_call_that_nobody_comes_back_for_is_closed(modern_upstream: Scripted, tmp_path: Path) -> None:
    running = modern_upstream.stream("tools/call")
    async with corner(modern_upstream, tmp_path, legacy={"replay_ms": 5_000}) as lm:
        await broken(lm, running)
        await lm.clock.slept(5_000)
        assert running.is_open
        lm.clock.advance(5_001)
        await gone(lm, running)


@pytest.mark.rule("LM-RESUME")
async def test_a_client_may_still_call_it_off(modern_upstream: Scripted, tmp_path: Path) -> None:
    running = modern_upstream.stream("tools/call")
    async with corner(modern_upstream, tmp_path) as lm:
        await broken(lm, running)
        await lm.client.notify("notifications/cancelled", {"requestId": "call-1"})
        await gone(lm, running)


@pytest.mark.rule("LM-RESUME")
async def test_a_stream_is_its_sessions_alone(modern_upstream: Scripted, tmp_path: Path) -> None:
    running = modern_upstream.stream("tools/call")
    async with corner(modern_upstream, tmp_path) as lm:
        last = await broken(lm, running)
        await running.result(DONE)
        bob = await lm.seated(BOB)
        async with bob.get(headers={"Last-Event-ID": last}) as stream:
            assert (await stream.next_raw()).data is None


@pytest.mark.rule("LM-RESUME")
async def test_of_too_many_messages_the_last_are_kept(modern_upstream: Scripted, tmp_path: Path) -> None:
    running = modern_upstream.stream("tools/call")
    async with corner(modern_upstream, tmp_path, limits={"replay_events": 2}) as lm:
        last = await broken(lm, running)
        for step in (2, 3):
            await progress(running, step)
        await running.result(DONE)
        async with lm.client.get(headers={"Last-Event-ID": last}) as stream:
            assert (await stream.next_raw()).data is None  # its place in the stream is gone


@pytest.mark.rule("LM-RESUME")
async def test_a_call_that_said_nothing_yet_ends_with_its_client(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    running = modern_upstream.stream("tools/call")
    async with corner(modern_upstream, tmp_path) as lm:
        calling = asyncio.create_task(lm.client.request("tools/call", CALL))
        await running.opened()
        calling.cancel()
        await gone(lm, running)
