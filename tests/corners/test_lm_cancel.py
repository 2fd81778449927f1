"""LM-CANCEL: what a legacy client is told of a cancel is what everyone sees from then on."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.client import LegacyClient, ModernClient, Reply
from tests.corners.lm import ACK, Corner, corner, seen_as
from tests.corners.ml import ALICE, HandClock
from tests.models import check_legacy
from tests.scripted import Broken, Error, Raw, Scripted, text

ENDS = {
    "completed": {"result": text("done")},
    "failed": {"error": {"code": -32001, "message": "no disk"}},
    "cancelled": {},
}
CANCELLED = {"code": -32603, "message": "task was cancelled"}


@pytest.mark.rule("LM-CANCEL")
@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("state", ENDS)
async def test_what_has_ended_cannot_be_cancelled(
    modern_upstream: Scripted, tmp_path: Path, state: str, *, known: bool
) -> None:
    modern_upstream.on("tasks/get", seen_as("task-1", state, **ENDS[state]))
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        if known:
            await lm.get()
        reply = await lm.client.tasks("cancel", "task-1")
        shown = await lm.get()
    assert reply.error["code"] == -32602
    assert shown["status"] == state
    assert modern_upstream.seen("tasks/cancel") == []


@pytest.mark.rule("LM-CANCEL", "KEYS")
async def test_a_cancel_is_acknowledged_with_the_cancelled_task(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    ack = {**ACK, "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "4"}}}
    modern_upstream.on("tasks/cancel", ack)
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        reply = await lm.client.tasks("cancel", "task-1")
        waited = await lm.client.tasks("result", "task-1")
        again = await lm.client.tasks("cancel", "task-1")
    assert reply.result["status"] == "cancelled"
    check_legacy("CancelTaskResult", reply.result)
    assert set(reply.result) == {"taskId", "status", "createdAt", "lastUpdatedAt", "ttl", "pollInterval"}
    assert waited.error == CANCELLED
    assert again.error["code"] == -32602
    assert len(modern_upstream.seen("tasks/cancel")) == 1


@pytest.mark.rule("LM-CANCEL", "MM-1", "HUB-1")
@pytest.mark.parametrize("state", ENDS)
async def test_the_pin_holds_for_both_eras(modern_upstream: Scripted, tmp_path: Path, state: str) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        await lm.client.tasks("cancel", "task-1")
        modern_upstream.on("tasks/get", seen_as("task-1", state, **ENDS[state]))
        looks = len(modern_upstream.seen("tasks/get"))
        looked = asyncio.ensure_future(modern_upstream.wait("tasks/get", looks + 1))
        await lm.ticking(looked)  # the shim's own look at what became of the work
        modern = await lm.modern(ALICE)
        shown = {
            "legacy": (await lm.get())["status"],
            "modern": (await modern.tasks("get", "task-1")).result["status"],
            "listed": (await lm.client.request("tasks/list")).result["tasks"][0]["status"],
        }
        acked = await modern.tasks("cancel", "task-1")
        updated = await modern.tasks("update", "task-1", inputResponses={"k": {}})
    assert set(shown.values()) == {"cancelled"}
    assert acked.result == updated.result == ACK
    assert len(modern_upstream.seen("tasks/cancel")) == 1
    details = [(event["rule"], event["detail"]) for event in lm.events("hub.illegal_transition")]
    assert details == ([] if state == "cancelled" else [("LM-CANCEL", f"cancelled -> {state}")])
    assert [event["to"] for event in lm.events("task.ended")] == ["cancelled"]


UNREACHABLE = [
    Raw("", 503),
    Raw("not json", 200),
    Broken(b"HTTP/1.1 200 OK\r\n"),
    Error(-32603, "out of order"),
]


@pytest.mark.rule("LM-CANCEL", "DUR-1")
@pytest.mark.parametrize("answer", UNREACHABLE)
async def test_an_unreachable_upstream_leaves_the_task_as_it_is(
    modern_upstream: Scripted, tmp_path: Path, answer: Any
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        modern_upstream.on("tasks/cancel", answer)
        reply = await lm.client.tasks("cancel", "task-1")
        row = (await lm.app.ledger.open_tasks(limit=2))[0]
        shown = await lm.get()
        modern_upstream.on("tasks/get", Error(-32602, "no such task"))
        for _ in range(4):
            lm.clock.advance(2_001)
            lost = (await lm.client.tasks("get", "task-1")).result
    assert reply.error["code"] == -32603
    assert (row.status, row.cancel_requested) == ("working", False)
    assert shown["status"] == "working"
    assert lost["status"] == "failed"  # nobody was told of a cancel: a task that goes missing is lost


@pytest.mark.rule("LM-CANCEL")
async def test_a_refused_cancel_is_told(modern_upstream: Scripted, tmp_path: Path) -> None:
    refused = Error(-32603, "cancelled by nobody", {"n": 1})
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        modern_upstream.on("tasks/cancel", Error(-32602, "no such task"))
        modern_upstream.on("tasks/get", Error(-32602, "no such task"))
        unknown = await lm.client.tasks("cancel", "task-1")
        modern_upstream.on("tasks/cancel", refused)
        told = await lm.client.tasks("cancel", "task-1")
        assert (await lm.client.request("tasks/list")).result["tasks"][0]["status"] == "working"
    assert unknown.error["code"] == -32602
    assert told.error["code"] == -32603


@pytest.mark.rule("LM-CANCEL", "HUB-2")
async def test_an_end_that_came_first_stands(modern_upstream: Scripted, tmp_path: Path) -> None:
    """The cancel is refused because the task has just ended: it is shown as it ended."""
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        modern_upstream.on("tasks/cancel", Error(-32602, "already ended"))
        modern_upstream.on("tasks/get", seen_as("task-1", "completed", result=text("done")))
        reply = await lm.client.tasks("cancel", "task-1")
        shown = await lm.get()
    assert reply.error["code"] == -32602
    assert shown["status"] == "completed"


@pytest.mark.rule("LM-CANCEL", "DUR-2")
async def test_a_pin_is_there_after_a_restart(modern_upstream: Scripted, tmp_path: Path) -> None:
    clock = HandClock()
    async with corner(modern_upstream, tmp_path, clock=clock) as lm:
        await lm.create()
        await lm.client.tasks("cancel", "task-1")
        session = lm.client.session
    modern_upstream.on("tasks/get", seen_as("task-1", "completed", result=text("done")))
    async with corner(modern_upstream, tmp_path, clock=clock, session=False) as lm:
        lm.client.session, lm.client.initialized = session, True
        shown = await lm.get()
        waited = await lm.client.tasks("result", "task-1")
        modern = await (await lm.modern(ALICE)).tasks("get", "task-1")
    assert shown["status"] == modern.result["status"] == "cancelled"
    assert waited.error == CANCELLED


@pytest.mark.rule("LM-CANCEL", "LM-RESULT")
async def test_waiters_are_told_of_the_cancel(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        other = await lm.seated(ALICE)
        waiting = [asyncio.create_task(client.tasks("result", "task-1")) for client in (lm.client, other)]
        await modern_upstream.wait("tasks/get")
        await lm.client.tasks("cancel", "task-1")
        replies: list[Reply] = await asyncio.gather(*waiting)
    assert [reply.error for reply in replies] == [CANCELLED] * 2


async def raced(
    lm: Corner, clients: tuple[LegacyClient, ModernClient], upstream: Scripted, task_id: str
) -> None:
    """Cancel and look at a task that ends at the same moment; all that was shown of it agrees."""
    legacy, modern = clients
    upstream.on("tasks/get", seen_as(task_id, "completed", result=text("done")))
    lm.clock.advance(1_001)
    cancelled, shown, seen = await asyncio.gather(
        legacy.tasks("cancel", task_id), legacy.tasks("get", task_id), modern.tasks("get", task_id)
    )
    final = (await legacy.tasks("get", task_id)).result["status"]
    assert final in {"completed", "cancelled"}
    told = {shown.result["status"], seen.result["status"]} - {"working"}
    if "result" in cancelled.json:
        told.add(cancelled.result["status"])
    assert told <= {final}
    assert (await modern.tasks("get", task_id)).result["status"] == final


@pytest.mark.rule("LM-CANCEL", "HUB-2")
async def test_a_cancel_races_the_end(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        modern = await lm.modern(ALICE)
        for n in range(100):
            await lm.create(f"task-{n}")
            await raced(lm, (lm.client, modern), modern_upstream, f"task-{n}")
