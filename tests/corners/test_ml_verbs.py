"""ML-GET, ML-TERMINAL, ML-CANCEL, ML-UPDATE, ML-GONE, ML-PROGRESS, IDS: what becomes of a task."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.client import RELATED_TASK
from tests.corners.ml import accept, corner, elicit
from tests.scripted import Broken, Error, Scripted, Seen, Stream, task, text

ACK = {"resultType": "complete"}


@pytest.mark.rule("ML-TERMINAL")
@pytest.mark.parametrize(
    ("ended", "result", "status", "payload"),
    [
        ("completed", text("ok"), "completed", {**ACK, **text("ok")}),
        ("completed", text("no", isError=True), "completed", {**ACK, **text("no", isError=True)}),
        ("failed", text("no", isError=True), "completed", {**ACK, **text("no", isError=True)}),
        ("failed", Error(-32000, "no", 1), "failed", {"code": -32000, "message": "no", "data": 1}),
        ("failed", text("why"), "failed", {"code": -32603, "message": "why"}),
        ("failed", {"_meta": {RELATED_TASK: {"taskId": "task-1"}}}, "failed", None),
        ("cancelled", text("ok"), "cancelled", None),
        ("cancelled", Error(-32603), "cancelled", None),
    ],
)  # fmt: skip
async def test_how_a_task_ends(
    upstream: Scripted, tmp_path: Path, ended: str, result: Any, status: str, payload: dict[str, Any] | None
) -> None:
    upstream.on("tasks/get", task(status=ended))
    upstream.on("tasks/result", result)
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        first, again = await ml.get(), await ml.get()
    assert first == again
    assert first["status"] == status
    if payload is not None:
        assert first["result" if status == "completed" else "error"] == payload
    assert ("result" in first) is (status == "completed")
    assert ("error" in first) is (status == "failed")
    assert len(upstream.seen("tasks/get")) == 1
    assert len(upstream.seen("tasks/result")) == (0 if ended == "cancelled" else 1)


@pytest.mark.rule("ML-TERMINAL")
async def test_a_reason_is_the_status_message(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task(status="failed", statusMessage="disk full"))
    upstream.on("tasks/result", {"_meta": {}})
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        assert (await ml.get())["error"] == {"code": -32603, "message": "disk full"}
    assert ml.events("lenient")


@pytest.mark.rule("ML-TERMINAL")
async def test_not_completed_yet_means_poll_on(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task(status="completed"))
    upstream.once("tasks/result", Error(-32602, "Task not completed yet"))
    upstream.on("tasks/result", text("ok"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        assert (await ml.get())["status"] == "working"
        assert (await ml.get())["status"] == "completed"


@pytest.mark.rule("ML-TERMINAL")
async def test_only_related_task_is_stripped(upstream: Scripted, tmp_path: Path) -> None:
    meta = {RELATED_TASK: {"taskId": "task-1"}, "x.example/y": 1}
    upstream.on("tasks/get", task(status="completed"))
    upstream.on("tasks/result", {"content": [], "_meta": meta})
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        assert (await ml.get())["result"]["_meta"] == {"x.example/y": 1}


@pytest.mark.rule("ML-TERMINAL")
async def test_a_result_stream_that_hangs_after_the_end_is_dropped(
    upstream: Scripted, tmp_path: Path
) -> None:
    hanging = upstream.stream("tasks/result")
    upstream.once("tasks/get", task(status="input_required"))
    upstream.on("tasks/get", task(status="completed"))
    upstream.on("tasks/result", text("ok"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        await ml.get()
        assert (await ml.get())["status"] == "completed"
    assert hanging.request is not None
    assert upstream.seen("notifications/cancelled")[0].params["requestId"] == hanging.request.id


@pytest.mark.rule("ML-GET")
async def test_one_look_serves_all_who_ask_and_a_burst(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task(pollInterval=400))
    async with corner(upstream, tmp_path) as ml:
        await ml.create(pollInterval=400)
        asked = [ml.client.tasks("get", "task-1") for _ in range(5)]
        assert {reply.result["status"] for reply in await asyncio.gather(*asked)} == {"working"}
        assert len(upstream.seen("tasks/get")) == 1
        ml.clock.advance(99)
        await ml.client.tasks("get", "task-1")
        assert len(upstream.seen("tasks/get")) == 1
        ml.clock.advance(1)
        await ml.client.tasks("get", "task-1")
        assert len(upstream.seen("tasks/get")) == 2


@pytest.mark.rule("ML-CANCEL")
@pytest.mark.parametrize(
    ("answer", "known", "outcome", "status"),
    [
        (task(status="cancelled"), task(status="cancelled"), ACK, "cancelled"),
        (Error(-32602, "already ended"), task(), ACK, "working"),
        (Error(-32602, "unknown"), Error(-32602, "unknown"), -32602, None),
        (Error(-32601, "no cancel"), task(), ACK, "working"),
    ],
)
async def test_cancel(
    upstream: Scripted, tmp_path: Path, answer: Any, known: Any, outcome: Any, status: str | None
) -> None:
    upstream.on("tasks/cancel", answer)
    upstream.on("tasks/get", known)
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        reply = await ml.client.tasks("cancel", "task-1")
        if status is not None:
            assert (await ml.get())["status"] == status
    assert reply.json.get("result", reply.json.get("error", {}).get("code")) == outcome


@pytest.mark.rule("ML-CANCEL", "ML-GET")
async def test_a_look_from_before_a_cancel_is_no_look_at_what_came_of_it(
    upstream: Scripted, tmp_path: Path
) -> None:
    before = Stream()
    upstream.once("tasks/get", before)
    upstream.on("tasks/get", task(status="cancelled"))
    upstream.on("tasks/cancel", task(status="cancelled"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        looking = asyncio.ensure_future(ml.get())
        await before.opened()
        assert (await ml.client.tasks("cancel", "task-1")).json["result"] == ACK
        assert (await ml.get())["status"] == "cancelled"
        await before.result(task(status="working"))
        assert (await looking)["status"] in {"working", "cancelled"}
        assert (await ml.get())["status"] == "cancelled"


@pytest.mark.rule("ML-CANCEL", "ML-SESSION-LOST")
@pytest.mark.parametrize("again", [Error(-32602, "unknown"), task(status="cancelled")])
@pytest.mark.parametrize("answer", [None, Broken(), Broken(b"HTTP/1.1 200 OK\r\nContent-Le")])
async def test_a_session_that_dies_of_the_cancel_leaves_it_cancelled(
    upstream: Scripted, tmp_path: Path, answer: Any, again: Any
) -> None:
    def dying(_: Seen) -> Any:
        upstream.forget()
        return answer

    if answer is not None:
        upstream.once("tasks/cancel", dying)
    upstream.on("tasks/cancel", again)
    upstream.on("tasks/get", Error(-32602, "unknown"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        if answer is None:
            upstream.forget()
        assert (await ml.client.tasks("cancel", "task-1")).json["result"] == ACK
        assert (await ml.get())["status"] == "cancelled"
    assert len(ml.events("task.ended")) == 1


@pytest.mark.rule("ML-CANCEL")
async def test_a_cancel_cut_off_on_a_living_session_is_said_again(upstream: Scripted, tmp_path: Path) -> None:
    upstream.once("tasks/cancel", Broken())
    upstream.on("tasks/cancel", task(status="cancelled"))
    upstream.once("tasks/get", task())
    upstream.on("tasks/get", task(status="cancelled"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        assert (await ml.client.tasks("cancel", "task-1")).json["result"] == ACK
        assert (await ml.get())["status"] == "cancelled"
    assert len(upstream.seen("tasks/cancel")) == 2


@pytest.mark.rule("ML-CANCEL", "OWN-CHECK")
async def test_a_cancel_that_cannot_be_sent_changes_nothing(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/cancel", Broken())
    upstream.on("tasks/get", task())
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        reply = await ml.client.tasks("cancel", "task-1")
        assert (reply.status, reply.error["code"]) == (502, -32603)
        assert (await ml.get())["status"] == "working"


@pytest.mark.rule("ML-SESSION-LOST")
async def test_lost_only_when_a_living_session_says_so_twice(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", Error(-32602, "unknown"))
    async with corner(upstream, tmp_path, tasks={"lost_confirm_ms": 5_000}) as ml:
        await ml.create()
        assert (await ml.get())["status"] == "working"
        assert (await ml.get())["status"] == "working"
        ml.clock.advance(5_000)
        lost = await ml.get()
    assert (lost["status"], lost["error"]["message"]) == ("failed", "upstream lost the task")


@pytest.mark.rule("ML-SESSION-LOST")
@pytest.mark.parametrize(
    "fault", [Error(-32000, status=401), Error(-32000, status=403), Error(-32603), Broken()]
)
async def test_outages_and_denials_never_mean_lost(upstream: Scripted, tmp_path: Path, fault: Any) -> None:
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        upstream.on("tasks/get", fault)
        for _ in range(3):
            ml.clock.advance(60_000)
            assert (await ml.client.tasks("get", "task-1")).json.get("result") is None
        upstream.on("tasks/get", task())
        assert (await ml.get())["status"] == "working"


@pytest.mark.rule("ML-SESSION-LOST")
async def test_a_call_cut_off_is_never_sent_again(upstream: Scripted, tmp_path: Path) -> None:
    call: Stream = upstream.stream("tools/call")
    async with corner(upstream, tmp_path) as ml:
        calling = asyncio.create_task(ml.client.call("plain"))
        await call.opened()
        await call.abort()
        error = (await calling).error
    assert (error["code"], error["message"].partition(":")[0]) == (-32603, "outcome unknown")
    assert len(upstream.seen("tools/call")) == 1
    assert [event["rule"] for event in ml.events("upstream.invalid")] == ["ML-SESSION-LOST"]


@pytest.mark.rule("ML-UPDATE")
async def test_an_answer_waits_for_the_upstream_and_is_delivered_once(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        await (await upstream.get_stream()).send(elicit(9, "task-1"))
        await ml.until("task-1", "input_required")
        upstream.once(None, Error(-32603, status=503))
        answers = {"elicitation-1": accept(ok=True), "unknown": accept()}
        assert (await ml.client.tasks("update", "task-1", inputResponses=answers)).result == ACK
        assert (await ml.client.tasks("update", "task-1", inputResponses=answers)).result == ACK
        await upstream.response_to(9)
        while len([seen for seen in upstream.requests if seen.is_response]) < 2:
            await ml.get()
        ml.clock.advance(60_000)
        await ml.get()
    assert len([seen for seen in upstream.requests if seen.is_response]) == 2


@pytest.mark.rule("ML-UPDATE")
async def test_what_the_creating_client_did_not_declare_is_refused(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    async with corner(upstream, tmp_path, client={"capabilities": {"sampling": {}}}) as ml:
        await ml.create()
        await (await upstream.get_stream()).send(elicit(9, "task-1"))
        assert (await upstream.response_to(9)).message["error"]["code"] == -32601
    assert ml.events("loss")


@pytest.mark.rule("ML-UPDATE")
async def test_a_weaker_client_sees_working(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        await (await upstream.get_stream()).send(elicit(9, "task-1"))
        await ml.until("task-1", "input_required")
        ml.client.capabilities = {}
        seen = await ml.get()
    assert seen["status"] == "working"
    assert seen["statusMessage"]


@pytest.mark.rule("ML-GONE")
@pytest.mark.parametrize(
    "method", ["tasks/result", "tasks/list", "ping", "logging/setLevel", "resources/subscribe"]
)
async def test_what_is_gone(upstream: Scripted, tmp_path: Path, method: str) -> None:
    async with corner(upstream, tmp_path) as ml:
        reply = await ml.client.request(method, {"taskId": "task-1"})
    assert (reply.status, reply.error["code"]) == (404, -32601)


@pytest.mark.rule("ML-PROGRESS", "IDS")
@pytest.mark.parametrize("token", [7, "7", "mine"])
async def test_progress_has_the_clients_token_and_upstream_the_shims(
    upstream: Scripted, tmp_path: Path, token: Any
) -> None:
    call = upstream.stream("tools/call")
    async with corner(upstream, tmp_path) as ml:
        calling = asyncio.create_task(ml.client.call("plain", meta={"progressToken": token}))
        with_token = await call.opened()
        ours = with_token.params["_meta"]["progressToken"]
        assert ours == with_token.id
        params = {"progressToken": ours, "progress": 1, "message": "half"}
        await call.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
        await call.result(text("ok"))
        reply = await calling
    assert [message["params"] for message in reply.messages[:-1]] == [{**params, "progressToken": token}]


@pytest.mark.rule("IDS")
async def test_no_id_is_used_twice(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task())
    for one in range(2):
        async with corner(upstream, tmp_path) as ml:
            await ml.create(f"task-{one}")
            await ml.get(f"task-{one}")
    ids = [seen.id for seen in upstream.requests if seen.method and "id" in seen.message]
    assert len(ids) == len(set(ids))
    assert all(isinstance(one, str) and one.startswith("ts-") for one in ids)


@pytest.mark.rule("ML-CLOSE")
async def test_leaving_cancels_a_call_and_never_a_task(upstream: Scripted, tmp_path: Path) -> None:
    plain = upstream.stream("tools/call")
    async with corner(upstream, tmp_path) as ml:
        leaving = asyncio.create_task(ml.client.call("plain"))
        seen = await plain.opened()
        leaving.cancel()
        off = await upstream.wait("notifications/cancelled")
        assert off.params["requestId"] == seen.id

        create = upstream.stream("tools/call")
        leaving = asyncio.create_task(ml.client.call("run"))
        await create.opened()
        leaving.cancel()
        await create.result({"task": task("kept")})
        upstream.on("tasks/get", task("kept"))
        while (await ml.client.tasks("get", "kept")).json.get("result") is None:
            ml.clock.advance(1)
    assert len(upstream.seen("notifications/cancelled")) == 1
