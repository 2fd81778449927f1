"""OWN-CREDENTIAL: the shim's own work on a task waits for its owner, and goes on when they come back."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.client import LegacyClient
from tests.corners.ml import ALICE, Corner, HandClock, accept, corner, elicit
from tests.scripted import Raw, Scripted, task, text

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
DENIED = Raw(b"who?", 401, {"Content-Type": "text/plain", "WWW-Authenticate": "Bearer"})
ONE_SESSION: dict[str, Any] = {"sessions": {"spares": 0}}


async def asked(ml: Corner) -> None:
    """Make a task with one question that its client sees."""
    ml.upstream.on("tasks/get", task(status="input_required"))
    await ml.create()
    await (await ml.upstream.get_stream()).send(elicit(9, "task-1"))
    await ml.until("task-1", "input_required")


async def answer(ml: Corner) -> None:
    reply = await ml.client.tasks("update", "task-1", inputResponses={"elicitation-1": accept(ok=True)})
    assert reply.result == {"resultType": "complete"}


async def nothing(ml: Corner) -> None:
    """A request that no upstream hears of: time for what goes on beside it."""
    assert (await ml.client.request("nothing")).status == 404


async def paused(ml: Corner) -> None:
    """Wait until a pause is in the log."""
    while not ml.events("task.waiting_credential"):
        await nothing(ml)


def answers_sent(upstream: Scripted) -> int:
    return sum(1 for seen in upstream.requests if seen.is_response)


@pytest.mark.rule("OWN-CREDENTIAL", "ML-UPDATE")
async def test_an_answer_that_was_denied_waits_for_its_owner(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path, **ONE_SESSION) as ml:
        await asked(ml)
        upstream.response_answer = DENIED
        await answer(ml)
        denied = await upstream.response_to(9)
        await paused(ml)
        ml.clock.advance(DAY_MS)
        await nothing(ml)
        assert answers_sent(upstream) == 1
        upstream.response_answer = None
        assert (await ml.get())["status"] == "working"
        while answers_sent(upstream) < 2:
            await ml.get()
    assert denied.headers["Authorization"] == "Bearer alice"
    assert [event["task_id"] for event in ml.events("task.waiting_credential")] == ["task-1"]
    assert not ml.events("task.ended")


@pytest.mark.rule("OWN-CREDENTIAL", "DUR-2")
async def test_an_answer_stored_by_an_earlier_run_goes_out_when_its_owner_comes(
    upstream: Scripted, tmp_path: Path
) -> None:
    clock = HandClock()
    async with corner(upstream, tmp_path, clock=clock, **ONE_SESSION) as ml:
        await asked(ml)
        upstream.response_answer = Raw(b"", 503)
        await answer(ml)
        await upstream.response_to(9)
    upstream.response_answer = None
    before = len(upstream.requests)
    async with corner(upstream, tmp_path, clock=clock, **ONE_SESSION) as ml:
        await paused(ml)
        clock.advance(DAY_MS)
        await nothing(ml)
        assert len(upstream.requests) == before  # nor is it tried without one
        await ml.get()
        while answers_sent(upstream) < 2:
            await ml.get()
    assert len(ml.events("task.waiting_credential")) == 1


@pytest.mark.rule("OWN-CREDENTIAL", "DUR-6")
async def test_an_abandoned_task_is_not_cancelled_without_its_owners_credential(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task())
    upstream.on("tasks/cancel", task(status="cancelled"))
    sections = {**ONE_SESSION, "tasks": {"on_abandon": "cancel"}}
    async with corner(upstream, tmp_path, **sections) as ml:
        await ml.create()
        for _ in range(3):
            ml.clock.advance(DAY_MS)
            await ml.app.tasks.sweeper.once()
        assert not upstream.seen("tasks/cancel")
        assert (await ml.get())["status"] == "working"
        ml.clock.advance(HOUR_MS / 2)
    assert [len(ml.events(name)) for name in ("task.abandoned", "task.waiting_credential")] == [1, 1]


@pytest.mark.rule("OWN-CREDENTIAL", "ML-STREAMS")
@pytest.mark.parametrize("spoil", [lambda ml: ml.clock.advance(HOUR_MS), None], ids=["expired", "refused"])
async def test_a_stream_is_not_opened_again_without_a_credential(
    upstream: Scripted, tmp_path: Path, spoil: Callable[[Corner], None] | None
) -> None:
    upstream.on("tasks/get", task())
    async with corner(upstream, tmp_path, **ONE_SESSION) as ml:
        await ml.create()
        stream = await upstream.get_stream()
        if spoil is None:
            upstream.get_answer = DENIED
        else:
            spoil(ml)
        await stream.close()
        while not ml.events("task.waiting_credential"):
            ml.clock.advance(1_000)
            await nothing(ml)
        denied = len(upstream.seen("GET"))
        upstream.get_answer = None
        ml.clock.advance(HOUR_MS)
        await nothing(ml)
        assert len(upstream.seen("GET")) == denied
        await ml.get()
        await upstream.get_stream()
    assert denied == (2 if spoil is None else 1)
    assert len(ml.events("task.waiting_credential")) == 1


@pytest.mark.rule("OWN-CREDENTIAL", "CS-RESULT")
async def test_a_watched_task_is_not_looked_at_without_a_credential(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task())
    upstream.on("tasks/result", text("done"))
    async with corner(upstream, tmp_path) as ml:
        url = ml.app.url.replace("/mcp", "/create-status")
        async with LegacyClient(url, headers=ALICE) as old:
            await old.initialize()
            upstream.once("tools/call", {"task": task()})
            await old.request("tasks/create", {"name": "run", "arguments": {}})
            async with old.stream("tasks/result", {"taskId": "task-1"}) as waiting:
                await upstream.wait("tasks/get")
                await old.request("tasks/status", {"taskId": "task-1"})  # the first look is over
                while not ml.events("task.waiting_credential"):
                    ml.clock.advance(HOUR_MS)
                    await nothing(ml)
                looked = len(upstream.seen("tasks/get"))
                ml.clock.advance(DAY_MS)
                await nothing(ml)
                assert len(upstream.seen("tasks/get")) == looked
                upstream.on("tasks/get", task(status="completed"))
                await ml.client.request("tools/list")
                assert (await waiting.message())["result"]["content"] == text("done")["content"]
    assert len(ml.events("task.waiting_credential")) == 1
