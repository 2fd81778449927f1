"""KEYS, ERA-DETECT: what is one era's stays there; what only looks like it, in a payload, passes."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from shim.wire.envelope import LEGACY_ONLY_KEYS, MODERN_ONLY_KEYS, RELATED_TASK
from tests.client import LegacyClient, ModernClient
from tests.corners.ml import ALICE
from tests.corners.test_strangers import house
from tests.planted import arguments
from tests.scripted import Raw, Scripted, task, text

EVERY_KEY: dict[str, Any] = {
    **{key: {"kept": key} for key in sorted(MODERN_ONLY_KEYS | LEGACY_ONLY_KEYS)},
    "resultType": "task",
    "taskId": "inner",
    "status": "working",
    "_meta": {RELATED_TASK: {"taskId": "inner"}, "progressToken": 1},
    "inputRequests": {"k": {"method": "elicitation/create"}},
}
RESULT: dict[str, Any] = {
    "content": [{"type": "text", "text": "t", "_meta": EVERY_KEY, "execution": 1, "ttl": 2}],
    "structuredContent": EVERY_KEY,
    "isError": False,
}


def envelope_keys(message: Any) -> Iterator[str]:
    """Every key of a message that is not in a payload."""
    for key, value in message.items():
        yield key
        if isinstance(value, dict) and key not in {"arguments", "structuredContent", "inputSchema"}:
            yield from envelope_keys(value)


async def ended(upstream: Scripted, client: Any, how: str) -> tuple[Any, list[Any]]:
    """Run a tool the client's own way; gives its result and all that the client was told."""
    upstream.on("tools/call", {"task": task("task-1"), "_meta": {RELATED_TASK: {"taskId": "task-1"}}})
    upstream.on("tasks/get", task("task-1", "completed", pollInterval=5))
    upstream.on("tasks/result", {**RESULT, "_meta": {RELATED_TASK: {"taskId": "task-1"}}})
    given = arguments({"v": EVERY_KEY, **EVERY_KEY})
    if how == "modern":
        made = await client.call("run", given)
        got = await client.tasks("get", made.result["taskId"])
        return got.result["result"], [made.json, got.json]
    if how == "legacy":
        made = await client.call("run", given, task={})
        got = await client.tasks("get", "task-1")
        answer = await client.tasks("result", "task-1")
        return answer.result, [made.json, got.json, answer.json]
    made = await client.request("tasks/create", {"name": "run", "arguments": given})
    got = await client.tasks("status", "task-1")
    answer = await client.tasks("result", "task-1")
    return answer.result, [made.json, got.json, answer.json]


@pytest.mark.rule("KEYS", "HUB-5")
@pytest.mark.parametrize("how", ["modern", "legacy", "four-state"])
async def test_payloads_keep_keys_that_envelopes_may_not_have(
    upstream: Scripted, tmp_path: Path, how: str
) -> None:
    async with house(upstream, tmp_path, "experimental") as at:
        if how == "modern":
            client: ModernClient | LegacyClient = await at.modern(ALICE)
        else:
            client = await at.seated(ALICE, "/create-status" if how == "four-state" else "/mcp")
        result, said = await ended(upstream, client, how)
        asked = upstream.seen("tools/call")[0]
    assert asked.params["arguments"] == arguments({"v": EVERY_KEY, **EVERY_KEY})
    assert {key: result[key] for key in RESULT} == RESULT
    foreign = LEGACY_ONLY_KEYS if how == "modern" else MODERN_ONLY_KEYS
    for message in said:
        assert not set(envelope_keys(message)) & foreign, message
    assert not set(envelope_keys(asked.message)) & MODERN_ONLY_KEYS
    assert {key.lower() for key in asked.headers} & {"mcp-method", "mcp-name"} == set()


