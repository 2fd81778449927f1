"""DUR-2, ML-INPUT: the shim is told to stop while a task is about to ask, and started again."""

from pathlib import Path
from typing import Any

import pytest

from tests.corners.ml import accept, asks_before_it_hears, corner, elicit
from tests.scripted import Error, Raw, Scripted, task, text


@pytest.mark.rule("DUR-2", "ML-INPUT")
async def test_the_stream_is_called_off_and_a_new_one_gets_the_question(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    first, second = upstream.stream("tasks/result"), upstream.stream("tasks/result")
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        await ml.get()
        old = await first.opened()
    [off] = upstream.seen("notifications/cancelled")
    assert (off.params["requestId"], off.session) == (old.id, old.session)
    async with corner(upstream, tmp_path) as ml:
        assert (await ml.get())["status"] == "working"
        new = await second.opened()
        assert new.id != old.id
        await second.send(elicit("q", "task-1"))
        await ml.until("task-1", "input_required")
    assert not ml.events("input.lost")


@pytest.mark.rule("DUR-2", "ML-INPUT")
async def test_what_was_asked_just_before_the_stream_is_called_off_is_kept(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    stream = upstream.stream("tasks/result")
    asks_before_it_hears(upstream, stream)
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        await ml.get()
        await stream.opened()
    async with corner(upstream, tmp_path) as ml:
        assert list((await ml.get())["inputRequests"]) == ["elicitation-1"]
        await ml.client.tasks("update", "task-1", inputResponses={"elicitation-1": accept(ok=True)})
        assert (await upstream.response_to("q")).session == upstream.seen("tools/call")[0].session
    assert len(upstream.seen("notifications/cancelled")) == 1


@pytest.mark.rule("DUR-2", "ML-INPUT")
async def test_a_stream_that_could_not_be_called_off_is_called_off_after_the_start(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    first, second = upstream.stream("tasks/result"), upstream.stream("tasks/result")
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        await ml.get()
        old = await first.opened()
        upstream.on("notifications/cancelled", Error(-32603, status=503))
    failed = len(upstream.seen("notifications/cancelled"))
    upstream.on("notifications/cancelled", Raw(b"", 202, {}))
    async with corner(upstream, tmp_path) as ml:
        await ml.get()
        new = await second.opened()
        off = upstream.seen("notifications/cancelled")[failed]
    assert off.params["requestId"] == old.id
    assert upstream.requests.index(off) < upstream.requests.index(new)


@pytest.mark.rule("ML-SESSION", "ML-INPUT")
async def test_a_session_taken_up_again_hears_of_its_next_task(upstream: Scripted, tmp_path: Path) -> None:
    """The answer that is still owed takes the session up first, then the pool does: it is one session."""
    states: dict[str, Any] = {"task-1": task(), "task-2": task("task-2")}
    upstream.on("tasks/get", lambda seen: states[seen.params["taskId"]])
    upstream.on("tasks/result", text("done"))
    sections: dict[str, Any] = {
        "sessions": {"spares": 0},
        "upstream": {"dialect": "experimental", "credentials": "none"},
    }
    async with corner(upstream, tmp_path, **sections) as ml:
        await ml.create()
        await (await upstream.get_stream()).send(elicit(1, "task-1"))
        await ml.until("task-1", "input_required")
        upstream.once(None, Error(-32603, status=503))
        await ml.client.tasks("update", "task-1", inputResponses={"elicitation-1": accept(ok=True)})
        await upstream.response_to(1)
    async with corner(upstream, tmp_path, **sections) as ml:
        stream = await upstream.get_stream()
        await upstream.wait(None, 2)
        states["task-1"] = task(status="completed")
        await ml.until("task-1", "completed")
        await ml.create("task-2")
        await stream.send(elicit(5, "task-2"))
        await ml.until("task-2", "input_required")
    assert upstream.sessions == ["session-1"]
    assert len(upstream.seen("GET")) == 2
