"""The test helpers themselves: what they script is what goes over the wire."""

import asyncio

import aiohttp
import pytest

from tests import sse
from tests.client import LegacyClient, ModernClient, mcp_name
from tests.scripted import Broken, Error, Hang, Raw, Scripted, Seen, Stream, text


async def test_a_legacy_session_lives_from_initialize_to_delete(upstream: Scripted) -> None:
    async with LegacyClient(upstream.url) as client:
        assert (await client.request("ping")).status == 400
        reply = await client.initialize()
        assert client.session == "session-1"
        assert reply.result["protocolVersion"] == "2025-11-25"
        assert (await client.request("ping")).result == {}
        assert (await client.delete()).status == 200
        assert (await client.request("ping")).status == 404
    assert [seen.method for seen in upstream.seen("notifications/initialized")] == [
        "notifications/initialized"
    ]


async def test_answers_are_taken_in_order_then_the_standing_one(modern_upstream: Scripted) -> None:
    modern_upstream.on("tools/call", lambda seen: text(seen.params["name"]))
    modern_upstream.once("tools/call", Error(-32602, "no", {"a": 1}, status=400), Raw("<html>", 502))
    async with ModernClient(modern_upstream.url) as client:
        first = await client.call("a")
        assert (first.status, first.error) == (400, {"code": -32602, "message": "no", "data": {"a": 1}})
        assert (await client.call("b")).body == b"<html>"
        assert (await client.call("c")).result == text("c")
        assert (await client.request("x/y")).error["code"] == -32601
    assert [seen.method for seen in modern_upstream.unexpected] == ["x/y"]
    seen = await modern_upstream.wait("tools/call", 3)
    assert (seen.headers["Mcp-Method"], seen.headers["Mcp-Name"]) == ("tools/call", "c")
    assert seen.params["_meta"]["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"


async def test_a_stream_is_fed_and_answered_on_the_session(upstream: Scripted) -> None:
    question = {"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": {}}
    stream = upstream.stream("tasks/result")
    async with LegacyClient(upstream.url) as client:
        await client.initialize()
        async with client.stream("tasks/result", {"taskId": "t"}) as answer:
            await stream.write(b": keep-alive\n\n")
            await stream.send(question, event_id="e1")
            assert (await answer.next_raw()).comment
            frame = await answer.next()
            assert (frame.id, frame.json) == ("e1", question)
            assert (await client.respond("q-1", {"action": "accept"})).status == 202
            assert (await upstream.response_to("q-1")).message["result"] == {"action": "accept"}
            await stream.result(text("done"))
            assert [message["result"] for message in await answer.rest()] == [text("done")]


async def test_get_streams_are_handed_to_the_test_and_notice_who_leaves(upstream: Scripted) -> None:
    async with LegacyClient(upstream.url) as client:
        await client.initialize()
        async with client.get(last_event_id="7") as mine:
            stream = await upstream.get_stream()
            assert stream.session == client.session
            assert (await stream.opened()).headers["Last-Event-ID"] == "7"
            await stream.send({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
            assert (await mine.message())["method"] == "notifications/message"
            mine.close()
        await stream.left()
        upstream.get_answer = Raw(b"", 405)
        async with client.get() as refused:
            assert refused.status == 405


async def test_streams_can_be_cut_and_sockets_broken(modern_upstream: Scripted) -> None:
    stream = modern_upstream.stream("a")
    modern_upstream.once("b", Broken(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"), Broken())
    async with ModernClient(modern_upstream.url) as client:
        async with client.stream("a") as answer:
            await stream.write(b"data: {")
            await stream.abort()
            with pytest.raises(aiohttp.ClientPayloadError):
                await answer.next()
        with pytest.raises(aiohttp.ClientPayloadError):
            await client.request("b")
        with pytest.raises(aiohttp.ClientError):
            await client.request("b")


async def test_an_answer_may_be_held_back_by_a_function(modern_upstream: Scripted) -> None:
    release = asyncio.Event()

    async def held(seen: Seen) -> dict[str, object]:
        await release.wait()
        return {"id": seen.id}

    modern_upstream.once("a", held)
    modern_upstream.once("b", Hang())
    async with ModernClient(modern_upstream.url) as client:
        pending = asyncio.create_task(client.request("a", id=9))
        hanging = asyncio.create_task(client.request("b"))
        await modern_upstream.wait("a")
        await modern_upstream.wait("b")
        assert not pending.done()
        release.set()
        assert (await pending).result == {"id": 9}
        hanging.cancel()


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "a b"}, "a b"),
        ("tools/call", {"name": "ü"}, "=?base64?w7w=?="),
        ("tools/call", {"name": "=?base64?x?="}, "=?base64?PT9iYXNlNjQ/eD89?="),
        ("resources/read", {"uri": "a://b"}, "a://b"),
        ("tasks/get", {"taskId": "t"}, "t"),
        ("tools/list", {}, None),
    ],
)
def test_mcp_name(method: str, params: dict[str, str], name: str | None) -> None:
    assert mcp_name(method, params) == name


def test_frames_are_cut_at_every_kind_of_line_end() -> None:
    body = b": hi\n\nid: 1\r\nevent: x\r\ndata: a\r\ndata: b\r\n\r\nretry: 5\rdata:\r\r"
    frames = sse.split(body)
    assert [(f.event, f.data, f.id, f.retry_ms, f.comment) for f in frames] == [
        ("message", None, None, None, True),
        ("x", b"a\nb", "1", None, False),
        ("message", b"", None, 5, False),
    ]
    assert b"".join(f.raw for f in frames) == body


def test_a_stream_that_nobody_asked_for_is_not_open() -> None:
    assert not Stream().is_open
