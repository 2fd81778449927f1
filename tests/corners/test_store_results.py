"""`ledger.store_results = false` over a restart: what a server gives again, and what is gone (DUR-8).

What holds while the shim runs is in test_in_memory.py.
"""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shim.ledger.records import EVERY_STATE
from tests.client import LegacyClient
from tests.corners import lm as modern_side
from tests.corners import mm as both_modern
from tests.corners import test_keyed as keyed
from tests.corners import test_promote as promoting
from tests.corners.lm import asks, seen_as
from tests.corners.ml import ALICE, Corner, HandClock, accept, breath, corner, elicit
from tests.planted import MARK
from tests.scripted import Error, Hang, Raw, Scripted, Seen, scripted, task, text
from tests.shim import DEFAULTS

pytestmark = pytest.mark.rule("DUR-8")

IN_MEMORY: dict[str, Any] = {"ledger": {"store_results": False}}
GONE = "it was kept in memory only (ledger.store_results = false), and the shim was restarted"
DONE = text(f"done {MARK}")
BROKEN = text(f"broken {MARK}", isError=True)
UNKNOWN = Error(-32602, "Task not found")


async def seen_by_both(at: Any, task_id: str = "task-1") -> tuple[Any, Any, Any]:
    """What a modern client sees of a task, and a legacy one in tasks/get and tasks/result."""
    modern = (await at.client.tasks("get", task_id)).result
    async with LegacyClient(at.app.url, headers=ALICE) as client:
        await client.initialize()
        shown = (await client.tasks("get", task_id)).result
        return modern, shown, (await client.tasks("result", task_id)).json


def ends(upstream: Scripted, status: str, answer: Any) -> None:
    upstream.on("tasks/get", task(status=status))
    upstream.on("tasks/result", answer)


@pytest.mark.parametrize(
    ("status", "answer", "hub", "legacy"),
    [
        ("completed", DONE, "completed", "completed"),
        ("failed", BROKEN, "completed", "failed"),
        ("failed", Error(-32001, f"no disk {MARK}", {"n": 1}), "failed", "failed"),
    ],
)
async def test_a_legacy_server_is_asked_again_after_a_restart(
    upstream: Scripted, tmp_path: Path, status: str, answer: Any, hub: str, legacy: str
) -> None:
    ends(upstream, status, answer)
    told: list[tuple[Any, Any, Any]] = []
    for _ in range(2):
        async with corner(upstream, tmp_path, **IN_MEMORY) as ml:
            if not told:
                await ml.create()
                await ml.until("task-1", hub)
            told.append(await seen_by_both(ml))
            asked = len(upstream.seen("tasks/result"))
            told.append(await seen_by_both(ml))
            assert len(upstream.seen("tasks/result")) == asked  # kept from then on
    assert told[1:] == told[:-1]
    assert (told[0][0]["status"], told[0][1]["status"]) == (hub, legacy)
    assert len(upstream.seen("tasks/result")) == 2


async def test_a_modern_server_is_asked_again_after_a_restart(tmp_path: Path) -> None:
    ended = both_modern.shown(status="completed", result=both_modern.result(MARK))
    told: list[tuple[Any, Any, Any]] = []
    for _ in range(2):
        async with both_modern.corner(tmp_path, **IN_MEMORY) as mm:
            mm.upstream.on("tasks/get", ended)
            if not told:
                await mm.create()
            await mm.client.tasks("get", both_modern.TASK)  # passes, and is taken into the ledger
            before = len(mm.upstream.seen("tasks/get"))
            told.append(await seen_by_both(mm, both_modern.TASK))
            assert len(mm.upstream.seen("tasks/get")) == before
    assert told[0] == told[1]
    assert MARK in str(told[0])


