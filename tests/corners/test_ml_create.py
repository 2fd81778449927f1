"""ML-CREATE, ML-CREATE-REPLY, ML-UNDECLARED: when a call becomes a task, and what the client is told."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.client import TASKS_EXTENSION
from tests.corners.ml import corner
from tests.planted import arguments
from tests.scripted import Error, Raw, Scripted, Seen, scripted, task, text, tool


@pytest.mark.rule("ML-CREATE")
@pytest.mark.parametrize(
    ("support", "optional", "sent"),
    [
        ("required", "task", True),
        ("required", "plain", True),
        ("optional", "task", True),
        ("optional", "plain", False),
        ("forbidden", "task", False),
        ("sometimes", "task", False),
        (None, "task", False),
    ],
)
async def test_what_a_tool_supports_decides(
    upstream: Scripted, tmp_path: Path, support: str | None, optional: str, *, sent: bool
) -> None:
    upstream.on("tools/call", {"task": task()} if sent else text("done"))
    tools = {"tools": [tool("run", support)]}
    async with corner(upstream, tmp_path, tools=tools, tasks={"optional": optional}) as ml:
        reply = await ml.client.call("run", {"n": 1}, task={"ttl": 5})
    [seen] = upstream.seen("tools/call")
    assert seen.params == {"name": "run", "arguments": arguments({"n": 1}), **({"task": {}} if sent else {})}
    assert reply.result["resultType"] == ("task" if sent else "complete")


@pytest.mark.rule("ML-CREATE")
async def test_null_support_is_none(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tools/call", text("done"))
    tools = {"tools": [{**tool("run"), "execution": {"taskSupport": None}}]}
    async with corner(upstream, tmp_path, tools=tools) as ml:
        await ml.client.call("run")
    assert "task" not in upstream.seen("tools/call")[0].params


@pytest.mark.rule("ML-CREATE")
async def test_the_configured_ttl_is_asked(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path, tasks={"default_ttl_ms": 60_000}) as ml:
        await ml.create()
    assert upstream.seen("tools/call")[0].params["task"] == {"ttl": 60_000}


@pytest.mark.rule("ML-CREATE")
@pytest.mark.parametrize(
    "capabilities", [{"tools": {}}, {"tasks": {}}, {"tasks": {"requests": {"tools": {}}}}]
)
async def test_a_server_without_tasks_gets_a_plain_call(tmp_path: Path, capabilities: dict[str, Any]) -> None:
    async with scripted(capabilities=capabilities) as upstream:
        upstream.on("tools/call", text("done"))
        async with corner(upstream, tmp_path) as ml:
            reply = await ml.client.call("must")
        assert "task" not in upstream.seen("tools/call")[0].params
    assert reply.result["resultType"] == "complete"


@pytest.mark.rule("ML-CREATE")
async def test_the_tools_are_read_to_the_last_page_before_the_first_call(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.once(
        "tools/list",
        {"tools": [tool("a")], "nextCursor": "2"},
        {"tools": [tool("b")], "nextCursor": "3"},
        {"tools": [tool("run", "required")]},
    )
    async with corner(upstream, tmp_path) as ml:
        await ml.create("task-1")
        await ml.create("task-2")
    assert [seen.params.get("cursor") for seen in upstream.seen("tools/list")] == [None, "2", "3"]


@pytest.mark.rule("ML-CREATE")
@pytest.mark.parametrize("how", ["list_changed", "refusal"])
async def test_the_tools_are_read_again(upstream: Scripted, tmp_path: Path, how: str) -> None:
    async with corner(upstream, tmp_path) as ml:
        if how == "list_changed":
            await ml.create()
            get = await upstream.get_stream()
            await get.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            await get.send({"jsonrpc": "2.0", "id": "heard", "method": "ping"})
            await upstream.response_to("heard")
        else:
            upstream.once("tools/call", Error(-32602, "tool does not support tasks"))
            assert (await ml.client.call("run")).error["code"] == -32602
        upstream.on("tools/list", {"tools": [tool("run", "forbidden")]})
        upstream.once("tools/call", text("done"))
        assert (await ml.client.call("run")).result["resultType"] == "complete"
    assert len(upstream.seen("tools/list")) == 2
    assert "task" not in upstream.seen("tools/call")[-1].params


@pytest.mark.rule("ML-CREATE-REPLY", "HUB-6", "HUB-7")
@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({"ttl": 60_000, "pollInterval": 500}, {"ttlMs": 60_000, "pollIntervalMs": 500}),
        ({"ttl": None}, {"ttlMs": None}),
        ({"ttl": 1500.9, "pollInterval": 0.2}, {"ttlMs": 1500, "pollIntervalMs": 1}),
        ({"ttl": -1, "pollInterval": 0}, {"ttlMs": -1}),
        ({"pollInterval": None}, {"ttlMs": None}),
    ],
)
async def test_the_reply_is_the_flat_task(
    upstream: Scripted, tmp_path: Path, given: dict[str, Any], shown: dict[str, Any]
) -> None:
    made = {**task(), **given}
    if "ttl" not in given:
        del made["ttl"]
    upstream.on("tools/call", {"task": made, "_meta": {"x.example/y": 1}})
    async with corner(upstream, tmp_path) as ml:
        reply = await ml.client.call("run")
    assert reply.result == {
        "resultType": "task",
        "taskId": "task-1",
        "status": "working",
        "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:01Z",
        "_meta": {"x.example/y": 1},
        **shown,
    }


@pytest.mark.rule("HUB-6")
async def test_a_server_without_times_gets_the_shims(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tools/call", {"task": {"taskId": "task-1", "status": "working"}})
    async with corner(upstream, tmp_path) as ml:
        reply = await ml.client.call("run")
    assert reply.result["createdAt"] == reply.result["lastUpdatedAt"] == "2027-01-15T08:00:00.000Z"


@pytest.mark.rule("ML-CREATE-REPLY", "DUR-1")
async def test_the_row_is_committed_before_the_reply(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        committed = ml.app.ledger.create_task
        order: list[str] = []

        async def create_task(new: Any) -> Any:
            row = await committed(new)
            order.append("committed")
            return row

        ml.app.ledger.create_task = create_task  # type: ignore[method-assign]
        await ml.create()
        order.append("replied")
    assert order == ["committed", "replied"]


@pytest.mark.rule("ML-CREATE-REPLY")
async def test_an_answer_at_once_is_complete(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tools/call", text("done"))
    async with corner(upstream, tmp_path) as ml:
        reply = await ml.client.call("run")
    assert reply.result["resultType"] == "complete"
    assert reply.result["content"] == text("done")["content"]


@pytest.mark.rule("OWN-ID-MAP")
async def test_a_task_id_that_is_taken_gets_a_minted_one(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        first = await ml.create("task-1")
        second = await ml.create("task-1")
        upstream.on("tasks/get", lambda seen: task("task-1", statusMessage=seen.session))
        seen = [(await ml.get(one)) for one in (first, second)]
    assert first == "task-1"
    assert second.startswith("ts-")
    assert [one["taskId"] for one in seen] == [first, second]
    assert seen[0]["statusMessage"] != seen[1]["statusMessage"]


@pytest.mark.rule("ML-UNDECLARED")
async def test_a_required_tool_needs_the_extension(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path, client={"tasks": False}) as ml:
        reply = await ml.client.call("must")
    assert reply.status == 400
    assert reply.error["code"] == -32021
    assert reply.error["data"]["requiredCapabilities"]["extensions"] == {TASKS_EXTENSION: {}}
    assert upstream.seen("tools/call") == []


@pytest.mark.rule("ML-UNDECLARED")
async def test_an_optional_tool_is_called_plain(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tools/call", text("done"))
    async with corner(upstream, tmp_path, client={"tasks": False}) as ml:
        assert (await ml.client.call("run")).result["resultType"] == "complete"
    assert "task" not in upstream.seen("tools/call")[0].params


@pytest.mark.rule("ML-UNDECLARED")
@pytest.mark.parametrize("verb", ["get", "update", "cancel"])
async def test_task_methods_need_the_extension(upstream: Scripted, tmp_path: Path, verb: str) -> None:
    async with corner(upstream, tmp_path, client={"tasks": False}) as ml:
        reply = await ml.client.tasks(verb, "task-1", inputResponses={})
    assert (reply.status, reply.error["code"]) == (400, -32021)


@pytest.mark.rule("ML-UNDECLARED")
@pytest.mark.parametrize(
    ("ended", "result", "outcome"),
    [
        ("completed", text("done"), {"resultType": "complete", **text("done")}),
        ("failed", Error(-32000, "broken"), {"code": -32000, "message": "broken"}),
        ("cancelled", Error(-32603), {"code": -32603, "message": "task was cancelled"}),
    ],
)
async def test_the_shim_waits_where_the_policy_says_so(
    upstream: Scripted, tmp_path: Path, ended: str, result: Any, outcome: dict[str, Any]
) -> None:
    upstream.on("tools/call", {"task": task()})
    upstream.on("tasks/get", task(status=ended))
    upstream.on("tasks/result", result)
    async with corner(upstream, tmp_path, client={"tasks": False}, tasks={"undeclared": "wait"}) as ml:
        reply = await ml.client.call("must")
    said = reply.json.get("result") or reply.json["error"]
    said.pop("_meta", None)
    assert said == outcome


@pytest.mark.rule("HUB-5")
async def test_payloads_cross_as_they_are(upstream: Scripted, tmp_path: Path) -> None:
    slices = b'{"big":9007199254740993,"dec":1.10,"neg":-0,"half":"\\ud800","more":{"task":1,"ttl":2}}'

    def result(seen: Seen) -> Raw:
        head = f'{{"jsonrpc":"2.0","id":{json.dumps(seen.id)},"result":'.encode()
        return Raw(head + b'{"content":[],"structuredContent":' + slices + b',"new":' + slices + b"}}")

    async with corner(upstream, tmp_path) as ml:
        for name in ("plain", "run"):
            upstream.once("tools/call", result if name == "plain" else {"task": task()})
            message = ml.client.build("tools/call", {"name": name, "arguments": "SLICES"}, id=1)
            body = json.dumps(message).encode().replace(b'"SLICES"', slices)
            reply = await ml.client.post(body, headers=ml.client.own_headers(message))
            assert slices in upstream.seen("tools/call")[-1].body
        upstream.on("tasks/get", task(status="completed"))
        upstream.on("tasks/result", result)
        ml.clock.advance(1_001)
        ended = await ml.client.tasks("get", "task-1")
    assert reply.result["resultType"] == "task"
    assert ended.body.count(slices) == 2


@pytest.mark.rule("HUB-5")
@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
async def test_what_is_no_json_is_refused(upstream: Scripted, tmp_path: Path, value: str) -> None:
    def broken(seen: Seen) -> Raw:
        return Raw(f'{{"jsonrpc":"2.0","id":{json.dumps(seen.id)},"result":{{"content":[],"x":{value}}}}}')

    upstream.on("tools/call", broken)
    async with corner(upstream, tmp_path) as ml:
        message = ml.client.build("tools/call", {"name": "plain", "arguments": {"x": 77}}, id=1)
        body = json.dumps(message).encode().replace(b"77", value.encode())
        from_client = await ml.client.post(body, headers=ml.client.own_headers(message))
        from_upstream = await ml.client.call("plain")
    assert from_client.error["code"] == -32700
    assert from_upstream.error["code"] == -32603
    assert len(upstream.seen("tools/call")) == 1


@pytest.mark.rule("HUB-4")
async def test_an_unknown_state_is_an_error(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task(status="dreaming"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        reply = await ml.client.tasks("get", "task-1")
    assert reply.error["code"] == -32603
    assert ml.events("upstream.invalid")
