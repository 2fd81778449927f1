"""ML-SESSION-LOST: an upstream that forgot its sessions, one of them or all (a restart)."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.client import ModernClient
from tests.corners.ml import ALICE, Corner, corner
from tests.scripted import Broken, Error, Raw, Scripted, Seen, Stream, task, text

MANY = 20
NO_SPARES = {"spares": 0}


def known(seen: Seen) -> Any:
    """A server that keeps its tasks over a restart."""
    return task(seen.params["taskId"])


def after(upstream: Scripted, method: str, n: int) -> Callable[[Seen], Any]:
    """Answer initialize once the n-th request of a method is here."""

    async def answer(seen: Seen) -> Any:
        await upstream.wait(method, n)
        return upstream.initialize(seen)

    return answer


async def make(ml: Corner, many: int) -> list[str]:
    """Make tasks, each in a session of its own."""
    return [await ml.create(f"task-{number}") for number in range(many)]


@pytest.mark.rule("ML-SESSION-LOST")
@pytest.mark.parametrize("status", [404, 400])
async def test_one_404_alone_loses_nothing(upstream: Scripted, tmp_path: Path, status: int) -> None:
    upstream.on("tasks/get", known)
    async with corner(upstream, tmp_path, sessions=NO_SPARES) as ml:
        await ml.create()
        upstream.once("tasks/get", Raw('{"error": "Session not found"}', status))
        assert (await ml.get())["status"] == "working"
    assert len(upstream.seen("initialize")) == 1
    assert not ml.events("session.lost")


@pytest.mark.rule("ML-SESSION-LOST")
async def test_many_who_lost_their_sessions_at_once_get_one_new_one(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", known)
    async with corner(upstream, tmp_path, sessions=NO_SPARES) as ml:
        ids = await make(ml, MANY)
        upstream.forget()
        upstream.once("initialize", after(upstream, "ping", MANY))
        replies = await asyncio.gather(*(ml.client.tasks("get", one) for one in ids))
        assert [reply.result["status"] for reply in replies] == ["working"] * MANY
        assert len(upstream.seen("initialize")) == MANY + 1
        assert len(upstream.seen("tasks/get")) == 2 * MANY  # each was repeated once
        for one in ids:
            assert (await ml.get(one))["status"] == "working"
    assert len(upstream.seen("initialize")) == MANY + 1
    assert {seen.session for seen in upstream.seen("tasks/get")[-MANY:]} == {upstream.sessions[-1]}
    assert len(ml.events("session.lost")) == MANY


@pytest.mark.rule("ML-SESSION-LOST")
async def test_many_readers_of_one_lost_session_get_one_new_one(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("resources/list", {"resources": []})
    async with corner(upstream, tmp_path, sessions=NO_SPARES) as ml:
        await make(ml, 3)  # sessions that may be read over, and are lost as well
        upstream.forget()
        upstream.once("initialize", after(upstream, "ping", MANY))
        replies = await asyncio.gather(*(ml.client.request("resources/list") for _ in range(MANY)))
    assert [reply.result["resources"] for reply in replies] == [[]] * MANY
    assert len(upstream.seen("initialize")) == 3 + 1
    assert len(upstream.seen("resources/list")) == 2 * MANY


@pytest.mark.rule("ML-SESSION-LOST")
@pytest.mark.parametrize("tool", ["plain", "run"])
async def test_a_call_that_met_lost_sessions_only_runs_once(
    upstream: Scripted, tmp_path: Path, tool: str
) -> None:
    upstream.on("tasks/get", task(status="completed"))
    upstream.on("tasks/result", text("done"))
    upstream.on("tools/call", text("ran"))
    async with corner(upstream, tmp_path, sessions=NO_SPARES) as ml:
        for one in await make(ml, 3):  # leaves three idle sessions
            await ml.until(one, "completed")
        upstream.forget()
        reply = await ml.client.call(tool)
    assert reply.result["content"] == text("ran")["content"]
    living = [seen for seen in upstream.seen("tools/call") if seen.session == upstream.sessions[-1]]
    assert len(living) == 1
    assert len(upstream.seen("initialize")) == 3 + 1


@pytest.mark.rule("ML-SESSION-LOST")
@pytest.mark.parametrize("tool", ["plain", "run"])
@pytest.mark.parametrize("cut", ["before the headers", "in the body"])
async def test_a_call_cut_off_by_the_restart_is_never_sent_again(
    upstream: Scripted, tmp_path: Path, tool: str, cut: str
) -> None:
    async with corner(upstream, tmp_path) as ml:
        if cut == "in the body":
            call: Stream = upstream.stream("tools/call")
            calling = asyncio.create_task(ml.client.call(tool))
            await call.opened()
            upstream.forget()
            await call.abort()
        else:
            upstream.once("tools/call", Broken())
            calling = asyncio.create_task(ml.client.call(tool))
        error = (await calling).error
    assert (error["code"], error["message"].partition(":")[0]) == (-32603, "outcome unknown")
    assert len(upstream.seen("tools/call")) == 1
    assert [event["rule"] for event in ml.events("upstream.invalid")] == ["ML-SESSION-LOST"]


@pytest.mark.rule("ML-SESSION-LOST")
async def test_a_task_that_a_restart_took_is_lost_when_said_twice(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", Error(-32602, "Task not found"))
    async with corner(upstream, tmp_path, sessions=NO_SPARES, tasks={"lost_confirm_ms": 5_000}) as ml:
        await ml.create()
        upstream.forget()
        assert (await ml.get())["status"] == "working"
        assert (await ml.get())["status"] == "working"
        ml.clock.advance(5_000)
        lost = await ml.get()
        assert await ml.get() == lost
    assert (lost["status"], lost["error"]) == (
        "failed",
        {"code": -32603, "message": "upstream lost the task"},
    )
    assert len(upstream.seen("initialize")) == 2
    assert len(ml.events("session.lost")) == 1
    assert len(ml.events("task.lost")) == 1


@pytest.mark.rule("ML-SESSION-LOST")
async def test_a_second_restart_opens_one_session_again(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", known)
    async with corner(upstream, tmp_path, sessions=NO_SPARES) as ml:
        ids = await make(ml, 2)
        upstream.forget()
        assert (await ml.get(ids[0]))["status"] == "working"
        upstream.forget()
        assert (await ml.get(ids[1]))["status"] == "working"  # its own session and the new one are gone
        assert (await ml.get(ids[0]))["status"] == "working"
    assert len(upstream.seen("initialize")) == 2 + 2


@pytest.mark.rule("ML-SESSION-LOST", "ML-SESSION")
async def test_the_new_session_is_opened_as_the_lost_one_was(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", known)
    async with corner(upstream, tmp_path, sessions=NO_SPARES, client={"name": "curious"}) as ml:
        await ml.create()
        upstream.forget()
        async with ModernClient(ml.app.url, headers=ALICE, capabilities={}, name="weaker") as weaker:
            assert (await weaker.tasks("get", "task-1")).result["status"] == "working"
    first, second = (seen.params for seen in upstream.seen("initialize"))
    assert second["clientInfo"]["name"] == "curious"
    assert second["capabilities"].keys() == first["capabilities"].keys()


@pytest.mark.rule("ML-SESSION-LOST")
@pytest.mark.parametrize("fault", [Error(-32603, status=503), Broken()])
async def test_no_new_session_to_be_had_is_an_outage(upstream: Scripted, tmp_path: Path, fault: Any) -> None:
    upstream.on("tasks/get", known)
    async with corner(upstream, tmp_path, sessions=NO_SPARES) as ml:
        await ml.create()
        upstream.forget()
        upstream.once("initialize", fault)
        ml.clock.advance(60_000)
        error = (await ml.client.tasks("get", "task-1")).error
        assert error["code"] == -32603
        assert (await ml.get())["status"] == "working"
    assert len(upstream.seen("initialize")) == 3


@pytest.mark.rule("ML-SESSION-LOST", "OWN-NONE")
async def test_nobody_shares_the_new_session_with_nobody(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", known)
    async with corner(upstream, tmp_path, client={"headers": {}}) as ml:
        ids = [await ml.create(f"task-{number}") for number in range(2)]
        before = len(upstream.seen("initialize"))
        upstream.forget()
        for one in [*ids, *ids]:
            assert (await ml.get(one))["status"] == "working"
    kept = {seen.params["taskId"]: seen.session for seen in upstream.seen("tasks/get")[-2:]}
    assert len(set(kept.values())) == 2
    assert len(upstream.seen("initialize")) == before + 2


@pytest.mark.rule("ML-SESSION-LOST")
async def test_a_session_that_is_gone_before_it_is_used_is_an_outage(
    upstream: Scripted, tmp_path: Path
) -> None:
    """As with several instances behind one address: the next request comes to another one."""
    upstream.on("tasks/get", known)

    def elsewhere(seen: Seen) -> Any:
        answer = upstream.initialize(seen)
        upstream.forget(upstream.sessions[-1])
        return answer

    async with corner(upstream, tmp_path, sessions=NO_SPARES) as ml:
        await ml.create()
        upstream.forget()
        upstream.once("initialize", elsewhere)
        ml.clock.advance(60_000)
        reply = await ml.client.tasks("get", "task-1")
        assert (reply.status, reply.error["code"]) == (502, -32603)
        assert "several instances" in reply.error["message"]
        assert (await ml.get())["status"] == "working"
