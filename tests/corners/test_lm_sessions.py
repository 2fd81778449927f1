"""LM-INIT, LM-META, LM-TOOLS, LM-LOCAL: the shim is the server of a legacy client's session."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.client import LEGACY, META_CAPABILITIES, META_CLIENT_INFO, META_VERSION, MODERN, TASKS_EXTENSION
from tests.corners.lm import BOB, DISCOVER, SERVER_INFO, TOOLS, WITHOUT_TASKS, corner
from tests.corners.ml import ALICE
from tests.models import check_legacy, check_modern
from tests.scripted import Error, Scripted, text

TASKS: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
META_LOG_LEVEL = "io.modelcontextprotocol/logLevel"
UNSEEN = "00000000-0000-4000-8000-000000000000"


@pytest.mark.rule("LM-INIT")
@pytest.mark.parametrize(
    ("asked", "given"),
    [(LEGACY, LEGACY), ("2025-06-18", "2025-06-18"), ("1999-01-01", LEGACY), (MODERN, LEGACY)],
)
async def test_initialize_is_answered_from_discover(
    modern_upstream: Scripted, tmp_path: Path, asked: str, given: str
) -> None:
    async with corner(modern_upstream, tmp_path, client={"version": asked}, session=False) as lm:
        reply = await lm.client.initialize(notify=False)
        again = await lm.client.initialize(notify=False)
    tasks = {"tasks": TASKS} if given == LEGACY else {}
    assert reply.result == {
        "protocolVersion": given,
        "capabilities": {
            "tools": {"listChanged": True}, "logging": {}, "resources": {"subscribe": True}, **tasks
        },
        "serverInfo": SERVER_INFO,
        "instructions": "Be brief.",
    }  # fmt: skip
    check_legacy("InitializeResult", reply.result)
    assert reply.headers["Mcp-Session-Id"] != again.headers["Mcp-Session-Id"]
    assert {seen.method for seen in modern_upstream.requests} == {"server/discover"}
    assert [event["side"] for event in lm.events("session.opened")] == ["client", "client"]


@pytest.mark.rule("LM-INIT", "LM-TOOLS")
async def test_a_server_without_the_extension_offers_no_tasks(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on("server/discover", WITHOUT_TASKS)
    async with corner(modern_upstream, tmp_path, session=False) as lm:
        reply = await lm.client.initialize()
        listed = await lm.client.request("tools/list")
    assert reply.result["capabilities"] == {"tools": {}}
    assert listed.result == {"tools": TOOLS["tools"]}


@pytest.mark.rule("LM-INIT")
async def test_a_server_that_gives_no_name_has_the_upstreams(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on("server/discover", {**DISCOVER, "_meta": {}})
    async with corner(modern_upstream, tmp_path, session=False) as lm:
        reply = await lm.client.initialize()
    assert reply.result["serverInfo"] == {"name": "main", "version": "0"}


@pytest.mark.rule("LM-INIT")
async def test_an_upstream_that_cannot_be_asked_opens_no_session(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on("server/discover", Error(-32603, "down"))
    async with corner(modern_upstream, tmp_path, session=False) as lm:
        reply = await lm.client.initialize()
    assert reply.error["code"] == -32603
    assert "Mcp-Session-Id" not in reply.headers
    assert lm.events("session.opened") == []


@pytest.mark.rule("LM-INIT", "OWN-CHECK")
@pytest.mark.parametrize("http_method", ["POST", "GET", "DELETE"])
async def test_a_foreign_session_is_one_that_is_not_there(
    modern_upstream: Scripted, tmp_path: Path, http_method: str
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        bob = await lm.seated(BOB)
        body = (
            json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
            if http_method == "POST"
            else None
        )
        answers = []
        for session in (lm.client.session, UNSEEN):
            headers = {**BOB, "Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
            answers.append(await bob.send(body, http_method=http_method, headers=headers))
        assert (await lm.client.request("ping")).result == {}
    assert [answer.status for answer in answers] == [404, 404]
    assert answers[0].body == answers[1].body
    assert [event["reason"] for event in lm.events("denied")] == ["session_foreign", "unknown_session"]


@pytest.mark.rule("LM-META", "KEYS")
async def test_each_upstream_request_carries_the_clients_meta(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    declared: dict[str, Any] = {
        "elicitation": {"form": {}},
        "sampling": {"tools": {}},
        "tasks": {"list": {}},
        "experimental": {"x": {}},
    }
    modern_upstream.on("tools/call", text("ok"))
    client = {"capabilities": declared, "name": "old one"}
    async with corner(modern_upstream, tmp_path, client=client) as lm:
        await lm.client.request("logging/setLevel", {"level": "warning"})
        reply = await lm.client.request(
            "tools/call", {"name": "run", "_meta": {"x.example/trace": 7, "progressToken": "mine"}}
        )
        task_id = await lm.create()
        await lm.client.tasks("get", task_id)
        await lm.client.tasks("cancel", task_id)
    assert reply.result == text("ok")
    call = modern_upstream.seen("tools/call")[0]
    meta = dict(call.params["_meta"])
    token = meta.pop("progressToken")
    assert token != "mine"
    assert meta == {
        "x.example/trace": 7,
        META_VERSION: MODERN,
        META_CLIENT_INFO: {"name": "old one", "version": "1"},
        META_CAPABILITIES: {
            "elicitation": {"form": {}}, "sampling": {"tools": {}}, "extensions": {TASKS_EXTENSION: {}}
        },
        META_LOG_LEVEL: "warning",
    }  # fmt: skip
    for seen in modern_upstream.requests:
        assert seen.headers["MCP-Protocol-Version"] == MODERN
        assert seen.headers["Mcp-Method"] == seen.method
        assert "Mcp-Session-Id" not in seen.headers
        assert seen.params["_meta"][META_VERSION] == MODERN
    names = {seen.method: seen.headers.get("Mcp-Name") for seen in modern_upstream.requests}
    assert names == {
        "server/discover": None, "tools/call": "run", "tasks/get": "task-1", "tasks/cancel": "task-1"
    }  # fmt: skip
    check_modern("CallToolRequest", {**call.message, "id": str(call.id)})


@pytest.mark.rule("LM-META")
@pytest.mark.parametrize(
    ("method", "params", "header"),
    [
        ("tools/call", {"name": "wörk"}, "=?base64?d8O2cms=?="),
        ("prompts/get", {"name": " blank"}, "=?base64?IGJsYW5r?="),
        ("resources/read", {"uri": "file:///a b"}, "file:///a b"),
        ("prompts/list", {}, None),
    ],
)
async def test_names_are_encoded_where_needed(
    modern_upstream: Scripted, tmp_path: Path, method: str, params: dict[str, Any], header: str | None
) -> None:
    modern_upstream.on(method, {"resultType": "complete"})
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.client.request(method, params)
    [seen] = modern_upstream.seen(method)
    assert seen.headers.get("Mcp-Name") == header


@pytest.mark.rule("LM-TOOLS")
async def test_every_tool_may_run_as_a_task(modern_upstream: Scripted, tmp_path: Path) -> None:
    modern_upstream.on(
        "tools/list", {**TOOLS, "nextCursor": "n", "_meta": {"x.example/a": 1, **DISCOVER["_meta"]}}
    )
    upstream = {"dialect": "sep-2663", "tool_support": {"oth*": "forbidden"}}
    async with corner(modern_upstream, tmp_path, upstream=upstream) as lm:
        reply = await lm.client.request("tools/list", {"cursor": "c"})
    support = {tool["name"]: tool["execution"]["taskSupport"] for tool in reply.result["tools"]}
    assert support == {"run": "optional", "other": "forbidden"}
    assert [tool["name"] for tool in reply.result["tools"]] == ["run", "other"]
    assert set(reply.result) == {"tools", "nextCursor", "_meta"}
    assert reply.result["_meta"] == {"x.example/a": 1}
    assert modern_upstream.seen("tools/list")[0].params["cursor"] == "c"
    check_legacy("ListToolsResult", reply.result)


@pytest.mark.rule("LM-TOOLS", "KEYS")
@pytest.mark.parametrize(
    ("method", "params", "payload"),
    [
        ("resources/list", {}, {"resources": []}),
        ("resources/templates/list", {}, {"resourceTemplates": []}),
        ("resources/read", {"uri": "a:b"}, {"contents": [{"uri": "a:b", "text": "ttlMs"}]}),
        ("prompts/list", {}, {"prompts": []}),
        ("prompts/get", {"name": "p"}, {"messages": []}),
        ("completion/complete", {"ref": {}, "argument": {}}, {"completion": {"values": []}}),
        ("tools/call", {"name": "run"}, text("x", structuredContent={"resultType": "mine", "ttlMs": 1})),
    ],
)
async def test_the_modern_envelope_is_taken_off(
    modern_upstream: Scripted, tmp_path: Path, method: str, params: dict[str, Any], payload: dict[str, Any]
) -> None:
    envelope = {"resultType": "complete", "ttlMs": 9, "cacheScope": "public", "_meta": DISCOVER["_meta"]}
    modern_upstream.on(method, {**payload, **envelope})
    async with corner(modern_upstream, tmp_path) as lm:
        reply = await lm.client.request(method, params)
    assert reply.result == payload


LOCAL: list[tuple[str, dict[str, Any] | None]] = [
    ("ping", None),
    ("logging/setLevel", {"level": "debug"}),
    ("resources/subscribe", {"uri": "file:///a"}),
    ("resources/unsubscribe", {"uri": "file:///a"}),
]


@pytest.mark.rule("LM-LOCAL")
@pytest.mark.parametrize(("method", "params"), LOCAL)
async def test_what_the_shim_answers_itself(
    modern_upstream: Scripted, tmp_path: Path, method: str, params: dict[str, Any] | None
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        reply = await lm.client.request(method, params)
        assert reply.result == {}
        if params is not None:
            assert (await lm.client.request(method, {})).error["code"] == -32602
    assert modern_upstream.seen(method) == []


@pytest.mark.rule("LM-LOCAL")
async def test_delete_ends_the_session(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        async with lm.client.get() as stream:
            assert (await lm.client.delete()).status == 200
            assert await stream.rest() == []
        gone = [await lm.client.request("ping"), await lm.client.delete()]
    assert [reply.status for reply in gone] == [404, 404]
    assert modern_upstream.seen("DELETE") == []
    assert [event["reason"] for event in lm.events("session.closed")] == ["delete"]


@pytest.mark.rule("LM-LOCAL")
@pytest.mark.parametrize("value", [[1, 2], "text", 7, None, True])
async def test_structured_content_that_is_no_object_is_dropped(
    modern_upstream: Scripted, tmp_path: Path, value: Any
) -> None:
    modern_upstream.on("tools/call", {"resultType": "complete", **text("kept", structuredContent=value)})
    async with corner(modern_upstream, tmp_path) as lm:
        reply = await lm.client.call("run")
    assert reply.result == text("kept")
    check_legacy("CallToolResult", reply.result)
    [loss] = lm.events("loss")
    assert (loss["rule"], loss["field"]) == ("LM-LOCAL", "structuredContent")


@pytest.mark.rule("LM-LOCAL")
@pytest.mark.parametrize(
    ("method", "params", "error", "code"),
    [
        ("resources/read", {"uri": "a:b"}, Error(-32602, "gone", {"uri": "a:b"}), -32002),
        ("resources/read", {"uri": "a:b"}, Error(-32602, "bad"), -32602),
        ("resources/read", {"uri": "a:b"}, Error(-32602, "bad", {"x": 1}), -32602),
        ("prompts/get", {"name": "p"}, Error(-32602, "bad", {"uri": "a:b"}), -32602),
    ],
)
async def test_a_missing_resource_has_its_old_code(
    modern_upstream: Scripted, tmp_path: Path, method: str, params: dict[str, Any], error: Error, code: int
) -> None:
    modern_upstream.on(method, error)
    async with corner(modern_upstream, tmp_path) as lm:
        reply = await lm.client.request(method, params)
    expected = {"code": code, "message": error.message}
    assert reply.error == (expected if error.data is None else {**expected, "data": error.data})


@pytest.mark.rule("LM-LOCAL")
@pytest.mark.parametrize("method", ["server/discover", "subscriptions/listen", "tasks/update", "nonsense"])
async def test_what_a_legacy_client_does_not_have(
    modern_upstream: Scripted, tmp_path: Path, method: str
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        before = len(modern_upstream.requests)
        reply = await lm.client.request(method, {"taskId": "x"})
    assert reply.error["code"] == -32601
    assert len(modern_upstream.requests) == before


@pytest.mark.rule("LM-INIT", "CS-DETECT")
async def test_a_client_without_a_session_is_served_too(modern_upstream: Scripted, tmp_path: Path) -> None:
    modern_upstream.on("tools/call", text("ok"))
    async with corner(modern_upstream, tmp_path, session=False) as lm:
        assert (await lm.client.call("run")).result == text("ok")
        task_id = await lm.create()
        assert (await lm.client.tasks("get", task_id)).result["status"] == "working"
        stream = await lm.client.send(
            None, http_method="GET", headers={**ALICE, "Accept": "text/event-stream"}
        )
        answer = await lm.client.respond("ts-1-1", {"action": "accept"})
    assert [stream.status, answer.status] == [404, 404]
    meta = modern_upstream.seen("tools/call")[0].params["_meta"]
    assert meta[META_CAPABILITIES] == {"elicitation": {}, "extensions": {TASKS_EXTENSION: {}}}
