"""MM: a modern client on a modern server is passed through; whose a task is, the shim sees to."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shim.ledger.protocol import LedgerError
from tests.client import MODERN, TASKS_EXTENSION, LegacyClient, ModernClient
from tests.corners.ml import ALICE, accept
from tests.corners.mm import (
    TASK,
    ModernCorner,
    corner,
    handle,
    question,
    result,
    sent,
    shown,
    spaced,
    states,
    until,
)
from tests.scripted import Error, Raw, Seen

pytestmark = pytest.mark.rule("MM-1")

PLAIN: dict[str, tuple[str, dict[str, Any]]] = {
    "discover": ("server/discover", {}),
    "tools": ("tools/list", {"cursor": "c"}),
    "call": ("tools/call", {"name": "run", "arguments": {"n": 9007199254740993}}),
    "prompt": ("prompts/get", {"name": "p"}),
    "resource": ("resources/read", {"uri": "file:///ä"}),
    "completion": ("completion/complete", {"ref": {}}),
    "a site's own": ("vendor/method", {"x": 1.10}),
}
ANSWERS: dict[str, Any] = {
    "a result": ({"result": {"resultType": "complete", "ttlMs": 5, "task": {"a": 1}, "n": -0.0}}, 200),
    "questions": (
        {"result": {"resultType": "input_required", "inputRequests": {}, "requestState": "s"}},
        200,
    ),
    "an error": ({"error": {"code": -32602, "message": "no", "data": {"reason": "r"}}}, 400),
    "no such method": ({"error": {"code": -32601, "message": "no"}}, 404),
    "an error of the tool": ({"error": {"code": -32603, "message": "no"}}, 200),
}


@pytest.mark.parametrize("method", PLAIN)
@pytest.mark.parametrize("answer", ANSWERS)
async def test_what_is_no_task_passes_byte_for_byte(tmp_path: Path, method: str, answer: str) -> None:
    name, params = PLAIN[method]
    async with corner(tmp_path) as mm:
        mm.upstream.on(name, spaced(*ANSWERS[answer]))
        through = await mm.client.request(name, params, id="ä 1", headers={"Mcp-Param-Region": "eu"})
        async with ModernClient(mm.upstream.url, headers=ALICE) as direct:
            plain = await direct.request(name, params, id="ä 1")
    assert (through.status, through.body) == (plain.status, plain.body)
    seen, direct_seen = mm.upstream.seen(name)
    assert seen.message == direct_seen.message
    assert seen.headers["Mcp-Param-Region"] == "eu"
    for header in ("Mcp-Method", "Mcp-Name", "MCP-Protocol-Version", "Authorization"):
        assert seen.headers.getall(header, []) == direct_seen.headers.getall(header, [])
    ended = mm.events("request")[0]
    assert (ended["corner"], ended["method"]) == ("MM", name)
    assert ended.get("code") == (ANSWERS[answer][0].get("error") or {}).get("code")


FAULTS: dict[str, Raw] = {
    "a challenge": Raw(
        '{"error":"invalid_token"}', 401, {"WWW-Authenticate": "Bearer x", "Content-Type": "application/json"}
    ),
    "forbidden": Raw("no", 403, {"Content-Type": "text/plain"}),
    "too many": Raw('{"detail":"slow"}', 429, {"Retry-After": "7", "Content-Type": "application/json"}),
    "broken": Raw("<html>", 500, {"Content-Type": "text/html"}),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("method", ["tools/list", "tools/call", "tasks/get"])
async def test_an_http_fault_passes_as_it_is(tmp_path: Path, fault: str, method: str) -> None:
    params = {"tools/call": {"name": "run"}, "tasks/get": {"taskId": TASK}}
    async with corner(tmp_path) as mm:
        await mm.create()
        mm.upstream.once(method, FAULTS[fault])
        reply = await mm.client.request(method, params.get(method))
    wanted = FAULTS[fault]
    assert (reply.status, reply.body.decode()) == (wanted.status, wanted.body)
    for name, value in wanted.headers.items():
        assert reply.headers[name].startswith(value)


async def test_a_stream_passes_as_it_is_and_no_session_does(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        stream = mm.upstream.stream("tools/call", headers={"Mcp-Session-Id": "s"})
        params = {"name": "run", "_meta": {"progressToken": 7}}
        async with mm.client.stream("tools/call", params, id=9) as answer:
            seen = await stream.opened()
            assert (seen.id, seen.params["_meta"]["progressToken"]) == (9, 7)
            await stream.write(b': hello\n\nid: 3\ndata:  {"jsonrpc":"2.0","method":"notifications/x"}\n\n')
            assert (await answer.next_raw()).raw == b": hello\n\n"
            assert (await answer.next()).raw.startswith(b"id: 3\ndata:  {")
            await stream.result(result())
            assert (await answer.message())["result"] == result()
            assert "Mcp-Session-Id" not in answer.headers


HEADERS: dict[str, tuple[str, Mapping[str, Any], dict[str, str | None]]] = {
    "another method": ("tools/call", {"name": "run"}, {"Mcp-Method": "tools/list"}),
    "another name": ("tools/call", {"name": "run"}, {"Mcp-Name": "walk"}),
    "no name": ("tools/call", {"name": "run"}, {"Mcp-Name": None}),
    "another version": ("tools/list", {}, {"MCP-Protocol-Version": "2026-07-29"}),
    "another task": ("tasks/get", {"taskId": TASK}, {"Mcp-Name": "t"}),
}


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize("case", HEADERS)
async def test_mismatching_headers_are_refused_here_already(tmp_path: Path, case: str) -> None:
    method, params, headers = HEADERS[case]
    async with corner(tmp_path) as mm:
        reply = await mm.client.request(method, params, headers=headers)
        assert (reply.status, reply.error["code"]) == (400, -32020)
        assert mm.upstream.requests == []


@pytest.mark.rule("VALIDATE")
async def test_a_name_that_a_client_leaves_out_is_put_on(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        mm.upstream.on("tasks/get", shown())
        await mm.client.tasks("get", TASK, headers={"Mcp-Name": None})
        assert mm.upstream.seen("tasks/get")[0].headers["Mcp-Name"] == TASK
    assert [one["detail"] for one in mm.events("lenient")] == ["Mcp-Name missing"]


async def test_what_is_no_request_goes_nowhere(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        for method in ("GET", "DELETE"):
            headers = {"MCP-Protocol-Version": MODERN}
            url = mm.app.url.replace("/mcp", "/modern")
            reply = await mm.client.send(None, http_method=method, headers=headers, url=url)
            assert (reply.status, reply.headers["Allow"]) == (405, "POST")
        told = await mm.client.post(mm.client.build("notifications/cancelled", {"requestId": 1}))
        assert (told.status, told.body) == (202, b"")
        assert mm.upstream.requests == []


@pytest.mark.parametrize("method", ["tasks/list", "tasks/result", "tasks/create"])
async def test_a_task_method_of_the_old_api_does_not_exist(tmp_path: Path, method: str) -> None:
    async with corner(tmp_path) as mm:
        reply = await mm.client.request(method, {"taskId": TASK})
        assert (reply.status, reply.error["code"]) == (404, -32601)
        assert mm.upstream.seen(method) == []


# -- create --------------------------------------------------------------------------------------


@pytest.mark.rule("DUR-1")
@pytest.mark.parametrize("streamed", [False, True])
async def test_a_handle_passes_as_it_came_once_it_is_written_down(tmp_path: Path, *, streamed: bool) -> None:
    made = {"result": handle(content=[], statusMessage="queued")}
    async with corner(tmp_path) as mm:
        if streamed:
            stream = mm.upstream.stream("tools/call")
            reply, _ = await asyncio.gather(mm.client.call("run"), stream.result(made["result"]))
            assert reply.result == made["result"]
        else:
            mm.upstream.once("tools/call", spaced(made))
            reply = await mm.client.call("run")
            assert reply.body == spaced(made)(Seen("", "", reply.headers, b"", {"id": 1})).body.encode()
        row = await mm.row()
        assert (row.task_id, row.tool, row.status_message) == (TASK, "run", "queued")
    [event] = mm.events("task.created")
    assert (event["task_id"], event["via"]) == (TASK, "MM")


@pytest.mark.rule("DUR-1")
@pytest.mark.parametrize("streamed", [False, True])
async def test_no_handle_passes_that_cannot_be_written_down(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, streamed: bool
) -> None:
    async with corner(tmp_path) as mm:

        async def full(*_: Any) -> None:
            raise LedgerError("disk full")

        monkeypatch.setattr(mm.app.ledger, "create_task", full)
        if streamed:
            stream = mm.upstream.stream("tools/call")
            reply, _ = await asyncio.gather(mm.client.call("run"), stream.result(handle()))
        else:
            mm.upstream.once("tools/call", handle())
            reply = await mm.client.call("run")
    assert reply.error["code"] == -32603
    assert TASK.encode() not in reply.body


@pytest.mark.rule("ML-CLOSE")
async def test_a_client_that_leaves_mid_answer_owns_the_task_that_came(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        stream = mm.upstream.stream("tools/call")
        async with mm.client.stream("tools/call", {"name": "run"}) as answer:
            await stream.opened()
            answer.close()
        await until(mm.has_left)
        await stream.result(handle())
        await until(mm.is_kept)
        mm.upstream.once("tasks/get", shown())
        assert (await mm.client.tasks("get", TASK)).result["status"] == "working"


@pytest.mark.rule("ML-CLOSE")
@pytest.mark.parametrize("declared", [False, True])
async def test_a_client_that_leaves_cancels_its_call(tmp_path: Path, *, declared: bool) -> None:
    async with corner(tmp_path, client={"tasks": declared}) as mm:
        stream = mm.upstream.stream("tools/call")
        async with mm.client.stream("tools/call", {"name": "run"}) as answer:
            await stream.opened()
            answer.close()
        await until(mm.has_left)
        if declared:  # a handle may be on its way, which is waited for
            await mm.clock.slept(1_000)
            mm.clock.advance(1_000)
        await stream.left()
    [event] = mm.events("request")
    assert event["outcome"] == "disconnected"


@pytest.mark.rule("OWN-ID-MAP")
async def test_a_colliding_id_is_mapped_wherever_it_stands(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await mm.create("task-1")
        mm.upstream.once("tools/call", handle("task-1", task={"taskId": "task-1", "status": "working"}))
        reply = await mm.client.call("run")
        own_id = reply.result["taskId"]
        assert own_id != "task-1"
        assert reply.result == handle(own_id, task={"taskId": own_id, "status": "working"})
        mm.upstream.on("tasks/get", shown("task-1", "completed", result=result()))
        seen = (await mm.client.tasks("get", own_id)).result
        assert (seen["taskId"], seen["status"]) == (own_id, "completed")
        asked = mm.upstream.seen("tasks/get")[-1]
        assert (asked.params["taskId"], asked.headers["Mcp-Name"]) == ("task-1", "task-1")


@pytest.mark.rule("OWN-NONE", "OWN-ID-MAP")
async def test_nobody_gets_a_guessable_id(tmp_path: Path) -> None:
    async with corner(tmp_path, client={"headers": {}}) as mm:
        own_id = await mm.create("task-1")
        assert own_id != "task-1"
        assert await mm.create(TASK) == TASK
        mm.upstream.on("tasks/get", shown("task-1"))
        assert (await mm.client.tasks("get", "task-1")).error["code"] == -32602
        assert (await mm.client.tasks("get", own_id)).result["taskId"] == own_id


async def test_a_task_for_an_undeclared_client_is_reported_and_kept(tmp_path: Path) -> None:
    async with corner(tmp_path, client={"tasks": False}) as mm:
        mm.upstream.once("tools/call", handle())
        assert (await mm.client.call("run")).result == handle()
        assert (await mm.row()).task_id == TASK
    assert [event["rule"] for event in mm.events("upstream.invalid")] == ["MM-1"]


WANTED = {"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}}


@pytest.mark.rule("ML-CREATE")
@pytest.mark.parametrize("alone", [True, False])
async def test_a_caller_with_too_many_open_tasks_gets_no_more(tmp_path: Path, *, alone: bool) -> None:
    """The server decides what becomes a task; it is told that this call must not, and may refuse."""
    more = {} if alone else {"io.example/own": {"n": 1.10}}
    capabilities = {"elicitation": {}, "extensions": {TASKS_EXTENSION: {}, **more}}
    async with corner(tmp_path, limits={"open_tasks_per_caller": 1}) as mm:
        await mm.create()
        mm.client.declares_tasks, mm.client.capabilities = False, capabilities  # which have it in them
        mm.upstream.once("tools/call", result())
        plain = await mm.client.call("run")
        assert (plain.status, plain.result) == (200, result())
        meta = mm.upstream.seen("tools/call")[-1].params["_meta"]
        assert meta["io.modelcontextprotocol/clientCapabilities"] == {"elicitation": {}, "extensions": more}
        mm.upstream.once("tools/call", Error(-32021, "no", data=WANTED, status=400))
        refused = await mm.client.call("run")
        assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
        mm.upstream.once(
            "tools/call", Error(-32021, "no", data={"requiredCapabilities": {"roots": {}}}, status=400)
        )
        assert (await mm.client.call("run")).error["code"] == -32021
    assert [event["reason"] for event in mm.events("denied")] == ["limit"]


# -- what an old client of the same caller sees ---------------------------------------------------


@asynccontextmanager
async def old_client(mm: ModernCorner) -> AsyncIterator[LegacyClient]:
    async with LegacyClient(mm.app.url, headers=ALICE) as client:
        await client.initialize()
        yield client


async def test_an_old_client_sees_the_end_that_a_new_one_saw(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm, old_client(mm) as old:
        await mm.create()
        mm.upstream.once("tasks/get", shown(TASK, "completed", result=result()))
        await mm.client.tasks("get", TASK)
        mm.upstream.on("tasks/get", Error(-32602, "gone"))
        assert (await old.tasks("get", TASK)).result["status"] == "completed"
        assert (await old.tasks("result", TASK)).result["content"] == result()["content"]
        listed = (await old.request("tasks/list")).result["tasks"]
        assert [one["taskId"] for one in listed] == [TASK]


async def test_a_cancel_of_an_old_client_is_the_end_for_a_new_one(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm, old_client(mm) as old:
        await mm.create()
        mm.upstream.on("tasks/get", shown())
        mm.upstream.on("tasks/cancel", {"resultType": "complete"})
        assert (await old.tasks("cancel", TASK)).result["status"] == "cancelled"
        assert (await mm.client.tasks("get", TASK)).result["status"] == "cancelled"


async def test_a_task_of_an_old_client_is_relayed_to_a_new_one(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm, old_client(mm) as old:
        mm.upstream.once("tools/call", handle())
        assert (await old.call("run", task={})).result["task"]["taskId"] == TASK
        mm.upstream.once("tasks/get", shown(TASK, "input_required", inputRequests={"k": question()}))
        assert (await mm.client.tasks("get", TASK)).result["inputRequests"] == {"k": question()}
        mm.upstream.on("tasks/update", {"resultType": "complete"})
        await mm.client.tasks("update", TASK, inputResponses={"k": accept(ok=True)})
        assert await states(mm) == {"k": "delivered"}


# -- under a key ---------------------------------------------------------------------------------

KEY = {"Idempotency-Key": "k-1"}
KEYED: dict[str, dict[str, Any]] = {
    "a result": {**result(), "ttlMs": 5, "cacheScope": "private"},
    "a question": {
        "resultType": "input_required", "inputRequests": {"q": question()}, "requestState": "s", "_meta": {},
    },
}  # fmt: skip


@pytest.mark.rule("DUR-3")
@pytest.mark.parametrize("case", KEYED)
async def test_a_call_under_a_key_runs_once_and_loses_nothing(tmp_path: Path, case: str) -> None:
    capabilities = {"elicitation": {"form": {}}, "extensions": {"vendor/x": {"a": 1}}}
    async with corner(tmp_path, client={"capabilities": capabilities, "tasks": False}) as mm:
        mm.upstream.once("tools/call", KEYED[case])
        params = {"name": "run", "arguments": {"n": 1}, "requestState": "before", "inputResponses": {"a": {}}}
        first = await mm.client.request("tools/call", params, headers=KEY)
        again = await mm.client.request("tools/call", params, headers=KEY)
        assert first.result == again.result == KEYED[case]
        [seen] = mm.upstream.seen("tools/call")
        assert sent(seen) == params
        declared = seen.params["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        assert declared == capabilities


@pytest.mark.rule("DUR-3")
async def test_a_task_under_a_key_is_handed_out_twice_and_made_once(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        mm.upstream.once("tools/call", handle())
        first = await mm.client.call("run", headers=KEY)
        again = await mm.client.call("run", headers=KEY)
        assert first.result["taskId"] == again.result["taskId"] == TASK
        assert first.result["resultType"] == "task"
        assert len(mm.upstream.seen("tools/call")) == 1
