"""A client that does not read: the server is held back, nothing piles up, and the client is shed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from shim.app import running
from tests.client import LegacyClient
from tests.corners.raw import HEAD, post, wire
from tests.scripted import Raw, Scripted, Seen, Stream, scripted, sse_event, text, tool
from tests.shim import config_for, events

MEGA = 1024 * 1024
FLOOD = 256 * MEGA
LARGE = 32 * MEGA
PATIENCE_MS = 300
AT_MOST = 24 * MEGA
"""What the kernel's buffers on the way may take, with room to spare; the shim's own are a fraction of it."""


class Flood(Stream):
    """A stream that says more than anybody would keep, as fast as it is taken."""

    def __init__(self, block: bytes) -> None:
        super().__init__()
        self.block = block
        self.sent = 0
        self.done = asyncio.Event()

    async def serve(self, request: web.Request, seen: Seen) -> web.StreamResponse:
        self.request = seen
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            while self.sent < FLOOD:
                await response.write(self.block)
                self.sent += len(self.block)
        except ConnectionError:
            pass
        finally:
            self.done.set()
        return response


def outcomes(folder: Path) -> list[tuple[str, str]]:
    return [(one["method"], one["outcome"]) for one in events(folder, "request")]


def notice(size: int) -> dict[str, Any]:
    params = {"level": "info", "data": "x" * size}
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": params}


async def shed(reader: asyncio.StreamReader) -> int:
    """Read until the connection is cut; gives how much came."""
    size = 0
    try:
        while chunk := await reader.read(MEGA):
            size += len(chunk)
    except ConnectionResetError:
        return size
    return size


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize("size", [1_000, 100_000])
@pytest.mark.parametrize("way", ["GET", "tools/call"])
async def test_a_stream_passes_no_faster_than_it_is_read(
    upstream: Scripted, tmp_path: Path, size: int, way: str
) -> None:
    upstream.on("tools/list", {"tools": [tool("plain", "forbidden")]})
    flood = Flood(sse_event(notice(size)))
    limits = {"slow_reader_ms": PATIENCE_MS}
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"}, limits=limits)
    async with running(config) as app, LegacyClient(app.url) as client:
        await client.initialize()
        session = f"Mcp-Session-Id: {client.session}".encode()
        upstream.get_answer = flood
        upstream.on("tools/call", flood)
        asked = post(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plain"}}', session)
        if way == "GET":
            asked = HEAD.replace(b"POST", b"GET") % b"/mcp" + session + b"\r\n\r\n"
        async with wire(app.url, receive_bytes=4096) as raw:
            await raw.send(asked)
            await flood.done.wait()
            assert flood.sent < AT_MOST
            assert await shed(raw.reader) < AT_MOST
        upstream.on("tools/call", text("fine"))
        assert (await client.call("plain")).result["content"][0]["text"] == "fine"
    assert (way, "disconnected") in outcomes(tmp_path)


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_large_answer_that_nobody_reads_is_given_up(
    upstream: Scripted, tmp_path: Path, era: str
) -> None:
    upstream.on("tools/list", {"tools": [tool("plain", "forbidden")]})
    big = b'{"content":[],"x":"' + b"x" * LARGE + b'"}'
    answer = b'{"jsonrpc":"2.0","id":%b,"result":%b}'
    upstream.on("tools/call", lambda seen: Raw(answer % (json.dumps(seen.id).encode(), big)))
    limits = {"slow_reader_ms": PATIENCE_MS, "frame_bytes": 64 * MEGA}
    legacy = {"dialect": "experimental"}
    config = config_for(upstream.url, tmp_path, upstream=legacy, limits=limits)
    async with running(config) as app, LegacyClient(app.url) as client:
        await client.initialize()
        params = b'"params":{"name":"plain"%b}}'
        lines = [f"Mcp-Session-Id: {client.session}".encode()]
        meta = b""
        if era == "modern":
            lines = [b"MCP-Protocol-Version: 2026-07-28", b"Mcp-Method: tools/call", b"Mcp-Name: plain"]
            meta = b',"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
            meta += b'"io.modelcontextprotocol/clientCapabilities":{}}'
        body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call",' + params % meta
        async with wire(app.url, receive_bytes=4096) as raw:
            await raw.send(post(body, *lines))
            while ("tools/call", "disconnected") not in outcomes(tmp_path):  # noqa: ASYNC110 - a file
                await asyncio.sleep(0.01)
            assert await shed(raw.reader) < AT_MOST
        app.reload(config_for(upstream.url, tmp_path, upstream=legacy, limits={"frame_bytes": 64 * MEGA}))
        # one that reads, however slowly, gets all of it
        async with wire(app.url, receive_bytes=65_536) as raw:
            await raw.send(post(body, *lines))
            head = await raw.reader.readuntil(b"\r\n\r\n")
            assert b"Transfer-Encoding" not in head
            [length] = [
                int(one[15:]) for one in head.split(b"\r\n") if one.lower().startswith(b"content-length")
            ]
            whole = await raw.reader.readexactly(length)
            arrived = json.loads(whole)["result"]["x"] == "x" * LARGE
            assert arrived  # not compared here: no report shows that much


@pytest.mark.rule("ML-LISTEN")
async def test_a_subscription_that_nobody_reads_is_given_up(tmp_path: Path) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"subscriptions/listen","params":{"notifications":'
    body += b'{"resourceSubscriptions":["file:///a"]},"_meta":{"io.modelcontextprotocol/protocolVersion":'
    body += b'"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}'
    params = {"uri": "file:///a", "x": "x" * MEGA}
    updated = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": params}
    limits = {"slow_reader_ms": PATIENCE_MS}
    async with scripted(capabilities={"resources": {}}) as upstream:
        upstream.on("resources/subscribe", {})
        config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"}, limits=limits)
        async with running(config) as app, wire(app.url, receive_bytes=4096) as raw:
            lines = [b"MCP-Protocol-Version: 2026-07-28", b"Mcp-Method: subscriptions/listen"]
            await raw.send(post(body, *lines))
            get = await upstream.get_stream()
            while ("subscriptions/listen", "disconnected") not in outcomes(tmp_path):
                await get.send(updated)
                await asyncio.sleep(0.01)
            assert await shed(raw.reader) < AT_MOST
            await get.left()  # nobody else listens