@pytest.mark.parametrize(
    ("status", "answer", "legacy", "since"),
    [
        ("completed", DONE, "completed", "forgotten"),
        ("completed", DONE, "completed", "given once"),
        ("completed", DONE, "completed", "another end"),
        ("failed", BROKEN, "failed", "forgotten"),
        ("failed", BROKEN, "failed", "given once"),
        ("failed", Error(-32001, MARK), "failed", "forgotten"),
        ("failed", Error(-32001, MARK), "failed", "another end"),
    ],
)
async def test_what_no_server_gives_again_is_said_to_be_gone(
    upstream: Scripted, tmp_path: Path, status: str, answer: Any, legacy: str, since: str
) -> None:
    ends(upstream, status, answer)
    clock = HandClock()
    async with corner(upstream, tmp_path, clock=clock, **IN_MEMORY) as ml:
        await ml.create()
        while (await ml.get())["status"] == "working":
            pass
    if since == "forgotten":
        upstream.on("tasks/get", UNKNOWN)
    elif since == "given once":
        upstream.on("tasks/result", UNKNOWN)
    else:
        upstream.on("tasks/get", task(status="cancelled"))
    async with corner(upstream, tmp_path, clock=clock, **IN_MEMORY) as ml:
        modern, shown, result = await seen_by_both(ml)
        [listed] = await _list(ml)
    assert modern["status"] == "failed"
    assert modern["error"]["code"] == result["error"]["code"] == -32603
    assert modern["error"]["message"] == result["error"]["message"]
    assert GONE in result["error"]["message"]
    assert "the server does not give it any more" in result["error"]["message"]
    assert (shown["status"], listed["status"]) == (legacy, legacy)


async def _list(at: Any) -> list[Any]:
    async with LegacyClient(at.app.url, headers=ALICE) as client:
        await client.initialize()
        return list((await client.request("tasks/list")).result["tasks"])


async def test_a_server_that_is_away_is_waited_for_by_who_waits_and_told_to_who_looks(
    upstream: Scripted, tmp_path: Path
) -> None:
    ends(upstream, "completed", DONE)
    async with corner(upstream, tmp_path, **IN_MEMORY) as ml:
        await ml.create()
        await ml.until("task-1", "completed")
    async with (
        corner(upstream, tmp_path, **IN_MEMORY) as ml,
        LegacyClient(ml.app.url, headers=ALICE) as client,
    ):
        await client.initialize()
        upstream.on("tasks/get", Error(-32603, status=503))
        looked = await ml.client.tasks("get", "task-1")
        assert (looked.status, looked.error["code"]) == (502, -32603)
        async with client.stream("tasks/result", {"taskId": "task-1"}) as stream:
            await upstream.wait("tasks/get", len(upstream.seen("tasks/get")))
            await ml.clock.slept(5_000)
            upstream.on("tasks/get", task(status="completed"))
            ml.clock.advance(5_000)
            assert (await stream.message())["result"]["content"] == DONE["content"]


@pytest.mark.rule("PROMOTE-3")
@pytest.mark.parametrize("era", promoting.ERAS)
async def test_what_only_the_shim_had_is_gone_after_a_restart(tmp_path: Path, era: str) -> None:
    async with scripted(**promoting.options(era)) as upstream:
        upstream.on("tools/call", promoting.text(MARK))
        async with promoting.standing(upstream, tmp_path, era, **IN_MEMORY) as one:
            task_id = await one.made()
            before = await one.shown(task_id, "completed")
            assert await one.shown(task_id, "completed") == before
        async with promoting.standing(upstream, tmp_path, era, **IN_MEMORY) as one:
            after = (await one.modern.tasks("get", task_id)).result
            await one.legacy.initialize()
            shown = (await one.legacy.tasks("get", task_id)).result
            result = (await one.legacy.tasks("result", task_id)).error
    assert (after["status"], shown["status"]) == ("failed", "completed")
    assert after["error"] == result
    assert result["message"] == f"the task has completed, but what it ended with is gone: {GONE}"