@pytest.mark.rule("KEYS", "HUB-5")
@pytest.mark.parametrize("how", ["modern", "legacy"])
async def test_a_plain_call(upstream: Scripted, tmp_path: Path, how: str) -> None:
    modern_ones = {"ttlMs": 1, "cacheScope": "public", "requestState": "s", "inputRequests": {}}
    async with house(upstream, tmp_path, "experimental") as at:
        upstream.on("tools/list", {"tools": []})
        upstream.on("tools/call", {**RESULT, **modern_ones, "x": EVERY_KEY})
        client: Any = await (at.modern(ALICE) if how == "modern" else at.seated(ALICE))
        reply = await client.call("plain", EVERY_KEY)
    assert {key: reply.result[key] for key in (*RESULT, "x")} == {**RESULT, "x": EVERY_KEY}
    if how == "modern":
        assert reply.result["resultType"] == "complete"
        assert not {"ttlMs", "cacheScope", "requestState", "inputRequests"} & reply.result.keys()
        assert "Mcp-Session-Id" not in reply.headers


META = ModernClient("").meta()
PINNED: list[tuple[str, str, dict[str, Any] | None, dict[str, str], int, int | None]] = [
    ("/modern", "initialize", {"protocolVersion": "2025-11-25"}, {}, 400, -32602),
    ("/modern", "ping", {}, {"Mcp-Session-Id": "s"}, 400, -32602),
    ("/modern", "tools/call", {"name": "run", "task": {}}, {}, 400, -32602),
    ("/modern", "tasks/create", {"name": "run"}, {}, 400, -32602),
    ("/modern", "GET", None, {}, 405, -32601),
    ("/modern", "DELETE", None, {"Mcp-Session-Id": "s"}, 405, -32601),
    ("/legacy", "DELETE", None, {"Mcp-Session-Id": "s"}, 404, -32600),
    ("/create-status", "GET", None, {"Mcp-Session-Id": "s"}, 404, -32600),
    ("/create-status", "tasks/get", {"taskId": "t", "_meta": META}, {}, 200, -32601),
    ("/legacy", "tasks/update", {"taskId": "t", "_meta": META}, {}, 200, -32601),
    ("/create-status", "tasks/status", {"taskId": "t"}, {}, 200, -32602),
    ("/elsewhere", "ping", {}, {}, 404, -32601),
]


@pytest.mark.rule("ERA-DETECT", "VALIDATE")
@pytest.mark.parametrize(("path", "method", "params", "headers", "status", "code"), PINNED)
async def test_a_pinned_address_takes_its_era_alone(
    upstream: Scripted, tmp_path: Path, path: str, method: str, params: Any, headers: dict[str, str],
    status: int, code: int | None,
) -> None:  # fmt: skip
    async with house(upstream, tmp_path, "experimental") as at, LegacyClient(at.app.url) as client:
        url = at.app.url.replace("/mcp", path)
        if params is None:
            reply = await client.send(None, http_method=method, url=url, headers=headers)
        else:
            reply = await client.request(method, params, url=url, headers=headers)
        assert (reply.status, reply.error["code"]) == (status, code), reply.body
        assert upstream.requests == []


@pytest.mark.rule("ERA-DETECT")
@pytest.mark.parametrize("method", ["server/discover", "tools/list"])
async def test_a_modern_client_at_the_legacy_address_hears_what_a_legacy_server_says(
    upstream: Scripted, tmp_path: Path, method: str
) -> None:
    async with house(upstream, tmp_path, "experimental") as at, ModernClient(at.app.url) as client:
        reply = await client.request(method, {}, url=at.app.url.replace("/mcp", "/legacy"))
        assert (reply.status, reply.error["message"]) == (400, "Missing session ID")


@pytest.mark.rule("SSE")
async def test_a_frame_over_the_limit_fails_its_request_alone(upstream: Scripted, tmp_path: Path) -> None:
    async with house(upstream, tmp_path, "experimental", limits={"frame_bytes": 4096}) as at:
        one, other = await at.modern(ALICE), await at.modern(ALICE)
        upstream.on("tools/list", {"tools": []})
        waiting = upstream.stream("tools/call")
        call = asyncio.create_task(other.call("plain"))
        await waiting.opened()
        big = b'data: {"x":"' + b"x" * 5_000 + b'"}\n\n'
        upstream.on("tools/call", Raw(big, 200, {"Content-Type": "text/event-stream"}))
        assert (await one.call("plain")).error["code"] == -32603
        assert waiting.is_open
        await waiting.result(text("fine"))
        assert (await call).result["content"][0]["text"] == "fine"
