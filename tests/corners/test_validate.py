"""Whatever a peer sends, the answer is a defined one, never a stray exception's (VALIDATE, ERRORS)."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import META_VERSION, ModernClient
from tests.scripted import Broken, Raw, Scripted, task, text, tool
from tests.shim import config_for

DEEP = 100_000
DIGITS = 5_000
WIDE = b",".join(b'"%x":1' % n for n in range(10_001))
"""More members than an object may have that is taken apart."""


@pytest.fixture
async def app(upstream: Scripted, tmp_path: Path) -> AsyncIterator[App]:
    upstream.on("tools/list", {"tools": [tool("run", "optional")]})
    sections: dict[str, Any] = {"limits": {"body_bytes": 1_000_000, "frame_bytes": 1_000_000}}
    async with running(
        config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"}, **sections)
    ) as app:
        yield app


@pytest.fixture
async def client(app: App) -> AsyncIterator[ModernClient]:
    async with ModernClient(app.url) as client:
        yield client


def listing(client: ModernClient) -> bytes:
    return json.dumps(client.build("tools/list", {}, id=1)).encode()


HEADERS = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/list"}
BODIES: dict[str, tuple[bytes, int, int]] = {
    "empty": (b"", 400, -32700),
    "no JSON": (b"{", 400, -32700),
    "not UTF-8": (b'{"jsonrpc":"2.0","id":1,"method":"\xff"}', 400, -32700),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', 400, -32700),
    "batch": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32600),
    "number": (b"7", 400, -32600),
    "null": (b"null", 400, -32600),
    "no version": (b'{"id":1,"method":"ping"}', 400, -32600),
    "float id": (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', 400, -32600),
    "null id": (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', 400, -32600),
    "object id": (b'{"jsonrpc":"2.0","id":{},"method":"ping"}', 400, -32600),
    "method is no string": (b'{"jsonrpc":"2.0","id":1,"method":7}', 400, -32600),
    "params is a list": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 400, -32600),
    "twice the same key": (b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}', 400, -32600),
    "a key in two cases": (b'{"jsonrpc":"2.0","id":1,"method":"ping","Method":"x"}', 400, -32600),
    "a key in another case": (b'{"jsonrpc":"2.0","id":1,"Method":"ping"}', 400, -32600),
    "params in another case": (b'{"jsonrpc":"2.0","id":1,"method":"ping","Params":{}}', 400, -32600),
    "a param in another case": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"NAME":"run"}}',
        400,
        -32600,
    ),
    "a letter that folds": (
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"tas\xe2\x84\xaa":{}}}',
        400,
        -32600,
    ),
    "doubled in params": (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":1,"A":2}}', 400, -32600),
    "doubled in _meta": (
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{"a":1,"a":2}}}',
        400,
        -32600,
    ),
    "wide": (b'{"jsonrpc":"2.0","id":1,"method":"ping",%b}' % WIDE, 400, -32600),
    "wide params": (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{%b}}' % WIDE, 400, -32600),
    "wide _meta": (b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"_meta":{%b}}}' % WIDE, 400, -32600),
    "wide with half a surrogate": (
        b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"s":"\\ud800",%b}}' % WIDE,
        400,
        -32600,
    ),
    "deep": (b"[" * DEEP + b"]" * DEEP, 400, -32600),
    "deep and open": (b'{"a":' * DEEP, 400, -32700),
    "too large": (b" " * 1_000_001, 413, -32600),
}


@pytest.mark.rule("VALIDATE", "ERRORS")
@pytest.mark.parametrize("case", BODIES)
async def test_a_malformed_body_is_refused(upstream: Scripted, client: ModernClient, case: str) -> None:
    body, status, code = BODIES[case]
    so_far = len(upstream.requests)
    reply = await client.send(body, headers=HEADERS)
    assert (reply.status, reply.error["code"]) == (status, code), reply.body
    assert len(upstream.requests) == so_far


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize("media", ["text/plain", "application/x-www-form-urlencoded", None])
async def test_another_media_type_is_refused(client: ModernClient, media: str | None) -> None:
    reply = await client.send(listing(client), headers={**HEADERS, "Content-Type": media})
    assert reply.status == 415


@pytest.mark.rule("VALIDATE")
async def test_the_media_type_has_no_case(client: ModernClient) -> None:
    reply = await client.send(
        listing(client), headers={**HEADERS, "Content-Type": "Application/JSON; charset=utf-8"}
    )
    assert reply.status == 200


@pytest.mark.rule("VALIDATE", "ERA-DETECT")
@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Mcp-Method": None}, -32020),
        ({"Mcp-Method": "tools/call"}, -32020),
        ({"MCP-Protocol-Version": None}, -32020),
        ({"MCP-Protocol-Version": "2025-11-25"}, -32020),
    ],
)
async def test_headers_mirror_the_body(client: ModernClient, headers: dict[str, Any], code: int) -> None:
    reply = await client.request("tools/list", {}, headers=headers)
    assert (reply.status, reply.error["code"]) == (400, code)


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize("name", ["other", "=?base64?b3RoZXI=?=", "=?base64?***?=", "=?base64?/w==?=", None])
async def test_a_wrong_name_is_refused(client: ModernClient, name: str | None) -> None:
    reply = await client.call("run", headers={"Mcp-Name": name})
    assert (reply.status, reply.error["code"]) == (400, -32020)


@pytest.mark.rule("VALIDATE")
async def test_an_unknown_version_is_told_what_is_served(client: ModernClient) -> None:
    client.version = "2027-01-01"
    reply = await client.request("tools/list", {})
    assert (reply.status, reply.error["code"]) == (400, -32022)
    assert reply.error["data"]["supported"] == ["2026-07-28"]


@pytest.mark.rule("VALIDATE")
async def test_missing_meta_is_refused(client: ModernClient) -> None:
    reply = await client.request("tools/list", {"_meta": {META_VERSION: "2026-07-28"}}, meta=None)
    assert (reply.status, reply.error["code"]) == (400, -32602)


@pytest.mark.rule("ORIGIN")
@pytest.mark.parametrize("header", [{"Origin": "https://evil.example"}, {"Host": "evil.example"}])
async def test_a_foreign_page_is_refused(client: ModernClient, header: dict[str, str]) -> None:
    assert (await client.request("tools/list", {}, headers=header)).status == 403


PAYLOADS = {
    "digits": b"7" * DIGITS,
    "deep": b"[" * DEEP + b"]" * DEEP,
    "surrogate": b'"\\ud800"',
    "wide": b"{%b}" % WIDE,
}


@pytest.mark.rule("VALIDATE", "HUB-5")
@pytest.mark.parametrize("case", ["digits", "surrogate", "wide"])
@pytest.mark.parametrize("side", ["arguments", "result"])
async def test_a_strange_value_passes(upstream: Scripted, client: ModernClient, case: str, side: str) -> None:
    value = PAYLOADS[case]
    answer = b'{"jsonrpc":"2.0","id":%s,"result":{"content":[],"x":%s}}'
    upstream.on(
        "tools/call",
        lambda seen: Raw(answer % (json.dumps(seen.id).encode(), value if side == "result" else b"1")),
    )
    body = json.dumps(client.build("tools/call", {"name": "run", "arguments": {"v": "@"}}, id=1)).encode()
    sent = body.replace(b'"@"', value) if side == "arguments" else body
    headers = {**HEADERS, "Mcp-Method": "tools/call", "Mcp-Name": "run"}
    reply = await client.send(sent, headers=headers)
    assert reply.status == 200, reply.body
    assert value in (upstream.seen("tools/call")[-1].body if side == "arguments" else reply.body)


UPSTREAM: dict[str, Any] = {
    "HTML": Raw("<html>", 200, {"Content-Type": "text/html"}),
    "nothing": Raw(b""),
    "garbage": Raw(b"\x00\xff garbage"),
    "a list": Raw(b"[]"),
    "no answer": Raw(b'{"jsonrpc":"2.0","id":1}'),
    "deep": Raw(PAYLOADS["deep"]),
    "deep object": Raw(b'{"result":' * DEEP),
    "NaN": Raw(b'{"jsonrpc":"2.0","id":1,"result":{"a":NaN}}'),
    "too large": Raw(b'{"a":"' + b"x" * 1_000_001 + b'"}'),
    "closed": Broken(),
    "truncated": Broken(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{"),
    "no HTTP": Broken(b"SSH-2.0-x\r\n"),
    "empty stream": Raw(b"", 200, {"Content-Type": "text/event-stream"}),
    "garbage stream": Raw(b"data: {]\n\n", 200, {"Content-Type": "text/event-stream"}),
    "500": Raw(b"oops", 500, {"Content-Type": "text/plain"}),
    "odd state": {"task": task(status="dreaming")},
}


@pytest.mark.rule("ERRORS", "HUB-4", "HUB-5")
@pytest.mark.parametrize("case", UPSTREAM)
async def test_an_odd_upstream_is_the_defined_error(
    upstream: Scripted, client: ModernClient, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    upstream.on("tools/call", UPSTREAM[case])
    reply = await client.call("run")
    assert reply.error["code"] == -32603
    assert reply.status in {200, 502}
    assert "a request failed" not in caplog.text
    assert "ledger cannot be used" not in caplog.text
    upstream.on("tools/call", text("fine"))
    assert (await client.call("run")).result["content"][0]["text"] == "fine"