@pytest.mark.rule("DUR-3")
async def test_a_key_gives_its_handle_after_a_restart_but_no_answer(
    upstream: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(DEFAULTS, "ledger", IN_MEMORY["ledger"])
    upstream.once("tools/call", {"task": task(statusMessage=MARK)})
    upstream.once("tools/call", DONE)
    other = {"Idempotency-Key": "k-2"}
    async with keyed.shim(upstream, tmp_path) as app, keyed.session(app) as client:
        handle = (await keyed.as_task(client, headers=keyed.KEY)).result["task"]
        assert (await keyed.as_task(client, headers=keyed.KEY)).result["task"] == handle
        assert (await keyed.plain(client, headers=other)).result["content"] == DONE["content"]
        assert (await keyed.plain(client, headers=other)).result["content"] == DONE["content"]
    async with keyed.shim(upstream, tmp_path) as app, keyed.session(app) as client:
        again = (await keyed.as_task(client, headers=keyed.KEY)).result["task"]
        gone = (await keyed.plain(client, headers=other)).error
    assert again == {name: value for name, value in handle.items() if name != "statusMessage"}
    assert gone["code"] == -32603
    assert gone["message"] == f"the call ran, but its answer is gone: {GONE}; it is not sent again"
    assert len(upstream.seen("tools/call")) == 2


@pytest.mark.rule("ML-INPUT", "ML-UPDATE")
async def test_a_question_of_a_legacy_server_is_still_answered_but_shown_no_more(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    upstream.on("tasks/result", Hang())
    async with corner(upstream, tmp_path, **IN_MEMORY) as ml:
        await ml.create()
        stream = await upstream.get_stream()
        for n in ("q-1", "q-2"):
            await stream.send(elicit(n, "task-1", message=MARK))
        while len((await ml.until("task-1", "input_required"))["inputRequests"]) < 2:
            pass
    async with corner(upstream, tmp_path, **IN_MEMORY) as ml:
        shown = await ml.until("task-1", "working")
        assert "inputRequests" not in shown
        while "was lost" not in (shown.get("statusMessage") or ""):
            ml.clock.advance(5_000)
            shown = await ml.get()
        answers = {"elicitation-1": accept(ok=True)}
        await ml.client.tasks("update", "task-1", inputResponses=answers)
        sent = (await upstream.response_to("q-1")).message["result"]
        assert sent["content"] == accept(ok=True)["content"]
        await _answers_are_out(ml)
    assert ml.events("input.lost")
    assert [one["key"] for one in ml.events("input.answered")] == ["elicitation-1"]


@pytest.mark.rule("ML-INPUT")
async def test_a_question_that_a_legacy_server_asks_again_keeps_its_key(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    shown = []
    for _ in range(2):
        stream = upstream.stream("tasks/result")
        async with corner(upstream, tmp_path, **IN_MEMORY) as ml:
            if not shown:
                await ml.create()
            await ml.get()
            await stream.send(elicit("q-1", "task-1", message=MARK))
            shown.append((await ml.until("task-1", "input_required"))["inputRequests"])
    assert list(shown[0]) == ["elicitation-1"]
    assert shown[0] == shown[1]


@pytest.mark.rule("DUR-2", "ML-UPDATE")
async def test_an_answer_that_is_on_its_way_gets_there_before_the_shim_stops(
    upstream: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopping = asyncio.Event()

    async def taken_late(_: Seen) -> Raw:
        await stopping.wait()
        return Raw(b"", 202, {})

    upstream.on("tasks/get", task(status="input_required"))
    stream = upstream.stream("tasks/result")
    async with corner(upstream, tmp_path, **IN_MEMORY) as ml:
        arrived = ml.app.tasks.questions.arrived

        async def waited_for(wait_ms: int) -> None:
            stopping.set()
            await arrived(wait_ms)

        monkeypatch.setattr(ml.app.tasks.questions, "arrived", waited_for)
        await ml.create()
        await ml.get()
        await stream.send(elicit("q-1", "task-1"))
        await ml.until("task-1", "input_required")
        upstream.once(None, taken_late)
        await ml.client.tasks("update", "task-1", inputResponses={"elicitation-1": accept(ok=True)})
        await upstream.response_to("q-1")
        pk = (await ml.app.ledger.own_task(1)).pk
    async with corner(upstream, tmp_path, **IN_MEMORY) as ml:
        [asked] = await ml.app.ledger.inputs(pk, EVERY_STATE)
    assert asked.state == "delivered"


async def _answers_are_out(ml: Corner) -> None:
    while await ml.app.ledger.undelivered():
        await breath(ml.app)


@pytest.mark.rule("LM-INPUT")
async def test_a_question_that_a_modern_server_shows_again_is_asked_under_its_id(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on("tasks/get", asks("k-1"))
    async with modern_side.corner(modern_upstream, tmp_path, **IN_MEMORY) as lm:
        await lm.create()
        async with lm.client.get() as stream:
            first = await lm.ticking(asyncio.ensure_future(stream.message()))
        session = lm.client.session
    async with modern_side.corner(modern_upstream, tmp_path, session=False, **IN_MEMORY) as lm:
        lm.client.session = session
        lm.clock.advance(3_600_000)
        async with lm.client.get() as stream:
            again = await lm.ticking(asyncio.ensure_future(_question(stream)))
        assert again == first
        await lm.client.respond(first["id"], accept(ok=True))
        sent = await modern_upstream.wait("tasks/update")
        modern_upstream.on("tasks/get", seen_as("task-1", "completed", result=DONE))
        await lm.until("task-1", "completed")
    assert sent.params["inputResponses"] == {"k-1": accept(ok=True)}


async def _question(stream: Any) -> Any:
    while (message := await stream.message())["method"] != "elicitation/create":
        pass
    return message


async def test_what_a_full_memory_let_go_is_asked_for_again_and_else_said_to_be_gone(
    upstream: Scripted, tmp_path: Path
) -> None:
    ends(upstream, "completed", DONE)
    sections: dict[str, Any] = {
        "ledger": {"store_results": False, "cache_rows": 1}, "limits": {"kept_bytes": 300},
    }  # fmt: skip
    async with corner(upstream, tmp_path, **sections) as ml:
        await ml.create()
        assert (await ml.until("task-1", "completed"))["result"]["content"] == DONE["content"]
        await ml.create("task-2")  # takes the place of the other in the cache
        again = await seen_by_both(ml)
        upstream.on(
            "tasks/get",
            lambda seen: task(seen.params["taskId"]) if seen.params["taskId"] != "task-1" else UNKNOWN,
        )
        await ml.get("task-2")
        gone = (await ml.client.tasks("get", "task-1")).result
    assert again[0]["result"]["content"] == again[2]["result"]["content"] == DONE["content"]
    assert gone["status"] == "failed"
    assert "limits.kept_bytes was reached" in gone["error"]["message"]


@pytest.mark.rule("LIMITS")
async def test_neither_a_question_nor_an_answer_pushes_another_question_out(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task())
    async with corner(upstream, tmp_path, limits={"kept_bytes": 1_200}, **IN_MEMORY) as ml:
        await ml.create()
        stream = await upstream.get_stream()
        await stream.send(elicit(1, "task-1", message="x" * 600))
        await stream.send(elicit(2, "task-1", message="x" * 600))
        refusal = (await upstream.response_to(2)).message["error"]
        assert (refusal["code"], "limits.kept_bytes" in refusal["message"]) == (-32601, True)
        assert list((await ml.until("task-1", "input_required"))["inputRequests"]) == ["elicitation-1"]
        answers = {"elicitation-1": {"action": "accept", "content": {"x": "x" * 600}}}
        refused = await ml.client.tasks("update", "task-1", inputResponses=answers)
        assert (refused.status, refused.error["code"]) == (503, -32603)
        assert "limits.kept_bytes" in refused.error["message"]
        assert int(refused.headers["Retry-After"]) > 0
        assert list((await ml.get())["inputRequests"]) == ["elicitation-1"]
