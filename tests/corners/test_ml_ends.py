"""INPUT-END, DUR-4, ML-GET: what a task's end and a task's time do to those who wait and ask."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from shim.hub.status import Status
from shim.tasks import results
from shim.tasks.terminal import End
from tests.corners.ml import Corner, accept, corner, elicit
from tests.scripted import Error, Hang, Raw, Scripted, task, text

ACK = {"resultType": "complete"}
SERVER = {"_meta": {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}}
TTL_MS = 60_000
UNKNOWN = "no-such-task"


async def asked(ml: Corner, request_id: Any = 9) -> None:
    """Make a task with one outstanding question."""
    ml.upstream.on("tasks/get", task(status="input_required"))
    await ml.create()
    await (await ml.upstream.get_stream()).send(elicit(request_id, "task-1"))
    await ml.until("task-1", "input_required")


@pytest.mark.rule("INPUT-END")
@pytest.mark.parametrize("end", ["completed", "failed", "cancelled"])
async def test_questions_vanish_with_their_task_and_late_answers_are_dropped(
    upstream: Scripted, tmp_path: Path, end: str
) -> None:
    async with corner(upstream, tmp_path) as ml:
        await asked(ml)
        upstream.on("tasks/get", task(status=end))
        upstream.on("tasks/result", text("done", isError=end == "failed"))
        ended = await ml.get()
        assert ended["status"] in {"completed", "cancelled"}
        assert "inputRequests" not in ended
        answers = {"elicitation-1": accept(ok=True)}
        assert (await ml.client.tasks("update", "task-1", inputResponses=answers)).result == ACK
        assert await ml.get() == ended
    assert not [seen for seen in upstream.requests if seen.is_response]
    assert not ml.events("input.answered")


@pytest.mark.rule("INPUT-END", "ML-CANCEL")
async def test_a_clients_cancel_closes_the_question(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        await asked(ml)
        upstream.on("tasks/cancel", task(status="cancelled"))
        upstream.on("tasks/get", task(status="cancelled"))
        assert (await ml.client.tasks("cancel", "task-1")).result == ACK
        ended = await ml.get()
    assert (ended["status"], "inputRequests" in ended) == ("cancelled", False)


@pytest.mark.rule("INPUT-END", "ML-UPDATE")
async def test_an_answer_on_its_way_is_dropped_when_the_task_ends(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        await asked(ml)
        upstream.once(None, Raw(b"", 503))
        answers = {"elicitation-1": accept(ok=True)}
        assert (await ml.client.tasks("update", "task-1", inputResponses=answers)).result == ACK
        await upstream.response_to(9)
        upstream.on("tasks/get", task(status="cancelled"))
        assert (await ml.client.tasks("get", "task-1")).result["status"] == "cancelled"
        ml.clock.advance(60_000)
        await ml.client.request("server/discover")
    assert len([seen for seen in upstream.requests if seen.is_response]) == 1


@pytest.mark.rule("INPUT-END")
async def test_a_question_after_the_end_is_refused(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task(status="cancelled"))
    async with corner(upstream, tmp_path, tasks={"tasks_per_session": 2}) as ml:
        await ml.create()
        await ml.create("task-2")
        await ml.until("task-1", "cancelled")
        await (await upstream.get_stream()).send(elicit(9, "task-1"))
        assert "error" in (await upstream.response_to(9)).message
        assert "inputRequests" not in await ml.get()


@pytest.mark.rule("INPUT-END", "ML-UNDECLARED")
@pytest.mark.parametrize("end", ["completed", "cancelled"])
async def test_who_waits_for_a_task_gets_its_end(upstream: Scripted, tmp_path: Path, end: str) -> None:
    upstream.once("tools/call", {"task": task()})
    upstream.on("tasks/get", task())
    result = upstream.stream("tasks/result")
    async with corner(upstream, tmp_path, tasks={"undeclared": "wait"}) as ml:
        ml.client.declares_tasks = False
        waiting = asyncio.create_task(ml.client.call("must"))
        await result.opened()
        await result.send(elicit(9, "task-1"))
        ml.client.declares_tasks = True
        await ml.until("task-1", "input_required")
        upstream.on("tasks/get", task(status=end))
        if end == "completed":
            await result.result(text("done"))
        await ml.until("task-1", end)
        reply = await waiting
    if end == "completed":
        assert reply.result == {**ACK, **text("done"), **SERVER}
    else:
        assert reply.error == {"code": -32603, "message": "task was cancelled"}


@pytest.mark.rule("ML-GET")
@pytest.mark.parametrize("verb", ["update", "cancel"])
async def test_an_update_or_cancel_ends_the_reuse_of_what_was_seen(
    upstream: Scripted, tmp_path: Path, verb: str
) -> None:
    async with corner(upstream, tmp_path) as ml:
        await asked(ml)
        upstream.on("tasks/cancel", task())
        upstream.on("tasks/get", task())
        options: dict[str, Any] = {"inputResponses": {"elicitation-1": accept()}} if verb == "update" else {}
        await ml.client.tasks(verb, "task-1", **options)
        before = len(upstream.seen("tasks/get"))
        await ml.client.tasks("get", "task-1")
        after = len(upstream.seen("tasks/get"))
        await ml.client.tasks("get", "task-1")
    # the cancel itself has looked already
    assert after - before == (1 if verb == "update" else 0)
    assert len(upstream.seen("tasks/get")) == after


@pytest.mark.rule("ML-GET")
@pytest.mark.parametrize(("hint", "reused_ms"), [(60_000, 1_000), (2_000, 500), (None, 250)])
async def test_what_was_seen_is_reused_for_a_quarter_of_the_interval_and_at_most_a_second(
    upstream: Scripted, tmp_path: Path, hint: int | None, reused_ms: int
) -> None:
    fields: dict[str, Any] = {} if hint is None else {"pollInterval": hint}
    upstream.on("tasks/get", task(**fields))
    async with corner(upstream, tmp_path, tasks={"default_poll_interval_ms": 1_000}) as ml:
        await ml.create(**fields)
        await ml.client.tasks("get", "task-1")
        ml.clock.advance(reused_ms - 1)
        await ml.client.tasks("get", "task-1")
        assert len(upstream.seen("tasks/get")) == 1
        ml.clock.advance(1)
        await ml.client.tasks("get", "task-1")
    assert len(upstream.seen("tasks/get")) == 2


@pytest.mark.rule("DUR-4", "ML-SESSION-LOST")
@pytest.mark.parametrize("shown_ttl", [None, 2 * TTL_MS])
async def test_unknown_after_its_time_is_expired_and_known_only_to_its_owner(
    upstream: Scripted, tmp_path: Path, shown_ttl: int | None
) -> None:
    largest_ms = shown_ttl or TTL_MS
    upstream.once("tasks/get", task(ttl=largest_ms))
    upstream.on("tasks/get", Error(-32602, "unknown"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create(ttl=TTL_MS)
        assert (await ml.get())["status"] == "working"
        ml.clock.advance(largest_ms - 3_000)
        assert (await ml.get())["status"] == "working"
        ml.clock.advance(1_000)
        for verb in ("get", "cancel", "get"):
            error = (await ml.client.tasks(verb, "task-1")).error
            assert error == {"code": -32602, "message": "Failed to retrieve task: Task has expired"}
        ml.client.headers = {"Authorization": "Bearer bob"}
        foreign = await ml.client.tasks("get", "task-1", id=1)
        assert foreign.body == (await ml.client.tasks("get", UNKNOWN, id=1)).body
    assert not ml.events("task.lost")
    async with corner(upstream, tmp_path, clock=ml.clock) as ml:
        assert "expired" in (await ml.client.tasks("get", "task-1")).error["message"]


@pytest.mark.rule("DUR-4")
async def test_an_open_task_is_never_purged_by_the_clock_alone(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task(ttl=TTL_MS))
    async with corner(upstream, tmp_path) as ml:
        await ml.create(ttl=TTL_MS)
        ml.clock.advance(100 * TTL_MS)
        await ml.app.tasks.sweeper.once()
        assert (await ml.get())["status"] == "working"


@pytest.mark.rule("DUR-4")
async def test_an_ended_task_loses_its_payload_then_its_name(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task(status="completed", ttl=TTL_MS))
    upstream.on("tasks/result", text("done"))
    async with corner(upstream, tmp_path, tasks={"tombstone_ms": 10_000}) as ml:
        await ml.create(ttl=TTL_MS)
        assert (await ml.get())["status"] == "completed"
        ml.clock.advance(TTL_MS)
        await ml.app.tasks.sweeper.once()
        assert "expired" in (await ml.client.tasks("get", "task-1")).error["message"]
        ml.clock.advance(10_000)
        await ml.app.tasks.sweeper.once()
        gone = await ml.client.tasks("get", "task-1", id=1)
        assert gone.body == (await ml.client.tasks("get", UNKNOWN, id=1)).body


@pytest.mark.rule("ML-TERMINAL")
async def test_a_result_that_is_slow_to_come_is_waited_for(
    upstream: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calling the request off would take its session along on the most common server."""
    monkeypatch.setattr(results, "_PAYLOAD_MS", 1)
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        upstream.on("tasks/get", task(status="completed"))
        slow = upstream.stream("tasks/result")
        getting = asyncio.create_task(ml.get())
        await slow.opened()
        for _ in range(20):  # more than a millisecond: each is an exchange of its own
            await ml.client.request("server/discover", {})
        await slow.result(text("done"))
        assert (await getting)["status"] == "completed"
    assert upstream.seen("notifications/cancelled") == []
    assert len(upstream.seen("tasks/result")) == 1


@pytest.mark.rule("HUB-2", "ML-GET")
async def test_who_waits_for_a_result_is_answered_although_another_ended_the_task(
    upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        upstream.on("tasks/get", task(status="completed"))
        upstream.once("tasks/result", Hang())
        upstream.on("tasks/result", text("done"))
        waiting = asyncio.create_task(ml.get())
        await upstream.wait("tasks/result")
        row = await ml.app.ledger.own_task(1)
        await ml.app.tasks.observer.end(row, End(Status.COMPLETED, json.dumps(text("done")).encode()))
        assert (await waiting)["status"] == "completed"
    assert len(ml.events("task.ended")) == 1
    assert not [event for event in ml.events("request") if event["outcome"] == "disconnected"]
