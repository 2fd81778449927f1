"""VALIDATE on the client's side of the wire: depth, headers, and connections that end in the middle."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import LegacyClient, ModernClient, mcp_name
from tests.corners.raw import Wire, post, wire
from tests.scripted import Scripted, task, text, tool
from tests.shim import config_for

DEEP = 100_000
ARRAY = b"[" * DEEP + b"]" * DEEP
OBJECT = b'{"a":' * DEEP + b"1" + b"}" * DEEP


@pytest.fixture
async def app(upstream: Scripted, tmp_path: Path) -> AsyncIterator[App]:
    upstream.on("tools/list", {"tools": [tool("run", "optional"), tool("plain", "forbidden")]})
    upstream.on("tools/call", text("fine"))
    limits = {"body_bytes": 2_000_000, "frame_bytes": 2_000_000, "header_bytes": 8192}
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"}, limits=limits)
    async with running(config) as app:
        yield app


@pytest.fixture
async def client(app: App) -> AsyncIterator[ModernClient]:
    async with ModernClient(app.url) as client:
        yield client


@pytest.fixture(autouse=True)
def _no_stray_exception(caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]) -> Any:
    yield
    said = capsys.readouterr()
    for fault in ("a request failed", "ledger cannot be used", "Traceback", "background work failed"):
        assert fault not in said.out + said.err + caplog.text


def modern(client: ModernClient, method: str = "tools/call", **params: Any) -> tuple[bytes, list[bytes]]:
    """A request and the headers that mirror it."""
    message = client.build(method, params, id=1)
    lines = [b"MCP-Protocol-Version: 2026-07-28", b"Mcp-Method: " + method.encode()]
    if (name := mcp_name(method, params)) is not None:
        lines.append(b"Mcp-Name: " + name.encode())
    return json.dumps(message).encode(), lines


async def still_serves(client: ModernClient) -> None:
    assert (await client.call("plain")).result["content"][0]["text"] == "fine"


PLACES: dict[str, bytes] = {
    "arguments": b'"arguments":{"v":@}',
    "all of arguments": b'"arguments":@',
    "a foreign param": b'"arguments":{},"x":@',
    "_meta": b'"_meta":{"x":@}',
    "all of _meta": b'"_meta":@',
    "id": b'"arguments":{}},"id":@,"params":{"name":"run"',
    "name": b'"name":@',
    "task": b'"task":@',
    "taskId": b'"taskId":@',
    "inputResponses": b'"taskId":"t","inputResponses":{"k":@}',
    "cursor": b'"cursor":@',
    "capabilities": b'"capabilities":@,"protocolVersion":"2025-11-25"',
}
METHODS = ["tools/call", "tools/list", "tasks/get", "tasks/update", "tasks/list", "initialize", "ping"]


@pytest.mark.rule("VALIDATE", "HUB-5")
@pytest.mark.parametrize("deep", [ARRAY, OBJECT], ids=["array", "object"])
@pytest.mark.parametrize("place", PLACES)
async def test_depth_in_a_request(
    upstream: Scripted, app: App, client: ModernClient, place: str, deep: bytes
) -> None:
    so_far = len(upstream.requests)
    for method in METHODS:
        params = PLACES[place].replace(b"@", deep)
        body = b'{"jsonrpc":"2.0","id":1,"method":"%b","params":{%b}}' % (method.encode(), params)
        for lines in ([], [b"MCP-Protocol-Version: 2026-07-28", b"Mcp-Method: " + method.encode()]):
            async with wire(app.url) as raw:
                await raw.send(post(body, *lines))
                answer = await raw.answer()
                assert (answer.status, json.loads(answer.body)["error"]["code"]) == (400, -32700)
    assert len(upstream.requests) == so_far
    await still_serves(client)


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_depth_in_an_answer_to_a_question(app: App, client: ModernClient, era: str) -> None:
    async with LegacyClient(app.url) as legacy:
        await legacy.initialize()
        body = b'{"jsonrpc":"2.0","id":1,"result":{"v":%b}}' % ARRAY
        headers = legacy.own_headers(None) if era == "legacy" else {"MCP-Protocol-Version": "2026-07-28"}
        reply = await legacy.send(body, headers=headers)
        assert (reply.status, reply.error["code"]) == (400, -32700)
    await still_serves(client)


HEADERS: dict[str, tuple[list[bytes], int, int | None]] = {
    "method twice alike": ([b"Mcp-Method: tools/call"], 200, None),
    "method twice": ([b"Mcp-Method: tools/list"], 400, -32020),
    "method twice, another case": ([b"MCP-METHOD: tools/list"], 400, -32020),
    "method as a list": ([b"Mcp-Method: tools/call, tools/list"], 400, -32020),
    "name twice": ([b"Mcp-Name: run"], 400, -32020),
    "name twice, once encoded": ([b"Mcp-Name: =?base64?cnVu?="], 400, -32020),
    "name twice alike, once encoded": ([b"Mcp-Name: =?base64?cGxhaW4=?="], 400, -32020),
    "version twice": ([b"MCP-Protocol-Version: 2025-11-25"], 400, -32020),
    "version twice, unknown": ([b"MCP-Protocol-Version: 2031-01-01"], 400, -32020),
    "version twice alike": ([b"MCP-Protocol-Version: 2026-07-28"], 200, None),
    "credential twice": ([b"Authorization: Bearer a", b"Authorization: Bearer b"], 401, -32600),
    "credential twice alike": ([b"Authorization: Bearer a", b"Authorization: Bearer a"], 200, None),
    "a session beside it": ([b"Mcp-Session-Id: s-1"], 200, None),
    "two sessions beside it": ([b"Mcp-Session-Id: s-1", b"Mcp-Session-Id: s-2"], 200, None),
    "two keys": ([b"Idempotency-Key: a", b"Idempotency-Key: b"], 400, -32602),
    "an empty key": ([b"Idempotency-Key: "], 400, -32602),
    "a long key": ([b"Idempotency-Key: " + b"k" * 257], 400, -32602),
    "two media types": ([b"Content-Type: text/plain"], 400, None),
    "two hosts": ([b"Host: evil.example"], 400, None),
    "two lengths": ([b"Content-Length: 3"], 400, None),
    "length and chunks": ([b"Transfer-Encoding: chunked"], 400, None),
    "long": ([b"X-Long: " + b"x" * 9_000], 400, None),
    "many": ([b"X-%d: 1" % n for n in range(200)], 400, None),
    "latin": ([b"Mcp-Name: pl\xe4in"], 400, -32020),
    "empty name": ([b": x"], 400, None),
    "a space in a name": ([b"X Y: 1"], 400, None),
    "NUL": ([b"X-Y: a\x00b"], 400, None),
    "an expectation": ([b"Expect: 100-continue"], 200, None),
    "another expectation": ([b"Expect: tea"], 417, -32600),
    "compressed": ([b"Content-Encoding: gzip"], 415, -32600),
    "an upgrade": ([b"Connection: Upgrade", b"Upgrade: websocket"], 200, None),
}


@pytest.mark.rule("VALIDATE", "HEADERS")
@pytest.mark.parametrize("case", HEADERS)
async def test_odd_headers(upstream: Scripted, app: App, client: ModernClient, case: str) -> None:
    extra, status, code = HEADERS[case]
    body, lines = modern(client, name="plain")
    async with wire(app.url) as raw:
        await raw.send(post(body, *lines, *extra))
        answer = await raw.answer()
        if case == "an expectation":
            assert answer.status == 100
            answer = await raw.answer()
    assert answer.status == status, answer
    if answer.headers.get("content-type", "").startswith("application/json"):
        assert json.loads(answer.body).get("error", {}).get("code") == code, answer
    else:
        assert code is None, answer
    assert len(upstream.seen("tools/call")) == (1 if (status, code) == (200, None) else 0)
    await still_serves(client)


@pytest.mark.rule("VALIDATE", "LL-OWN")
async def test_two_sessions_on_a_legacy_request(app: App) -> None:
    async with LegacyClient(app.url) as legacy:
        await legacy.initialize()
        session = (legacy.session or "").encode()
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        for other, status in ((session, 200), (b"other", 400)):
            async with wire(app.url) as raw:
                await raw.send(post(body, b"Mcp-Session-Id: " + session, b"Mcp-Session-Id: " + other))
                answer = await raw.answer()
                assert answer.status == status, answer


@pytest.mark.rule("VALIDATE", "ML-CLOSE")
@pytest.mark.parametrize("how", ["half", "cut"])
async def test_a_call_whose_client_closes_its_side_is_called_off(
    upstream: Scripted, app: App, client: ModernClient, how: str
) -> None:
    """A client that has closed its half cannot be told from one that has gone."""
    body, lines = modern(client, name="plain")
    stream = upstream.stream("tools/call")
    async with wire(app.url) as raw:
        await raw.send(post(body, *lines))
        seen = await stream.opened()
        await leave(raw, how)
        assert (await upstream.wait("notifications/cancelled")).params == {"requestId": seen.id}
        await stream.left()
    await still_serves(client)


async def leave(raw: Wire, how: str) -> None:
    if how == "cut":
        raw.abort()
    else:
        raw.half_close()
        assert await raw.reader.read() == b""


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize("how", ["half", "cut"])
@pytest.mark.parametrize("sent", [0, 10, 60, -1, -20])
async def test_a_request_that_ends_in_the_middle(
    upstream: Scripted, app: App, client: ModernClient, sent: int, how: str
) -> None:
    body, lines = modern(client, name="plain")
    whole = post(body, *lines)
    async with wire(app.url) as raw:
        await raw.send(whole[:sent])
        if how == "half":
            raw.half_close()
            said = await raw.reader.read()
            assert b" 500 " not in said[:20]
        else:
            raw.abort()
    await still_serves(client)
    assert len(upstream.seen("tools/call")) == 1


@pytest.mark.rule("VALIDATE", "ML-CLOSE")
@pytest.mark.parametrize("how", ["half", "cut"])
async def test_a_create_whose_client_is_gone_is_kept(upstream: Scripted, app: App, how: str) -> None:
    alice = {"Authorization": "Bearer alice"}
    async with ModernClient(app.url, headers=alice) as client:
        body, lines = modern(client, name="run")
        stream = upstream.stream("tools/call")
        async with wire(app.url) as raw:
            await raw.send(post(body, *lines, b"Authorization: Bearer alice"))
            await upstream.wait("tools/call")
            await leave(raw, how)
            await stream.result({"task": task("task-1")})
        upstream.on("tasks/get", task("task-1"))
        async with LegacyClient(app.url, headers=alice) as legacy:
            await legacy.initialize()
            listed: list[Any] = []
            while not listed:
                listed = (await legacy.request("tasks/list")).result["tasks"]
            assert [one["taskId"] for one in listed] == ["task-1"]
