"""LM-STREAM: what a modern server announces reaches a legacy session's GET stream by one subscription."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.client import OpenStream
from tests.corners.lm import DISCOVER, TOOLS, Corner, corner
from tests.scripted import Error, Scripted, Seen, Stream, text

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


def announced(stream: Stream, method: str, **params: Any) -> dict[str, Any]:
    """A notification as a modern server sends it, tagged with its subscription."""
    assert stream.request is not None
    return {
        "jsonrpc": "2.0", "method": method,
        "params": {**params, "_meta": {SUBSCRIPTION: stream.request.id}},
    }  # fmt: skip


async def listening(lm: Corner, listen: Stream) -> Seen:
    """Wait until the shim listens; gives its request."""
    return await lm.ticking(asyncio.create_task(listen.opened()))


async def next_of(lm: Corner, stream: OpenStream) -> Any:
    return await lm.ticking(asyncio.create_task(stream.message()))


@pytest.mark.rule("LM-STREAM", "KEYS")
async def test_list_changes_reach_the_session(modern_upstream: Scripted, tmp_path: Path) -> None:
    listen = modern_upstream.stream("subscriptions/listen")
    async with corner(modern_upstream, tmp_path) as lm, lm.client.get() as stream:
        seen = await listening(lm, listen)
        assert seen.params["notifications"] == {"toolsListChanged": True}
        await listen.send(announced(listen, "notifications/subscriptions/acknowledged", notifications={}))
        await listen.send(announced(listen, "notifications/tools/list_changed"))
        assert await next_of(lm, stream) == CHANGED
    await listen.left()


@pytest.mark.rule("LM-STREAM", "LM-LOCAL")
async def test_a_subscription_follows_what_the_client_wants(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    first, second, third = (modern_upstream.stream("subscriptions/listen") for _ in range(3))
    async with corner(modern_upstream, tmp_path) as lm, lm.client.get() as stream:
        await listening(lm, first)
        uri = {"uri": "file:///a"}
        assert (await lm.client.request("resources/subscribe", uri)).result == {}
        asked = (await listening(lm, second)).params["notifications"]
        assert asked == {"toolsListChanged": True, "resourceSubscriptions": ["file:///a"]}
        await first.left()
        await second.send(announced(second, "notifications/resources/updated", **uri))
        assert await next_of(lm, stream) == {
            "jsonrpc": "2.0", "method": "notifications/resources/updated", "params": uri,
        }  # fmt: skip
        await lm.client.request("resources/unsubscribe", uri)
        assert (await listening(lm, third)).params["notifications"] == {"toolsListChanged": True}
    assert modern_upstream.seen("resources/subscribe") == []


@pytest.mark.rule("LM-STREAM")
async def test_a_subscription_that_breaks_is_opened_again(modern_upstream: Scripted, tmp_path: Path) -> None:
    first, second = (modern_upstream.stream("subscriptions/listen") for _ in range(2))
    async with corner(modern_upstream, tmp_path) as lm, lm.client.get() as stream:
        await listening(lm, first)
        await first.abort()
        await listening(lm, second)
        await second.send(announced(second, "notifications/tools/list_changed"))
        assert await next_of(lm, stream) == CHANGED


@pytest.mark.rule("LM-STREAM")
async def test_a_server_without_subscriptions_is_asked_once(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on("subscriptions/listen", Error(-32601, "Method not found", status=404))
    async with corner(modern_upstream, tmp_path) as lm, lm.client.get() as stream:
        await modern_upstream.wait("subscriptions/listen")
        task_id = await lm.create()
        assert await lm.get(task_id)
        lm.clock.advance(120_000)
        await lm.get(task_id)
        assert stream.status == 200
    assert len(modern_upstream.seen("subscriptions/listen")) == 1


@pytest.mark.rule("LM-STREAM")
async def test_nothing_is_asked_where_nothing_is_offered(modern_upstream: Scripted, tmp_path: Path) -> None:
    modern_upstream.on("server/discover", {**DISCOVER, "capabilities": {"tools": {}}})
    async with corner(modern_upstream, tmp_path) as lm, lm.client.get() as stream:
        assert stream.status == 200
        await lm.client.request("ping", {})
    assert modern_upstream.seen("subscriptions/listen") == []


@pytest.mark.rule("LM-META")
async def test_parameters_are_mirrored_where_the_server_misses_them(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    tools = {**TOOLS, "tools": [{"name": "run", "inputSchema": schema}]}
    modern_upstream.on("tools/list", tools)

    def call(seen: Seen) -> Any:
        wanted = seen.headers.get("Mcp-Param-Region")
        return {"resultType": "complete", **text("done")} if wanted == "eu" else Error(-32020, status=400)

    modern_upstream.on("tools/call", call)
    async with corner(modern_upstream, tmp_path) as lm:
        assert (await lm.client.call("run", {"region": "eu"})).result == text("done")
        assert (await lm.client.call("run", {"region": "eu"})).result == text("done")
        refused = await lm.client.call("run", {})
    assert refused.error["code"] == -32603
    calls = [seen.headers.get("Mcp-Param-Region") for seen in modern_upstream.seen("tools/call")]
    assert calls == [None, "eu", "eu", None]
