"""LM-CREATE: a legacy client that asks for a task gets a handle, whatever the server does with the call."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.client import RELATED_TASK, TASKS_EXTENSION
from tests.corners.lm import accept_all, asks, corner, made, more, seen_as
from tests.corners.ml import HandClock, accept
from tests.models import check_legacy
from tests.planted import arguments
from tests.scripted import Broken, Error, Hang, Raw, Scripted, Stream, text

ERROR: dict[str, Any] = {"code": -32001, "message": "no disk", "data": {"n": 9}}


@pytest.mark.rule("LM-CREATE", "KEYS")
@pytest.mark.parametrize("state", ["working", "input_required", "completed", "failed", "cancelled"])
async def test_the_servers_own_task_is_handed_out(
    modern_upstream: Scripted, tmp_path: Path, state: str
) -> None:
    fields = {"ttlMs": 60_000.7, "pollIntervalMs": 2_500, "statusMessage": "soon"}
    meta = {"x.example/a": 1, "io.modelcontextprotocol/serverInfo": {"name": "modern", "version": "4"}}
    modern_upstream.on("tools/call", {**made("task-1", status=state, **fields), "_meta": meta})
    async with corner(modern_upstream, tmp_path) as lm:
        reply = await lm.client.call("run", {"n": 1}, task={"ttl": 5})
    task = reply.result["task"]
    assert task == {
        "taskId": "task-1", "status": "working", "statusMessage": "soon",
        "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:01Z",
        "ttl": 60_000, "pollInterval": 2_500,
    }  # fmt: skip
    assert reply.result == {"task": task, "_meta": {"x.example/a": 1}}
    check_legacy("CreateTaskResult", reply.result)
    [call] = modern_upstream.seen("tools/call")
    assert set(call.params) == {"name", "arguments", "_meta"}
    assert [(event["task_id"], event.get("local")) for event in lm.events("task.created")] == [
        ("task-1", False)
    ]


@pytest.mark.rule("LM-CREATE", "HUB-7")
@pytest.mark.parametrize("ttl", ["5", True, [], {}])
async def test_a_ttl_that_is_no_number_is_refused(
    modern_upstream: Scripted, tmp_path: Path, ttl: Any
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        reply = await lm.client.call("run", task={"ttl": ttl})
    assert reply.error["code"] == -32602
    assert modern_upstream.seen("tools/call") == []


@pytest.mark.rule("LM-CREATE")
@pytest.mark.parametrize(
    ("task", "ttl"), [({"ttl": 5_000}, 5_000), ({"ttl": 1.9}, 1), ({"ttl": None}, 77_000), ({}, 77_000)]
)
async def test_an_answer_at_once_is_a_local_task(
    modern_upstream: Scripted, tmp_path: Path, task: dict[str, Any], ttl: int
) -> None:
    modern_upstream.on("tools/call", {"resultType": "complete", **text("done")})
    async with corner(modern_upstream, tmp_path, tasks={"default_ttl_ms": 77_000}) as lm:
        reply = await lm.client.call("run", task=task)
        made_task = reply.result["task"]
        shown = await lm.until(made_task["taskId"], "completed")
        result = await lm.client.tasks("result", made_task["taskId"])
    assert (made_task["status"], made_task["ttl"]) == ("working", ttl)
    assert shown["ttl"] == ttl
    assert result.result == {**text("done"), "_meta": {RELATED_TASK: {"taskId": made_task["taskId"]}}}
    check_legacy("CreateTaskResult", reply.result)
    check_legacy("GetTaskResult", shown)
    assert modern_upstream.seen("tasks/get") == []
    assert [event["local"] for event in lm.events("task.created")] == [True]


@pytest.mark.rule("LM-CREATE")
@pytest.mark.parametrize("wait_ms", [400, 1_000])
async def test_the_handle_comes_when_it_is_due(
    modern_upstream: Scripted, tmp_path: Path, wait_ms: int
) -> None:
    call = modern_upstream.stream("tools/call")
    async with corner(modern_upstream, tmp_path, tasks={"handle_after_ms": wait_ms}) as lm:
        creating = asyncio.create_task(lm.client.call("run", task={}))
        await call.opened()
        await lm.clock.slept(wait_ms)
        lm.clock.advance(wait_ms - 1)
        assert (await lm.client.request("ping")).result == {}
        assert not creating.done()
        lm.clock.advance(1)
        task_id = (await creating).result["task"]["taskId"]
        assert (await lm.get(task_id))["status"] == "working"
        await call.result({"resultType": "complete", **text("late")})
        await lm.until(task_id, "completed")
        assert (await lm.client.tasks("result", task_id)).result["content"] == text("late")["content"]


@pytest.mark.rule("LM-CREATE")
@pytest.mark.parametrize("task", [{"task": {}}, {}], ids=["as a task", "plain"])
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Error(-32001, "no disk", {"n": 9}), -32001),
        (Error(-32602, "no such tool"), -32602),
        (Raw("oops", 500), -32603),
        (Broken(b"HTTP/1.1 200 OK\r\n"), -32603),
    ],
)
async def test_an_error_before_any_handle_is_the_answer(
    modern_upstream: Scripted, tmp_path: Path, answer: Any, code: int, task: dict[str, Any]
) -> None:
    modern_upstream.on("tools/call", answer)
    async with corner(modern_upstream, tmp_path) as lm:
        reply = await lm.client.call("run", **task)
        listed = await lm.client.request("tasks/list")
    assert reply.error["code"] == code
    assert listed.result == {"tasks": []}
    assert lm.events("task.created") == []
    assert len(modern_upstream.seen("tools/call")) == 1


@pytest.mark.rule("LM-CREATE", "LM-RESULT")
async def test_a_late_error_fails_the_task(modern_upstream: Scripted, tmp_path: Path) -> None:
    call = Stream()
    async with corner(modern_upstream, tmp_path) as lm:
        task_id = await lm.local(call)
        await call.error(ERROR["code"], ERROR["message"], ERROR["data"])
        shown = await lm.until(task_id, "failed")
        reply = await lm.client.tasks("result", task_id)
    assert reply.error == ERROR
    check_legacy("GetTaskResult", shown)


@pytest.mark.rule("LM-CREATE", "LM-RESULT")
async def test_a_call_that_is_cut_off_fails_the_task(modern_upstream: Scripted, tmp_path: Path) -> None:
    call = Stream()
    async with corner(modern_upstream, tmp_path) as lm:
        task_id = await lm.local(call)
        await call.abort()
        await lm.until(task_id, "failed")
        reply = await lm.client.tasks("result", task_id)
    assert reply.error["code"] == -32603
    assert len(modern_upstream.seen("tools/call")) == 1


@pytest.mark.rule("LM-CREATE")
async def test_a_task_that_comes_late_is_mapped(modern_upstream: Scripted, tmp_path: Path) -> None:
    call = Stream()
    async with corner(modern_upstream, tmp_path) as lm:
        task_id = await lm.local(call)
        await call.result(made("late-1"))
        modern_upstream.on("tasks/get", asks("k", task_id="late-1"))
        shown = await lm.until(task_id, "input_required")
        assert shown["taskId"] == task_id
        modern_upstream.on("tasks/get", seen_as("late-1", "completed", result=text("done")))
        await lm.until(task_id, "completed")
        reply = await lm.client.tasks("result", task_id)
        listed = await lm.client.request("tasks/list")
        direct = await lm.client.tasks("get", "late-1")
    assert reply.result == {**text("done"), "_meta": {RELATED_TASK: {"taskId": task_id}}}
    assert [one["taskId"] for one in listed.result["tasks"]] == [task_id]
    assert {seen.headers["Mcp-Name"] for seen in modern_upstream.seen("tasks/get")} == {"late-1"}
    assert direct.error["code"] == -32602


@pytest.mark.rule("LM-CREATE", "LM-CANCEL")
async def test_a_mapped_task_is_cancelled_upstream(modern_upstream: Scripted, tmp_path: Path) -> None:
    call = Stream()
    async with corner(modern_upstream, tmp_path) as lm:
        task_id = await lm.local(call)
        await call.result(made("late-1"))
        while not modern_upstream.seen("tasks/get"):
            await lm.get(task_id)
        assert (await lm.client.tasks("cancel", task_id)).result["status"] == "cancelled"
    assert modern_upstream.seen("tasks/cancel")[0].params["taskId"] == "late-1"


@pytest.mark.rule("LM-CREATE", "LM-INPUT", "LM-MRTR")
async def test_a_question_first_is_the_local_tasks(modern_upstream: Scripted, tmp_path: Path) -> None:
    modern_upstream.once(
        "tools/call", more("sure"), more("sure", state=None), {"resultType": "complete", **text("ok")}
    )
    async with corner(modern_upstream, tmp_path) as lm:
        reply = await lm.client.call("run", {"n": 1.10}, task={})
        task_id = reply.result["task"]["taskId"]
        assert reply.result["task"]["status"] == "working"
        asked = await accept_all(lm, task_id, 2)
        result = await lm.client.tasks("result", task_id)
        await lm.until(task_id, "completed")
    assert [one["params"]["message"] for one in asked] == ["sure", "sure"]
    assert len({one["id"] for one in asked}) == 2
    assert result.result["content"] == text("ok")["content"]
    first, second, third = modern_upstream.seen("tools/call")
    answer = accept(ok=True)
    assert (second.params["inputResponses"], second.params["requestState"]) == ({"sure": answer}, "state-1")
    assert third.params["inputResponses"] == {"sure": answer}
    assert third.params["requestState"] is None
    assert [seen.params["arguments"] for seen in (first, second, third)] == [arguments({"n": 1.10})] * 3


@pytest.mark.rule("LM-CREATE", "LM-MRTR")
async def test_a_local_task_asks_so_many_rounds(modern_upstream: Scripted, tmp_path: Path) -> None:
    modern_upstream.on("tools/call", more("again"))
    async with corner(modern_upstream, tmp_path, tasks={"input_rounds": 2}) as lm:
        task_id = (await lm.client.call("run", task={})).result["task"]["taskId"]
        await accept_all(lm, task_id, 2)
        await lm.until(task_id, "failed")
        reply = await lm.client.tasks("result", task_id)
    assert reply.error["code"] == -32603
    assert len(modern_upstream.seen("tools/call")) == 3


@pytest.mark.rule("LM-CREATE")
async def test_a_question_the_client_cannot_be_asked_fails_the_task(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on("tools/call", more("sure"))
    async with corner(modern_upstream, tmp_path, client={"capabilities": {"roots": {}}}) as lm:
        task_id = (await lm.client.call("run", task={})).result["task"]["taskId"]
        await lm.until(task_id, "failed")
        reply = await lm.client.tasks("result", task_id)
    assert reply.error["code"] == -32603
    assert [event["field"] for event in lm.events("loss")] == ["elicitation"]


@pytest.mark.rule("LM-CREATE", "ML-PROGRESS")
async def test_progress_is_a_local_tasks_message(modern_upstream: Scripted, tmp_path: Path) -> None:
    call = Stream()
    async with corner(modern_upstream, tmp_path) as lm:
        task_id = await lm.local(call)
        token = (await call.opened()).params["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1, "message": "half way"}
        await call.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        while (await lm.get(task_id)).get("statusMessage") != "half way":
            pass


@pytest.mark.rule("LM-CREATE", "LM-CANCEL")
async def test_cancelling_a_local_task_leaves_the_call(modern_upstream: Scripted, tmp_path: Path) -> None:
    call = Stream()
    async with corner(modern_upstream, tmp_path) as lm:
        task_id = await lm.local(call)
        reply = await lm.client.tasks("cancel", task_id)
        await call.left()
        again = await lm.client.tasks("cancel", task_id)
        result = await lm.client.tasks("result", task_id)
    assert reply.result["status"] == "cancelled"
    assert again.error["code"] == -32602
    assert result.error == {"code": -32603, "message": "task was cancelled"}
    assert modern_upstream.seen("tasks/cancel") == []


@pytest.mark.rule("LM-CREATE")
async def test_a_client_that_leaves_before_the_handle_owns_the_task(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    call = modern_upstream.stream("tools/call")
    async with corner(modern_upstream, tmp_path) as lm:
        creating = asyncio.create_task(lm.client.call("run", task={}))
        await call.opened()
        creating.cancel()
        await call.result(made("task-9"))
        while not (listed := (await lm.client.request("tasks/list")).result["tasks"]):
            pass
    assert [one["taskId"] for one in listed] == ["task-9"]


@pytest.mark.rule("DUR-2", "LM-CREATE")
async def test_local_tasks_are_there_after_a_restart(modern_upstream: Scripted, tmp_path: Path) -> None:
    clock = HandClock()
    async with corner(modern_upstream, tmp_path, clock=clock) as lm:
        open_id = await lm.local(Hang())
        modern_upstream.once("tools/call", {"resultType": "complete", **text("done")})
        done_id = (await lm.client.call("run", task={})).result["task"]["taskId"]
        await lm.until(done_id, "completed")
        session = lm.client.session
    async with corner(modern_upstream, tmp_path, clock=clock, session=False) as lm:
        lm.client.session, lm.client.initialized = session, True
        shown = {one: (await lm.client.tasks("get", one)).result["status"] for one in (open_id, done_id)}
        lost = await lm.client.tasks("result", open_id)
        done = await lm.client.tasks("result", done_id)
    assert shown == {open_id: "failed", done_id: "completed"}
    assert (lost.error["code"], "outcome unknown" in lost.error["message"]) == (-32603, True)
    assert done.result["content"] == text("done")["content"]
    assert len(modern_upstream.seen("tools/call")) == 2


@pytest.mark.rule("DUR-1", "LM-CREATE")
async def test_too_many_open_tasks_are_refused(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path, limits={"open_tasks_per_caller": 1}) as lm:
        await lm.create()
        reply = await lm.client.call("run", task={})
    assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
    assert len(modern_upstream.seen("tools/call")) == 1


@pytest.mark.rule("LM-PLAIN", "ML-CREATE")
async def test_a_plain_call_of_a_full_caller_must_not_become_a_task(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    wanted = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}
    async with corner(modern_upstream, tmp_path, limits={"open_tasks_per_caller": 1}) as lm:
        await lm.create()
        modern_upstream.once("tools/call", {"resultType": "complete", **text("done")})
        assert (await lm.client.call("run")).result == text("done")
        modern_upstream.once("tools/call", Error(-32021, "no", data=wanted, status=400))
        refused = await lm.client.call("run")
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    metas = [seen.params["_meta"] for seen in modern_upstream.seen("tools/call")]
    said = [meta["io.modelcontextprotocol/clientCapabilities"].get("extensions", {}) for meta in metas]
    assert said == [{TASKS_EXTENSION: {}}, {}, {}]
