"""LM-GET, LM-RESULT, LM-LIST, LM-PLAIN: what legacy clients see of a modern server's tasks."""

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.client import RELATED_TASK
from tests.corners.lm import ACK, BOB, Corner, asks, corner, made, seen_as
from tests.models import check_legacy
from tests.scripted import Error, Raw, Scripted, text

FAULT = {"code": -32001, "message": "no disk", "data": {"resultType": "mine", "n": 1}}
LONG = "x" * 3_000
BROKEN = text("The disk is full.", isError=True)
WAITERS = 40


def related(result: dict[str, Any], task_id: str = "task-1") -> dict[str, Any]:
    return {**result, "_meta": {RELATED_TASK: {"taskId": task_id}}}


@pytest.mark.rule("LM-GET", "KEYS")
@pytest.mark.parametrize(
    ("state", "fields", "shown", "message"),
    [
        ("working", {"statusMessage": "half"}, "working", "half"),
        ("working", {"ttlMs": 5_000.9, "pollIntervalMs": 10.2}, "working", None),
        ("working", {"ttlMs": 5_000, "pollIntervalMs": 0}, "working", None),
        ("input_required", {"inputRequests": asks("k")["inputRequests"]}, "input_required", None),
        ("completed", {"result": text("ok")}, "completed", None),
        ("completed", {"result": text("ok"), "statusMessage": "all done"}, "completed", "all done"),
        ("completed", {"result": BROKEN}, "failed", "The disk is full."),
        ("completed", {"result": BROKEN, "statusMessage": "sad"}, "failed", "sad"),
        ("completed", {"result": text(LONG, isError=True)}, "failed", LONG[:2_000]),
        ("completed", {"result": {"content": [], "isError": True}}, "failed", None),
        ("failed", {"error": FAULT}, "failed", None),
        ("cancelled", {}, "cancelled", None),
    ],
)
async def test_a_task_is_shown_as_legacy_clients_know_it(
    modern_upstream: Scripted,
    tmp_path: Path,
    state: str,
    fields: dict[str, Any],
    shown: str,
    message: str | None,
) -> None:
    modern_upstream.on("tasks/get", seen_as("task-1", state, **fields))
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        task = await lm.get()
    ttl, interval = fields.get("ttlMs"), fields.get("pollIntervalMs", 1_000)
    expected = {
        "taskId": "task-1", "status": shown, "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:01Z", "ttl": None if ttl is None else int(ttl),
    }  # fmt: skip
    if interval:
        expected["pollInterval"] = 11 if interval == 10.2 else interval
    if message is not None:
        expected["statusMessage"] = message
    assert task == expected
    check_legacy("GetTaskResult", task)


@pytest.mark.rule("LM-GET", "LM-LIST", "LM-STREAM")
async def test_an_operator_may_want_the_content(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path, legacy={"tool_error_status": "completed"}) as lm:
        async with lm.client.get() as stream:
            await lm.create()
            modern_upstream.on("tasks/get", seen_as("task-1", "completed", result=BROKEN))
            told = await lm.ticking(asyncio.ensure_future(stream.message()))
        task = await lm.get()
        [listed] = (await lm.client.request("tasks/list")).result["tasks"]
        reply = await lm.client.tasks("result", "task-1")
    assert [one["status"] for one in (told["params"], task, listed)] == ["completed"] * 3
    assert reply.result == related(BROKEN)


