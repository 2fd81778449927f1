"""ML-SESSION: the pool of upstream sessions: spares, bounds, idleness, and who may use which."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.corners.ml import ALICE, Corner, corner
from tests.scripted import Hang, Scripted, task, text

IDLE_MS = 600_000


async def pooled(ml: Corner, number: int) -> None:
    """Let the shim work until its pool has so many sessions."""
    while ml.app.behind.open_sessions != number:
        await ml.client.request("server/discover")


@pytest.mark.rule("ML-SESSION")
async def test_with_a_spare_a_create_costs_one_upstream_request(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        await ml.create("task-1")
        await pooled(ml, 2)
        before = len(upstream.requests)
        upstream.on("initialize", Hang())  # the spare after the next can wait; the create does not
        await ml.create("task-2")
        cost = [seen for seen in upstream.requests[before:] if seen.method != "initialize"]
    assert [seen.method for seen in cost] == ["tools/call"]
    assert cost[0].session == upstream.seen("GET")[1].session


@pytest.mark.rule("ML-SESSION")
async def test_a_session_whose_task_ended_takes_the_next(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task(status="cancelled"))
    async with corner(upstream, tmp_path, sessions={"spares": 0}) as ml:
        await ml.create("task-1")
        await ml.until("task-1", "cancelled")
        await ml.create("task-2")
    first, second = upstream.seen("tools/call")
    assert first.session == second.session


@pytest.mark.rule("ML-SESSION")
async def test_the_bound_of_the_whole_pool_refuses_and_never_shares(
    upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(upstream, tmp_path, sessions={"total": 2, "spares": 0}) as ml:
        await ml.create("task-1")
        await ml.create("task-2")
        for caller in ("alice", "bob"):
            ml.client.headers = {"Authorization": f"Bearer {caller}"}
            reply = await ml.client.call("run")
            assert (reply.status, reply.error["code"]) == (503, -32603)
            assert reply.headers["Retry-After"]
    assert len({seen.session for seen in upstream.seen("tools/call")}) == 2
    assert [event["reason"] for event in ml.events("denied")] == ["limit", "limit"]


@pytest.mark.rule("ML-SESSION")
@pytest.mark.parametrize(
    ("bound", "others"),
    [
        ("total", [{"headers": {"Authorization": f"Bearer {name}"}} for name in ("bob", "carol")]),
        ("per_caller", [{"capabilities": {"sampling": {}}}, {"capabilities": {"elicitation": {}}}]),
    ],
)
async def test_at_a_bound_the_session_idle_for_longest_makes_way(
    upstream: Scripted, tmp_path: Path, bound: str, others: list[dict[str, Any]]
) -> None:
    upstream.on("tools/call", text("done"))
    async with corner(upstream, tmp_path, sessions={bound: 2, "spares": 0}) as ml:
        await ml.client.call("plain")
        first = await upstream.get_stream()
        for other in others:
            ml.clock.advance(1)
            for name, value in other.items():
                setattr(ml.client, name, value)
            assert (await ml.client.call("plain")).status == 200
        await first.left()
        for stream in [await upstream.get_stream() for _ in others]:
            await stream.opened()
            assert stream.is_open
        assert ml.app.behind.open_sessions == 2
    assert len(upstream.seen("initialize")) == 3


@pytest.mark.rule("ML-SESSION")
async def test_a_spare_makes_nothing_make_way(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task())
    async with corner(upstream, tmp_path, sessions={"total": 2, "spares": 1}) as ml:
        upstream.once("tools/call", text("done"))
        await ml.client.call("plain")
        stream = await upstream.get_stream()
        ml.client.headers = {"Authorization": "Bearer bob"}
        await ml.create()
        assert (await ml.get())["status"] == "working"
        await stream.opened()
        assert stream.is_open
    assert len(upstream.seen("initialize")) == 2


@pytest.mark.rule("ML-SESSION")
async def test_two_calls_that_may_be_asked_share_nothing(upstream: Scripted, tmp_path: Path) -> None:
    calls = [upstream.stream("tools/call") for _ in range(2)]
    async with corner(upstream, tmp_path, sessions={"spares": 0}) as ml:
        running = [asyncio.create_task(ml.client.call("plain")) for _ in calls]
        sessions = {(await call.opened()).session for call in calls}
        for call in calls:
            await call.result(text("done"))
        assert [(await one).status for one in running] == [200, 200]
    assert len(sessions) == 2


@pytest.mark.rule("ML-SESSION", "OWN-CHECK")
@pytest.mark.parametrize(
    "other",
    [
        {"headers": {"Authorization": "Bearer bob"}},
        {"capabilities": {}},
        {"capabilities": {"sampling": {}}},
    ],
)
async def test_a_free_session_is_never_anothers(
    upstream: Scripted, tmp_path: Path, other: dict[str, Any]
) -> None:
    upstream.on("tools/call", text("done"))
    async with corner(upstream, tmp_path, sessions={"spares": 0}) as ml:
        await ml.client.call("plain")
        for name, value in other.items():
            setattr(ml.client, name, value)
        await ml.client.call("plain")
        ml.client.headers, ml.client.capabilities = dict(ALICE), {"elicitation": {}}
        await ml.client.call("plain")
    sessions = [seen.session for seen in upstream.seen("tools/call")]
    assert len(set(sessions)) == 3
    said = [seen.params["capabilities"] for seen in upstream.seen("initialize")]
    assert "tasks" not in str(said)


@pytest.mark.rule("ML-SESSION")
@pytest.mark.parametrize("close", [False, True])
async def test_an_idle_session_is_dropped_and_the_server_told_only_if_wanted(
    upstream: Scripted, tmp_path: Path, *, close: bool
) -> None:
    upstream.on("tools/call", text("done"))
    async with corner(upstream, tmp_path, sessions={"spares": 0, "close": close}) as ml:
        await ml.client.call("plain")
        stream = await upstream.get_stream()
        ml.clock.advance(IDLE_MS)
        await ml.app.tasks.sweeper.once()
        assert stream.is_open
        ml.clock.advance(1)
        await ml.app.tasks.sweeper.once()
        await stream.left()
        await ml.client.call("plain")
    dropped, opened = (seen.session for seen in upstream.seen("tools/call"))
    assert dropped != opened
    told = [(seen.session, seen.headers["Authorization"]) for seen in upstream.seen("DELETE")]
    assert told == ([(dropped, "Bearer alice")] if close else [])


@pytest.mark.rule("ML-SESSION")
async def test_a_session_with_a_task_is_never_idle(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task())
    async with corner(upstream, tmp_path, sessions={"spares": 0, "close": True}) as ml:
        await ml.create()
        ml.clock.advance(2 * IDLE_MS)
        await ml.app.tasks.sweeper.once()
        assert (await ml.get())["status"] == "working"
    assert upstream.seen("tasks/get")[0].session == upstream.seen("tools/call")[0].session
    assert not upstream.seen("DELETE")
