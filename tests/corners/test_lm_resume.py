"""A stream that broke, a call's or the session's own, is taken up again with `Last-Event-ID` (LM-RESUME)."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.client import OpenStream
from tests.corners.lm import BOB, Corner, asks, corner, seen_as
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
            assert not (await stale.next_raw()).data  # the session's own stream: it only stays alive


@pytest.mark.rule("LM-RESUME")
@pytest.mark.parametrize("is_back", [True, False])
async def test_a_call_that_fails_meanwhile_says_so(
    modern_upstream: Scripted, tmp_path: Path, *, is_back: bool
) -> None:
    running = modern_upstream.stream("tools/call")
    async with corner(modern_upstream, tmp_path) as lm:
        last = await broken(lm, running)
        if not is_back:
            await running.abort()
        async with lm.client.get(headers={"Last-Event-ID": last}) as again:
            if is_back:
                await running.abort()
            [answer] = await again.rest()
    assert (answer["id"], answer["error"]["code"]) == ("call-1", -32603)


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
            assert not (await stream.next_raw()).data


@pytest.mark.rule("LM-RESUME")
async def test_of_too_many_messages_the_last_are_kept(modern_upstream: Scripted, tmp_path: Path) -> None:
    running = modern_upstream.stream("tools/call")
    async with corner(modern_upstream, tmp_path, limits={"replay_events": 2}) as lm:
        last = await broken(lm, running)
        for step in (2, 3):
            await progress(running, step)
        await running.result(DONE)
        async with lm.client.get(headers={"Last-Event-ID": last}) as stream:
            assert not (await stream.next_raw()).data  # its place in the stream is gone


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


# -- the session's own stream --------------------------------------------------------------------

LISTEN = "subscriptions/listen"
TOOLS, UPDATED, TOLD = (
    "notifications/tools/list_changed", "notifications/resources/updated", "notifications/tasks/status",
)  # fmt: skip
A = {"uri": "file:///a"}


async def announce(listen: Stream, method: str = TOOLS, **params: Any) -> None:
    """Let the server announce something."""
    asked = await listen.opened()
    params["_meta"] = {"io.modelcontextprotocol/subscriptionId": asked.id}
    await listen.send({"jsonrpc": "2.0", "method": method, "params": params})


async def seen(lm: Corner, stream: OpenStream, method: str = TOOLS) -> str:
    """Wait for a notification; gives the id of its event."""
    frame = await lm.ticking(asyncio.create_task(stream.next()))
    assert frame.json["method"] == method
    return str(frame.id)


async def left(lm: Corner, stream: OpenStream, count: int = 1) -> None:
    """Lose the connection, and wait until the shim has noticed."""
    stream.close()

    async def noticed() -> bool:
        gone = [one for one in lm.events("request") if one["outcome"] == "disconnected"]
        return len(gone) >= count

    await until(noticed)


@pytest.mark.rule("LM-RESUME", "LM-STREAM")
async def test_what_was_announced_meanwhile_is_heard(modern_upstream: Scripted, tmp_path: Path) -> None:
    first, listen = modern_upstream.stream(LISTEN), modern_upstream.stream(LISTEN)
    async with corner(modern_upstream, tmp_path) as lm:
        task_id = await lm.create()
        async with lm.client.get() as stream:
            await first.opened()
            await lm.client.request("resources/subscribe", A)
            await announce(listen)
            last = await seen(lm, stream)
            await left(lm, stream)
        await announce(listen, UPDATED, **A)
        modern_upstream.on("tasks/get", seen_as("task-1", "completed", result=text("done")))
        await lm.until(task_id, "completed")
        for time in (2, 3):  # as often as it takes
            async with lm.client.get(headers={"Last-Event-ID": last}) as again:
                told = {one["method"]: one["params"] for one in [await again.message() for _ in range(2)]}
                assert (told[UPDATED], told[TOLD]["status"]) == (A, "completed")
                await left(lm, again, time)
        async with lm.client.get(headers={"Last-Event-ID": last}) as again:
            for _ in range(2):
                await again.message()
            await announce(listen)
            assert await seen(lm, again)
    assert len(modern_upstream.seen(LISTEN)) == 2


@pytest.mark.rule("LM-RESUME")
async def test_a_client_has_an_id_to_come_back_with_before_anything_is_said(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    listen = modern_upstream.stream(LISTEN)
    async with corner(modern_upstream, tmp_path) as lm:
        async with lm.client.get() as stream:
            first = await stream.next_raw()
            assert (first.data, bool(first.id)) == (b"", True)
            await listen.opened()
            await left(lm, stream)
        await announce(listen)
        async with lm.client.get(headers={"Last-Event-ID": str(first.id)}) as again:
            assert await seen(lm, again)


@pytest.mark.rule("LM-RESUME", "LM-INIT")
async def test_a_client_of_an_older_version_gets_no_empty_event(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.stream(LISTEN)
    older = {"version": "2025-06-18"}
    async with corner(modern_upstream, tmp_path, client=older) as lm, lm.client.get() as stream:
        assert (await stream.next_raw()).comment


GONE: dict[str, dict[str, Any]] = {
    "too late": {"legacy": {"replay_ms": 5_000}},
    "too many": {"limits": {"replay_events": 2}},
    "too much": {"limits": {"replay_bytes": 1_024}},
    "no id": {},
    "an id of another": {},
}


@pytest.mark.rule("LM-RESUME")
@pytest.mark.parametrize("case", GONE)
async def test_what_is_not_kept_is_not_said_again(
    modern_upstream: Scripted, tmp_path: Path, case: str
) -> None:
    """The session's stream begins anew, with what comes from then on."""
    listen, second = modern_upstream.stream(LISTEN), modern_upstream.stream(LISTEN)
    async with corner(modern_upstream, tmp_path, **GONE[case]) as lm:
        await lm.client.request("resources/subscribe", A)
        async with lm.client.get() as stream:
            await announce(listen)
            last = await seen(lm, stream)
            for n in range(3):
                await announce(listen, UPDATED, **A, text=str(n) * 400)
                await seen(lm, stream, UPDATED)  # and says that it has not
            await left(lm, stream)
        await announce(listen, UPDATED, **A)
        if case == "too late":
            await lm.clock.slept(5_000)
            lm.clock.advance(5_001)
            await listen.left()
        headers = {"no id": {}, "an id of another": {"Last-Event-ID": "1-999999"}}
        async with lm.client.get(headers=headers.get(case, {"Last-Event-ID": last})) as again:
            await listen.left()
            await announce(second)
            assert await seen(lm, again)


