"""ML-INPUT, ML-UPDATE, ML-PROGRESS, ML-DISCOVER, ML-TOOLS: the exact shapes a modern client meets."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.client import RELATED_TASK, TASKS_EXTENSION
from tests.corners.ml import about, corner
from tests.scripted import Error, Scripted, task, text, tool

ACK = {"resultType": "complete"}
SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
RELATED = {"_meta": {RELATED_TASK: {"taskId": "task-1"}}}
SAMPLING = {"messages": [{"role": "user", "content": {"type": "text", "text": "hm?"}}], "maxTokens": 9}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "ah"}, "model": "m"}
ROOTS = {"roots": [{"uri": "file:///a", "name": "a"}]}
FORM = {"message": "sure?", "requestedSchema": {"type": "object", "properties": {}}}


def progress(token: Any, message: str, **params: Any) -> dict[str, Any]:
    """A progress notification."""
    said = {"progressToken": token, "progress": 1, "message": message, **params}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": said}


@pytest.mark.rule("ML-INPUT", "ML-UPDATE")
@pytest.mark.parametrize(
    ("method", "params", "key", "answer", "delivered", "lenient"),
    [
        ("sampling/createMessage", SAMPLING, "sampling-1", SAMPLED, SAMPLED, 0),
        ("roots/list", {}, "roots-1", ROOTS, ROOTS, 0),
        ("elicitation/create", FORM, "elicitation-1", {"action": "cancel"}, {"action": "cancel"}, 0),
        (
            "elicitation/create", FORM, "elicitation-1", {"confirm": True},
            {"action": "accept", "content": {"confirm": True}}, 1,
        ),
        ("elicitation/create", FORM, "elicitation-1", {}, {"action": "accept", "content": {}}, 1),
    ],
)  # fmt: skip
async def test_each_kind_is_shown_and_its_answer_delivered(
    upstream: Scripted,
    tmp_path: Path,
    method: str,
    params: dict[str, Any],
    key: str,
    answer: dict[str, Any],
    delivered: dict[str, Any],
    lenient: int,
) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        question = {"jsonrpc": "2.0", "id": 4, "method": method, "params": {**params, **about("task-1")}}
        await (await upstream.get_stream()).send(question)
        shown = await ml.until("task-1", "input_required")
        assert shown["inputRequests"] == {key: {"method": method, "params": params}}
        reply = await ml.client.tasks("update", "task-1", inputResponses={key: answer})
        assert (await upstream.response_to(4)).message["result"] == {**delivered, **RELATED}
    assert reply.result == ACK
    events = ml.events("lenient")
    assert [event["rule"] for event in events] == ["ML-UPDATE"] * lenient


@pytest.mark.rule("ML-UPDATE")
@pytest.mark.parametrize("kind", ["sampling", "roots"])
async def test_a_kind_that_was_not_declared_is_refused(upstream: Scripted, tmp_path: Path, kind: str) -> None:
    method = {"sampling": "sampling/createMessage", "roots": "roots/list"}[kind]
    upstream.on("tasks/get", task())
    async with corner(upstream, tmp_path, client={"capabilities": {"elicitation": {}}}) as ml:
        await ml.create()
        question = {"jsonrpc": "2.0", "id": 4, "method": method, "params": about("task-1")}
        await (await upstream.get_stream()).send(question)
        assert (await upstream.response_to(4)).message["error"]["code"] == -32601
        assert (await ml.get())["status"] == "working"
    assert [event["field"] for event in ml.events("loss")] == [kind]


@pytest.mark.rule("ML-PROGRESS")
async def test_progress_after_the_handle_is_the_status_message(upstream: Scripted, tmp_path: Path) -> None:
    create = upstream.stream("tools/call")
    upstream.on("tasks/get", task())
    async with corner(upstream, tmp_path) as ml:
        calling = asyncio.create_task(ml.client.call("run", meta={"progressToken": 7}))
        token = (await create.opened()).params["_meta"]["progressToken"]
        await create.send(progress(token, "before"))
        await create.result({"task": task()})
        said, answer = (await calling).messages
        assert said["params"] == progress(7, "before")["params"]
        assert answer["result"]["resultType"] == "task"
        get = await upstream.get_stream()
        await get.send(progress(token, "half"))
        while (seen := await ml.get()).get("statusMessage") != "half":
            pass
        assert seen["status"] == "working"
        assert (await ml.get())["statusMessage"] == "half"
        await get.send(progress("unknown", "more", **about("task-1")))
        while (await ml.get())["statusMessage"] != "more":
            pass

        upstream.on("tasks/get", task(statusMessage="my own words"))
        assert (await ml.get())["statusMessage"] == "my own words"
        await get.send(progress(token, "ignored"))
        await get.send({"jsonrpc": "2.0", "id": "heard", "method": "ping"})
        await upstream.response_to("heard")
        assert (await ml.client.tasks("get", "task-1")).result["statusMessage"] == "my own words"
        upstream.on("tasks/get", task(status="cancelled"))
        assert (await ml.get())["status"] == "cancelled"


@pytest.mark.rule("ML-PROGRESS")
async def test_progress_finds_its_task_by_the_token_of_its_create(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", lambda seen: task(seen.params["taskId"]))
    async with corner(upstream, tmp_path, tasks={"tasks_per_session": 3}) as ml:
        for number in (1, 2, 3):
            upstream.once("tools/call", {"task": task(f"task-{number}")})
            await ml.client.call("run", meta={"progressToken": 7})
        tokens = [seen.params["_meta"]["progressToken"] for seen in upstream.seen("tools/call")]
        get = await upstream.get_stream()
        await get.send(progress(tokens[0], "first"))
        await get.send(progress(tokens[2], "third"))
        await get.send(progress("unknown", "nobody's"))
        for number, message in ((3, "third"), (1, "first")):
            while (await ml.get(f"task-{number}")).get("statusMessage") != message:
                pass
        assert "statusMessage" not in await ml.get("task-2")
    assert len(set(tokens)) == 3


@pytest.mark.rule("ML-DISCOVER", "KEYS")
@pytest.mark.parametrize(
    ("capabilities", "extra", "shown"),
    [
        (
            {"tools": {"listChanged": True}, "tasks": {"requests": {"tools": {"call": {}}}}},
            {"instructions": "be nice"},
            {"tools": {"listChanged": True}, "extensions": {TASKS_EXTENSION: {}}},
        ),
        ({"tools": {}, "tasks": {"list": {}, "cancel": {}}}, {}, {"tools": {}}),
        ({"prompts": {}, "experimental": {"x": 1}}, {}, {"prompts": {}, "experimental": {"x": 1}}),
    ],
)
async def test_discover_is_exactly_this(
    upstream: Scripted,
    tmp_path: Path,
    capabilities: dict[str, Any],
    extra: dict[str, Any],
    shown: dict[str, Any],
) -> None:
    upstream.init_result = {**upstream.init_result, "capabilities": capabilities, **extra}
    async with corner(upstream, tmp_path) as ml:
        result = (await ml.client.request("server/discover")).result
    assert result == {
        **ACK,
        "supportedVersions": ["2026-07-28"],
        "capabilities": shown,
        "_meta": SERVER,
        "ttlMs": 0,
        "cacheScope": "private",
        **extra,
    }


@pytest.mark.rule("ML-TOOLS", "KEYS")
async def test_tools_list_is_exactly_this(upstream: Scripted, tmp_path: Path) -> None:
    tools = [
        tool("z", "required", title="Z", annotations={"readOnlyHint": True}, _meta={"x": 1}),
        tool("a", outputSchema={"type": "object", "properties": {"execution": {}}}),
        {**tool("m", "optional"), "execution": {"taskSupport": "optional", "new": 1}},
    ]
    listed = {"tools": tools, "nextCursor": "more", "_meta": {"y": 2}, "ttlMs": 5, "resultType": "odd"}
    async with corner(upstream, tmp_path, tools=listed) as ml:
        result = (await ml.client.request("tools/list", {"cursor": "c"})).result
    assert upstream.seen("tools/list")[-1].params == {"cursor": "c"}
    plain = [{key: value for key, value in one.items() if key != "execution"} for one in tools]
    assert result == {
        **ACK, "tools": plain, "nextCursor": "more", "_meta": {"y": 2, **SERVER}, "ttlMs": 0,
        "cacheScope": "private",
    }  # fmt: skip
    assert [one["name"] for one in result["tools"]] == ["z", "a", "m"]


@pytest.mark.rule("ML-TOOLS", "ERRORS")
async def test_an_error_of_the_list_is_passed_on(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        upstream.on("tools/list", Error(-32050, "no list today", {"why": 1}))
        reply = await ml.client.request("tools/list")
        upstream.on("prompts/get", text("x"))
    assert reply.error == {"code": -32050, "message": "no list today", "data": {"why": 1}}
