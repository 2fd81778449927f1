"""VALIDATE: JSON allows a lone surrogate in any string; where the shim keeps one it is no surprise to it."""

from pathlib import Path

import pytest

from tests.client import LegacyClient
from tests.corners.ml import corner
from tests.scripted import Scripted, task

CLIENT = b'"io.modelcontextprotocol/clientInfo":{"name":"\\ud800","version":"\\ud800"},'
LEAST = (
    b'"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}'
)


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(
    ("method", "params", "meta", "code"),
    [
        ("tools/call", b'"name":"run"', CLIENT, None),
        ("tools/call", b'"name":"run"', b'"io.taskshim/idempotencyKey":"\\ud800",', None),
        ("tools/call", b'"name":"run"', b'"progressToken":"\\ud800",', None),
        ("tasks/get", b'"taskId":"\\ud800"', b"", -32602),
        ("tasks/cancel", b'"taskId":"\\ud800"', b"", -32602),
        ("tasks/update", b'"taskId":"\\ud800","inputResponses":{"\\ud800":{}}', b"", -32602),
    ],
)
async def test_a_modern_client(
    upstream: Scripted, tmp_path: Path, method: str, params: bytes, meta: bytes, code: int | None
) -> None:
    upstream.on("tools/call", {"task": task("task-1")})
    body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{%b,"_meta":{%b%b}}}'
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Authorization": "Bearer alice"}
    if method == "tools/call":
        headers["Mcp-Name"] = "run"
    async with corner(upstream, tmp_path) as ml:
        reply = await ml.client.send(body % (method.encode(), params, meta, LEAST), headers=headers)
    assert reply.status == (400 if code else 200)
    assert (reply.error["code"] if code else reply.result["resultType"]) == (code or "task")


@pytest.mark.rule("VALIDATE", "LL-RECORD")
async def test_a_legacy_client(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tools/call", {"task": task("task-1")})
    upstream.on("tasks/get", task("task-1"))
    hello = b'"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"\\ud800","version":"1"}'
    ask = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{%b}}'
    async with corner(upstream, tmp_path) as ml, LegacyClient(ml.app.url) as client:
        greeted = await client.send(ask % (b"initialize", hello))
        headers = {"Mcp-Session-Id": greeted.headers["Mcp-Session-Id"]}
        made = await client.send(ask % (b"tools/call", b'"name":"\\ud800","task":{}'), headers=headers)
        seen = await client.send(ask % (b"tasks/get", b'"taskId":"task-1"'), headers=headers)
        missed = await client.send(ask % (b"tasks/get", b'"taskId":"\\ud800"'), headers=headers)
    assert made.result["task"]["taskId"] == seen.result["taskId"] == "task-1"
    assert missed.error["code"] == -32602
    assert upstream.seen("tools/call")[0].params["name"] == "\ud800"