@pytest.mark.rule("LM-RESUME", "LM-LOCAL")
async def test_a_session_that_ends_while_its_client_is_away_ends_what_is_kept(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    listen = modern_upstream.stream(LISTEN)
    async with corner(modern_upstream, tmp_path) as lm:
        async with lm.client.get() as stream:
            await announce(listen)
            await seen(lm, stream)
            await left(lm, stream)
        assert (await lm.client.delete()).status == 200
        await listen.left()


@pytest.mark.rule("LM-INPUT", "LM-RESUME")
async def test_a_question_is_not_kept_but_sent_where_the_client_is(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    listen = modern_upstream.stream(LISTEN)
    async with corner(modern_upstream, tmp_path) as lm:
        task_id = await lm.create()
        async with lm.client.get() as stream:
            await announce(listen)
            last = await seen(lm, stream)
            await left(lm, stream)
        modern_upstream.on("tasks/get", asks("k"))
        await lm.until(task_id, "input_required")
        async with lm.client.stream("tasks/result", {"taskId": task_id}) as result:
            asked = await lm.ticking(asyncio.create_task(result.message()))
            assert asked["method"] == "elicitation/create"
            async with lm.client.get(headers={"Last-Event-ID": last}) as again:
                assert await seen(lm, again, TOLD)
                assert not (await again.next_raw()).data