@pytest.mark.rule("LM-RESULT", "KEYS")
@pytest.mark.parametrize(
    ("end", "answer"),
    [
        ({"status": "completed", "result": text("ok", new=1)}, {"result": related(text("ok", new=1))}),
        (
            {"status": "completed", "result": {**text("ok"), **ACK, "_meta": {"x.example/y": 1}}},
            {"result": {**text("ok"), "_meta": {"x.example/y": 1, RELATED_TASK: {"taskId": "task-1"}}}},
        ),
        ({"status": "completed", "result": BROKEN}, {"result": related(BROKEN)}),
        ({"status": "completed", "result": text("ok", structuredContent=7)}, {"result": related(text("ok"))}),
        ({"status": "failed", "error": FAULT}, {"error": FAULT}),
        ({"status": "cancelled"}, {"error": {"code": -32603, "message": "task was cancelled"}}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("waits", [True, False])
async def test_the_end_of_a_task_is_its_result(
    modern_upstream: Scripted, tmp_path: Path, end: dict[str, Any], answer: dict[str, Any], *, waits: bool
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        if waits:
            async with lm.client.stream("tasks/result", {"taskId": "task-1"}, id="mine") as stream:
                assert stream.headers["Content-Type"].startswith("text/event-stream")
                modern_upstream.on("tasks/get", {"resultType": "complete", **seen_as(), **end})
                [message] = await lm.ticking(asyncio.ensure_future(stream.rest()))
        else:
            modern_upstream.on("tasks/get", {"resultType": "complete", **seen_as(), **end})
            await lm.get()
            message = (await lm.client.tasks("result", "task-1", id="mine")).json
    assert message == {"jsonrpc": "2.0", "id": "mine", **answer}


@pytest.mark.rule("LM-RESULT", "DUR-6")
async def test_many_waiters_share_one_poller_at_the_upstreams_pace(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on("tasks/get", seen_as(pollIntervalMs=10_000))
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create(pollIntervalMs=10_000)
        async with AsyncExitStack() as streams:
            asking = [lm.client.stream("tasks/result", {"taskId": "task-1"}) for _ in range(WAITERS)]
            waiting = [await streams.enter_async_context(one) for one in asking]
            await modern_upstream.wait("tasks/get")
            for _ in range(10):
                lm.clock.advance(
                    900
                )  # 9,000 ms: before the hint, not even one more, though more come to wait
                late = lm.client.stream("tasks/result", {"taskId": "task-1"})
                waiting.append(await streams.enter_async_context(late))
                assert (await lm.client.request("ping")).result == {}
            looks = [len(modern_upstream.seen("tasks/get"))]
            for n in range(3):
                lm.clock.advance(12_001)
                await modern_upstream.wait("tasks/get", n + 2)
                assert (await lm.client.request("ping")).result == {}
                await lm.clock.slept(11_000, 12_000)
                looks.append(len(modern_upstream.seen("tasks/get")))
            modern_upstream.on("tasks/get", seen_as("task-1", "completed", result=text("done")))
            lm.clock.advance(12_001)
            replies = [await stream.rest() for stream in waiting]
    assert looks == [1, 2, 3, 4]
    assert len(modern_upstream.seen("tasks/get")) == 5
    assert [reply["result"] for [reply] in replies] == [related(text("done"))] * len(waiting)


@pytest.mark.rule("LM-RESULT")
async def test_a_quiet_wait_is_kept_alive(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path, legacy={"keepalive_ms": 5}) as lm:
        await lm.create()
        async with lm.client.stream("tasks/result", {"taskId": "task-1"}) as stream:
            frames = [await stream.next_raw() for _ in range(3)]
    assert [(frame.raw[:1], frame.data) for frame in frames] == [(b":", None)] * 3


@pytest.mark.rule("LM-RESULT")
@pytest.mark.parametrize("how", ["leaves", "cancels"])
async def test_a_waiter_that_goes_cancels_nothing(
    modern_upstream: Scripted, tmp_path: Path, how: str
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        other = asyncio.create_task(lm.client.tasks("result", "task-1"))
        async with lm.client.stream("tasks/result", {"taskId": "task-1"}, id="r-1") as stream:
            if how == "cancels":
                cancelled = await lm.client.notify("notifications/cancelled", {"requestId": "r-1"})
                assert cancelled.status == 202
                assert await stream.rest() == []
        assert (await lm.get())["status"] == "working"
        modern_upstream.on("tasks/get", seen_as("task-1", "completed", result=text("done")))
        reply = await lm.ticking(other)
    assert reply.result == related(text("done"))
    assert modern_upstream.seen("tasks/cancel") == []
    assert modern_upstream.seen("notifications/cancelled") == []


@pytest.mark.rule("LM-RESULT", "OWN-CHECK")
async def test_a_cancel_of_anothers_request_does_nothing(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        bob = await lm.seated(BOB)
        waiting = asyncio.create_task(lm.client.tasks("result", "task-1", id="r-1"))
        await modern_upstream.wait("tasks/get")
        assert (await bob.notify("notifications/cancelled", {"requestId": "r-1"})).status == 202
        modern_upstream.on("tasks/get", seen_as("task-1", "completed", result=text("done")))
        assert (await lm.ticking(waiting)).result == related(text("done"))


@pytest.mark.rule("LM-RESULT")
async def test_an_outage_is_waited_out(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        async with lm.client.stream("tasks/result", {"taskId": "task-1"}) as stream:
            modern_upstream.once("tasks/get", *[Raw("", 503)] * 3)
            modern_upstream.on("tasks/get", seen_as("task-1", "completed", result=text("done")))
            [message] = await lm.ticking(asyncio.ensure_future(stream.rest()))
    assert message["result"] == related(text("done"))


@pytest.mark.rule("LM-RESULT", "ML-SESSION-LOST")
async def test_a_task_the_server_lost_fails_its_waiters(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        async with lm.client.stream("tasks/result", {"taskId": "task-1"}) as stream:
            modern_upstream.on("tasks/get", Error(-32602, "unknown task"))
            [message] = await lm.ticking(asyncio.ensure_future(stream.rest()))
        shown = await lm.get()
    assert message["error"]["code"] == -32603
    assert shown["status"] == "failed"
    assert [event["reason"] for event in lm.events("task.lost")] == ["unknown_twice"]


async def listed(lm: Corner, cursor: str | None = None) -> Any:
    return (await lm.client.request("tasks/list", {} if cursor is None else {"cursor": cursor})).result


@pytest.mark.rule("LM-LIST", "KEYS")
async def test_the_list_comes_from_the_ledger(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path, legacy={"page_size": 2}, tasks={"refresh_list": 1}) as lm:
        for n in range(3):
            await lm.create(f"task-{n}")
        bob = await lm.seated(BOB)
        modern_upstream.once("tools/call", made("bobs"))
        await bob.call("run", task={})
        modern_upstream.on(
            "tasks/get", lambda seen: seen_as(seen.params["taskId"], "completed", result=text("ok"))
        )
        lm.clock.advance(1_001)
        before = len(modern_upstream.seen("tasks/get"))
        first = await listed(lm)
        looked = len(modern_upstream.seen("tasks/get")) - before
        last = await listed(lm, first["nextCursor"])
        foreign = await bob.request("tasks/list", {"cursor": first["nextCursor"]})
        bobs = (await bob.request("tasks/list")).result
    assert [(one["taskId"], one["status"]) for one in first["tasks"]] == [
        ("task-2", "completed"), ("task-1", "working")
    ]  # fmt: skip
    assert looked == 1
    assert [one["taskId"] for one in last["tasks"]] == ["task-0"]
    assert "nextCursor" not in last
    assert foreign.error["code"] == -32602
    assert [one["taskId"] for one in bobs["tasks"]] == ["bobs"]
    assert modern_upstream.seen("tasks/list") == []
    check_legacy("ListTasksResult", first)


@pytest.mark.rule("LM-LIST")
async def test_the_list_is_had_while_the_server_is_away(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        modern_upstream.on("tasks/get", Raw("", 503))
        lm.clock.advance(1_001)
        seen = await listed(lm)
    assert [(one["taskId"], one["status"]) for one in seen["tasks"]] == [("task-1", "working")]


@pytest.mark.rule("LM-LIST", "OWN-ID")
async def test_a_session_lists_its_own_tasks(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path, client={"headers": {}}) as lm:
        await lm.create("one")
        other = await lm.seated({})
        modern_upstream.once("tools/call", made("two"))
        await other.call("run", task={})
        mine = await listed(lm)
        theirs = (await other.request("tasks/list")).result
        foreign = await other.tasks("get", "one")
    assert [one["taskId"] for one in mine["tasks"]] == ["one"]
    assert [one["taskId"] for one in theirs["tasks"]] == ["two"]
    assert foreign.error["code"] == -32602


async def held(lm: Corner, upstream: Scripted, end: dict[str, Any], **fields: Any) -> tuple[list[Any], str]:
    """A plain call that the server makes a task of; gives all that was said and the task's id."""
    upstream.once("tools/call", made("held-1"))
    params = {"name": "run", "arguments": {}, **fields}
    async with lm.client.stream("tools/call", params, id="c-1") as stream:
        await lm.ticking(asyncio.ensure_future(upstream.wait("tasks/get")))
        [task] = (await listed(lm))["tasks"]
        upstream.once("tasks/get", seen_as("held-1", statusMessage="half way"))
        upstream.on("tasks/get", {**seen_as("held-1"), **end})
        said = await lm.ticking(asyncio.ensure_future(stream.rest()))
    return said, task["taskId"]


@pytest.mark.rule("LM-PLAIN", "KEYS")
@pytest.mark.parametrize(
    ("end", "answer"),
    [
        ({"status": "completed", "result": text("ok")}, {"result": text("ok")}),
        ({"status": "completed", "result": BROKEN}, {"result": BROKEN}),
        ({"status": "failed", "error": FAULT}, {"error": FAULT}),
        ({"status": "cancelled"}, {"error": {"code": -32603, "message": "task was cancelled"}}),
    ],
)
@pytest.mark.parametrize("token", ["mine", 7, None])
async def test_a_call_is_held_while_its_task_runs(
    modern_upstream: Scripted, tmp_path: Path, end: dict[str, Any], answer: dict[str, Any], token: Any
) -> None:
    fields = {} if token is None else {"_meta": {"progressToken": token}}
    async with corner(modern_upstream, tmp_path) as lm:
        said, task_id = await held(lm, modern_upstream, end, **fields)
        ended = (await listed(lm))["tasks"]
    assert said.pop() == {"jsonrpc": "2.0", "id": "c-1", **answer}
    progress = {"progressToken": token, "progress": 1, "message": "half way"}
    told = {"jsonrpc": "2.0", "method": "notifications/progress", "params": progress}
    assert said == ([] if token is None else [told])
    assert task_id == "held-1"
    assert [one["taskId"] for one in ended] == ["held-1"]
    assert len(modern_upstream.seen("tools/call")) == 1


@pytest.mark.rule("LM-PLAIN")
@pytest.mark.parametrize("how", ["leaves", "cancels"])
async def test_a_held_call_may_be_left(modern_upstream: Scripted, tmp_path: Path, how: str) -> None:
    modern_upstream.once("tools/call", made("held-1"))
    async with corner(modern_upstream, tmp_path) as lm:
        async with lm.client.stream("tools/call", {"name": "run"}, id="c-1") as stream:
            await lm.ticking(asyncio.ensure_future(modern_upstream.wait("tasks/get")))
            if how == "cancels":
                await lm.client.notify("notifications/cancelled", {"requestId": "c-1"})
                assert await stream.rest() == []
        assert (await lm.get("held-1"))["status"] == "working"
    assert modern_upstream.seen("tasks/cancel") == []


@pytest.mark.rule("LM-PLAIN")
async def test_a_held_call_is_kept_alive(modern_upstream: Scripted, tmp_path: Path) -> None:
    modern_upstream.once("tools/call", made("held-1"))
    async with (
        corner(modern_upstream, tmp_path, legacy={"keepalive_ms": 5}) as lm,
        lm.client.stream("tools/call", {"name": "run"}) as stream,
    ):
        assert [(await stream.next_raw()).raw[:1] for _ in range(2)] == [b":"] * 2


@pytest.mark.rule("LM-PLAIN", "LM-META")
async def test_a_server_that_insists_on_tasks_finds_them_declared(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}

    def call(seen: Any) -> Any:
        declared = seen.params["_meta"]["io.modelcontextprotocol/clientCapabilities"].get("extensions")
        return made("held-1") if declared else Error(-32021, "tasks are needed", needed, 400)

    modern_upstream.on("tools/call", call)
    modern_upstream.on("tasks/get", seen_as("held-1", "completed", result=text("ok")))
    async with corner(modern_upstream, tmp_path) as lm:
        reply = await lm.ticking(asyncio.ensure_future(lm.client.call("run")))
    assert reply.result == text("ok")


@pytest.mark.rule("LM-PLAIN", "DUR-2")
async def test_a_held_calls_task_outlives_the_shim(modern_upstream: Scripted, tmp_path: Path) -> None:
    modern_upstream.once("tools/call", made("held-1"))
    async with corner(modern_upstream, tmp_path) as lm:
        async with lm.client.stream("tools/call", {"name": "run"}):
            await lm.ticking(asyncio.ensure_future(modern_upstream.wait("tasks/get")))
        session = lm.client.session
    modern_upstream.on("tasks/get", seen_as("held-1", "completed", result=text("ok")))
    async with corner(modern_upstream, tmp_path, session=False) as lm:
        lm.client.session, lm.client.initialized = session, True
        assert (await lm.get("held-1"))["status"] == "completed"
        assert (await lm.client.tasks("result", "held-1")).result == related(text("ok"), "held-1")


@pytest.mark.rule("LM-RESULT", "HUB-5")
async def test_payloads_arrive_as_sent(modern_upstream: Scripted, tmp_path: Path) -> None:
    odd = '{"content":[{"type":"text","text":"\\ud800"}],"structuredContent":{"n":9007199254740993,"f":1.10}}'
    task = json.dumps(seen_as("task-1", "completed"))[:-1] + f', "result": {odd}}}'
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        modern_upstream.on(
            "tasks/get", lambda seen: Raw(f'{{"jsonrpc":"2.0","id":{json.dumps(seen.id)},"result":{task}}}')
        )
        await lm.get()
        reply = await lm.client.tasks("result", "task-1")
    assert odd[:-1].encode() in reply.body


@pytest.mark.rule("LM-PLAIN", "INPUT-END")
async def test_a_held_calls_questions_go_over_its_own_stream(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.once("tools/call", made("held-1"))
    modern_upstream.on("tasks/get", asks("k", "l", task_id="held-1"))
    async with (
        corner(modern_upstream, tmp_path) as lm,
        lm.client.stream("tools/call", {"name": "run"}) as stream,
    ):
        first = await lm.ticking(asyncio.ensure_future(stream.message()))
        second = await stream.message()
        await lm.client.respond(first["id"], {"action": "decline"})
        await modern_upstream.wait("tasks/update")
        modern_upstream.on("tasks/get", seen_as("held-1", "completed", result=text("ok")))
        called_off, answer = await lm.ticking(asyncio.ensure_future(stream.rest()))
    assert first["method"] == second["method"] == "elicitation/create"
    assert "_meta" not in first["params"]  # the client knows of no task
    assert called_off["method"] == "notifications/cancelled"
    assert called_off["params"] == {"requestId": second["id"]}
    assert answer["result"] == text("ok")
    assert [seen.params["inputResponses"] for seen in modern_upstream.seen("tasks/update")] == [
        {"k": {"action": "decline"}}
    ]


@pytest.mark.rule("LM-PLAIN", "LM-RESULT", "DUR-4")
async def test_who_waits_for_a_task_that_expires_is_told(modern_upstream: Scripted, tmp_path: Path) -> None:
    modern_upstream.once("tools/call", made("held-1", ttlMs=500))
    modern_upstream.on("tasks/get", Error(-32602, "unknown task"))
    async with (
        corner(modern_upstream, tmp_path) as lm,
        lm.client.stream("tools/call", {"name": "run"}) as stream,
        lm.client.stream("tasks/result", {"taskId": "held-1"}) as waiting,
    ):
        [answer] = await lm.ticking(asyncio.ensure_future(stream.rest()))
        [waited] = await waiting.rest()
    assert (answer["error"]["code"], waited["error"]["code"]) == (-32602, -32602)
    assert "expired" in answer["error"]["message"]
