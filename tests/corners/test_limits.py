"""Every bound in [limits] is reached once: what is answered then, and that it is counted under its key.

A new key without a row here fails `test_every_limit_has_a_row`.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from shim.app import App, running
from shim.config import Config
from shim.config.limits import Limits
from shim.fronts.hosted.streams import Open
from shim.tasks.parked_call import GATHER_MS
from shim.wire.budget import Budget, Holding
from tests.client import LegacyClient, ModernClient
from tests.corners import lm as modern_side
from tests.corners import test_lm_resume as resuming
from tests.corners.lm import BOB
from tests.corners.ml import ALICE, Corner, HandClock, corner, elicit
from tests.corners.mrtr import Conversation
from tests.corners.raw import post, wire
from tests.corners.test_lm_listen import announced
from tests.corners.test_ml_listen import OFFERS, UPDATED, A, listening, notice, wanted
from tests.scripted import Error, Hang, Raw, scripted, sse_event, task, text, tool
from tests.shim import config_for

pytestmark = pytest.mark.rule("LIMITS")

Row = Callable[[Path], Awaitable[App | None]]
ROWS: dict[str, Row] = {}
LISTEN = "subscriptions/listen"
PLAIN = {"tools": [tool("run", "optional"), tool("plain", "forbidden")]}
ANYONE: dict[str, str] = {}


def row(key: str) -> Callable[[Row], Row]:
    def register(reach: Row) -> Row:
        ROWS[key] = reach
        return reach

    return register


async def counted(app: App, key: str) -> None:
    """Wait until a scrape tells that the bound was reached; the test's time limit ends a wait in vain."""
    assert app.admin_url is not None
    async with aiohttp.ClientSession() as http:
        while True:
            async with http.get(f"{app.admin_url}/metrics") as answer:
                if f'taskshim_limit_reached_total{{limit="limits.{key}"}}' in await answer.text():
                    return


@contextlib.asynccontextmanager
async def ml(folder: Path, offers: Any = None, **limits: int) -> AsyncIterator[Corner]:
    """The corner ML with these bounds."""
    options = {} if offers is None else {"capabilities": offers}
    async with scripted(**options) as upstream, corner(upstream, folder, tools=PLAIN, limits=limits) as at:
        yield at


def refused(reply: Any, status: int, key: str) -> None:
    """See that an answer refuses by a bound, names it, and says when to come back."""
    assert (reply.status, reply.error["code"]) == (status, -32603)
    assert f"limits.{key}" in reply.error["message"]
    assert int(reply.headers["Retry-After"]) > 0


@row("body_bytes")
async def _(folder: Path) -> None:
    async with ml(folder, body_bytes=2_000) as at:
        reply = await at.client.call("plain", {"x": "x" * 2_000})
        assert (reply.status, reply.error["code"]) == (413, -32600)
        await counted(at.app, "body_bytes")


@row("frame_bytes")
async def _(folder: Path) -> None:
    async with ml(folder, frame_bytes=4_000) as at:
        at.upstream.on("tools/call", text("x" * 4_000))
        reply = await at.client.call("plain")
        assert (reply.status, reply.error["code"]) == (502, -32603)
        await counted(at.app, "frame_bytes")


@row("header_bytes")
async def _(folder: Path) -> None:
    async with ml(folder, header_bytes=8192) as at, wire(at.app.url) as raw:
        await raw.send(post(b"{}", b"X-Long: " + b"x" * 9_000))
        assert b" 400 " in await raw.reader.readline()
        await counted(at.app, "header_bytes")


@row("concurrent_requests")
async def _(folder: Path) -> None:
    async with ml(folder, concurrent_requests=1) as at:
        at.upstream.on("tools/call", Hang())
        waiting = asyncio.create_task(at.client.call("plain"))
        await at.upstream.wait("tools/call")
        refused(await at.client.request("server/discover"), 429, "concurrent_requests")
        await counted(at.app, "concurrent_requests")
        waiting.cancel()


@row("requests_per_caller")
async def _(folder: Path) -> None:
    async with ml(folder, requests_per_caller=1) as at:
        at.upstream.on("tools/call", Hang())
        waiting = asyncio.create_task(at.client.call("plain"))
        await at.upstream.wait("tools/call")
        refused(await at.client.request("server/discover"), 429, "requests_per_caller")
        async with ModernClient(at.app.url, headers=BOB) as bob:
            assert (await bob.request("server/discover")).status == 200
        async with ModernClient(at.app.url, headers=ANYONE) as nobody, ModernClient(at.app.url) as other:
            both = await asyncio.gather(*(one.request("server/discover") for one in (nobody, other)))
            assert [one.status for one in both] == [200, 200]
        await counted(at.app, "requests_per_caller")
        waiting.cancel()


@row("polls_per_second")
async def _(folder: Path) -> None:
    async with ml(folder, polls_per_second=2, poll_burst=3) as at:
        task_id = await at.create()
        at.upstream.on("tasks/get", task())
        for _ in range(3):
            assert (await at.client.tasks("get", task_id)).status == 200
        refused(await at.client.tasks("get", task_id), 429, "polls_per_second")
        assert (await at.client.request("server/discover")).status == 200  # no poll
        async with LegacyClient(at.app.url, headers=ALICE) as old:  # the same caller
            await old.initialize()
            refused(await old.tasks("get", task_id), 429, "polls_per_second")
        at.clock.advance(500)
        assert (await at.client.tasks("get", task_id)).status == 200
        assert (await at.client.tasks("get", task_id)).status == 429
        at.clock.advance(1_500)
        async with ModernClient(at.app.url, headers=BOB) as bob:
            await bob.tasks("get", task_id)
        shares: Any = at.app.endpoint._shares
        assert len(shares._polls) == 1  # who has the whole burst again needs no place
        await counted(at.app, "polls_per_second")


ROWS["poll_burst"] = ROWS["polls_per_second"]
"""The two bound one thing, and it is counted under one name."""


@row("buffer_bytes")
async def _(folder: Path) -> None:
    async with ml(folder, buffer_bytes=20_000) as at:
        at.upstream.on("tools/call", Hang())
        waiting = asyncio.create_task(at.client.call("plain", {"x": "x" * 15_000}))
        await at.upstream.wait("tools/call")
        refused(await at.client.call("plain", {"x": "x" * 15_000}), 503, "buffer_bytes")
        at.upstream.on("tools/call", text("x" * 15_000))
        small = await at.client.call("plain")
        assert (small.status, small.error["code"]) == (503, -32603)
        assert "limits.buffer_bytes" in small.error["message"]
        waiting.cancel()
        room = at.app.tasks.room
        while room.budget.used:  # noqa: ASYNC110 - there is no event for the end of a request
            await asyncio.sleep(0)
        assert (await at.client.call("plain")).status == 200
        await counted(at.app, "buffer_bytes")
    assert room.budget.used == 0


LONG = "x" * 15_000


async def nothing_waits(app: App) -> None:
    """Wait until no bytes are held: a request's go when it is over."""
    while app.tasks.room.budget.used:  # noqa: ASYNC110 - there is no event for the end of a request
        await asyncio.sleep(0)


async def test_a_parked_question_and_a_kept_answer_count(tmp_path: Path) -> None:
    async with ml(tmp_path, buffer_bytes=20_000) as at:
        call = Conversation(at)
        asked = await call.asked(call.start(), elicit("q", message=LONG))
        refused(await at.client.call("plain", {"x": LONG}), 503, "buffer_bytes")
        retry = call.retry(asked)
        await at.upstream.response_to("q")
        await call.stream.result(text("y" * 10_000))
        assert (await retry).result["content"]
        refused(await at.client.call("plain", {"x": LONG}), 503, "buffer_bytes")
        at.clock.advance(at.app.config.limits.parked_ms)
        await nothing_waits(at.app)


async def test_a_kept_answer_makes_way_for_a_question(tmp_path: Path) -> None:
    async with ml(tmp_path, buffer_bytes=20_000) as at:
        over, budget = Conversation(at), at.app.tasks.room.budget
        asked = await over.parked()
        retry = over.retry(asked)
        await at.upstream.response_to("q")
        await over.stream.result(text("y" * 10_000))
        await retry
        late = Conversation(at)
        sent = late.start()
        await late.stream.send(elicit("late"))
        await at.clock.slept(GATHER_MS)
        with budget.holding() as others:
            others.count(15_000)
            at.clock.advance(GATHER_MS)
            assert (await sent).result["resultType"] == "input_required"
        await counted(at.app, "buffer_bytes")
        assert "no longer kept" in (await over.retry(asked)).error["message"]


async def test_a_call_whose_question_finds_no_room_is_ended(tmp_path: Path) -> None:
    async with ml(tmp_path, buffer_bytes=20_000) as at:
        call, budget = Conversation(at), at.app.tasks.room.budget
        sent = call.start()
        await call.stream.send(elicit("q"))
        await at.clock.slept(GATHER_MS)
        with budget.holding() as others:
            others.count(20_000)
            at.clock.advance(GATHER_MS)
            refused(await sent, 503, "buffer_bytes")
        await at.upstream.wait("notifications/cancelled")
        await counted(at.app, "buffer_bytes")
        await nothing_waits(at.app)


async def test_what_a_legacy_call_is_asked_counts(tmp_path: Path) -> None:
    """Once while its answer is waited for, and once to be sent again to a client that comes back."""
    limits = {"limits": {"buffer_bytes": 40_000}}
    asked = {**modern_side.more(), "inputRequests": {"k": modern_side.elicitation(LONG)}}
    async with scripted(sessions=False) as upstream, modern_side.corner(upstream, tmp_path, **limits) as lm:
        upstream.once("tools/call", asked, {"resultType": "complete", **text("done")})
        async with lm.client.stream("tools/call", {"name": "run", "arguments": {}}) as stream:
            question = await stream.message()
            refused(await lm.client.call("run", {"x": LONG}), 503, "buffer_bytes")
            await lm.client.respond(question["id"], {"action": "cancel"})
            assert (await stream.message())["result"]["content"]
        await counted(lm.app, "buffer_bytes")


def test_what_waits_for_a_sessions_stream_counts_and_is_kept_once() -> None:
    budget = Budget(lambda: 10)
    stream = Open(Holding(budget))
    for message in (b"12345", b"12345", b"67890"):
        stream.announce(message, 3)
    assert (list(stream.news), stream.overflown, budget.used) == ([b"12345", b"67890"], None, 10)
    stream.announce(b"x", 3)
    assert stream.overflown == "limits.buffer_bytes"
    assert (stream.next_news(), budget.used) == (b"12345", 5)
    stream.announce(b"y", 3)  # not without what was left out before it
    assert list(stream.news) == [b"67890"]
    stream.forget_news()
    assert (budget.used, stream.overflown) == (0, None)


@pytest.mark.rule("LM-STREAM", "LM-RESUME")
async def test_a_session_whose_client_lags_is_disconnected_and_begins_anew(tmp_path: Path) -> None:
    limits = {"limits": {"queue_per_stream": 2}}
    async with scripted(sessions=False) as upstream, modern_side.corner(upstream, tmp_path, **limits) as lm:
        await lm.client.request("resources/subscribe", {"uri": A})
        listen = upstream.stream(LISTEN)
        async with lm.client.get() as stream:
            last = (await stream.next_raw()).id
            await lm.ticking(asyncio.create_task(listen.opened()))
            updates = (announced(listen, UPDATED, uri=f"{A}/{n}") for n in range(100))
            await listen.write(b"".join(map(sse_event, updates)))
            await stream.rest()
        await counted(lm.app, "queue_per_stream")
        listen = upstream.stream(LISTEN)
        async with lm.client.get(last_event_id=last) as stream:
            await lm.ticking(asyncio.create_task(listen.opened()))
            await listen.send(announced(listen, UPDATED, uri=A))
            assert (await stream.message())["params"] == {"uri": A}


@row("sessions")
async def _(folder: Path) -> None:
    clock = HandClock()
    limits = {"sessions": 2}
    async with (
        scripted(capabilities=OFFERS) as upstream,
        corner(upstream, folder, clock=clock, limits=limits) as at,
    ):
        for headers in (ALICE, ANYONE):  # also those without a credential
            async with LegacyClient(at.app.url, headers=headers) as old:
                assert (await old.initialize()).status == 200
        async with LegacyClient(at.app.url) as late:
            refused(await late.initialize(notify=False), 503, "sessions")
            clock.advance(3_600_000)
            assert (await late.initialize()).status == 200  # an idle one made way
        await counted(at.app, "sessions")


@row("sessions_per_caller")
async def _(folder: Path) -> None:
    async with ml(folder, sessions_per_caller=1) as at, LegacyClient(at.app.url, headers=ALICE) as old:
        await old.initialize()
        async with LegacyClient(at.app.url, headers=ALICE) as other:
            refused(await other.initialize(notify=False), 429, "sessions_per_caller")
        await counted(at.app, "sessions_per_caller")


@row("open_tasks_per_caller")
async def _(folder: Path) -> None:
    async with ml(folder, open_tasks_per_caller=1) as at:
        await at.create()
        refused(await at.client.call("run"), 429, "open_tasks_per_caller")
        await counted(at.app, "open_tasks_per_caller")


@row("questions_per_task")
async def _(folder: Path) -> None:
    async with ml(folder, questions_per_task=1) as at:
        call = Conversation(at)
        await call.asked(call.start(), elicit(1), elicit(2))
        assert (await at.upstream.response_to(2)).message["error"]["code"] == -32601
        await counted(at.app, "questions_per_task")


def _parks(key: str, status: int, other: dict[str, str]) -> Row:
    async def reach(folder: Path) -> None:
        async with ml(folder, **{key: 1}) as at:
            await Conversation(at).parked()
            at.client.headers = other
            over = Conversation(at)
            sent = over.start()
            await over.stream.send(elicit("over"))
            await at.clock.slept(GATHER_MS)
            at.clock.advance(GATHER_MS)
            refused(await sent, status, key)
            await counted(at.app, key)

    return reach


ROWS["parked_calls_per_caller"] = _parks("parked_calls_per_caller", 429, ALICE)
ROWS["parked_calls"] = _parks("parked_calls", 503, BOB)


@row("parked_ms")
async def _(folder: Path) -> None:
    async with ml(folder, parked_ms=5_000) as at:
        call = Conversation(at)
        asked = await call.parked()
        await at.clock.slept(5_000)
        at.clock.advance(5_000)
        await at.upstream.wait("notifications/cancelled")
        assert "requestState" in (await call.retry(asked)).error["message"]
        await counted(at.app, "parked_ms")


@row("streams_per_caller")
async def _(folder: Path) -> None:
    async with ml(folder, OFFERS, streams_per_caller=1) as at:
        async with listening(at, wanted(toolsListChanged=True)):
            refused(await at.client.request(LISTEN, wanted(toolsListChanged=True)), 429, "streams_per_caller")
        await counted(at.app, "streams_per_caller")


@row("subscriptions_per_stream")
async def _(folder: Path) -> None:
    async with ml(folder, OFFERS, subscriptions_per_stream=1) as at:
        reply = await at.client.request(LISTEN, wanted("x", "y"))
        assert (reply.status, reply.error["code"]) == (400, -32602)
        await counted(at.app, "subscriptions_per_stream")


@row("queue_per_stream")
async def _(folder: Path) -> None:
    async with ml(folder, OFFERS, queue_per_stream=2) as at:
        at.upstream.on("resources/subscribe", {})
        async with listening(at, wanted(resourceSubscriptions=[A])) as stream:
            get = await at.upstream.get_stream()
            await get.write(b"".join(sse_event(notice(UPDATED, uri=f"{A}/{n}")) for n in range(100)))
            assert [one for one in await stream.rest() if "result" in one] == []
        await counted(at.app, "queue_per_stream")


def _replays(key: str, at_most: int) -> Row:
    async def reach(folder: Path) -> None:
        async with scripted(sessions=False) as upstream:
            running_call = upstream.stream("tools/call")
            async with modern_side.corner(upstream, folder, limits={key: at_most}) as lm:
                last = await resuming.broken(lm, running_call)
                for step in (2, 3):
                    await resuming.progress(running_call, step)
                await running_call.result(resuming.DONE)
                async with lm.client.get(headers={"Last-Event-ID": last}) as stream:
                    assert not (await stream.next_raw()).data
                await counted(lm.app, key)

    return reach


ROWS["replay_events"] = _replays("replay_events", 2)
ROWS["replay_bytes"] = _replays("replay_bytes", 256)


@row("slow_reader_ms")
async def _(folder: Path) -> None:
    big = b'{"jsonrpc":"2.0","id":%b,"result":{"content":[],"x":"' + b"x" * 16_000_000 + b'"}}'
    limits = {"slow_reader_ms": 50, "frame_bytes": 32_000_000}
    async with ml(folder, **limits) as at, wire(at.app.url, receive_bytes=4096) as raw:
        at.upstream.on("tools/call", lambda seen: Raw(big % json.dumps(seen.id).encode()))
        body = at.client.build("tools/call", {"name": "plain", "arguments": {}}, id=1)
        lines = [b"MCP-Protocol-Version: 2026-07-28", b"Mcp-Method: tools/call", b"Mcp-Name: plain"]
        await raw.send(post(json.dumps(body).encode(), *lines, b"Authorization: Bearer alice"))
        await counted(at.app, "slow_reader_ms")


@row("kept_bytes")
async def _(folder: Path) -> None:
    kept: dict[str, Any] = {
        "ledger": {"store_results": False, "cache_rows": 1},
        "limits": {"kept_bytes": 700},
    }
    async with scripted() as upstream, corner(upstream, folder, tools=PLAIN, **kept) as at:
        upstream.on("tasks/get", lambda seen: task(seen.params["taskId"], status="completed"))
        upstream.on("tasks/result", lambda _: text("x" * 600))
        for task_id in ("task-1", "task-2"):
            await at.create(task_id)
            assert (await at.get(task_id))["status"] == "completed"
        upstream.on("tasks/get", Error(-32602))
        gone = await at.get("task-1")
        assert (gone["status"], gone["error"]["code"]) == ("failed", -32603)
        assert "limits.kept_bytes" in gone["error"]["message"]
        await counted(at.app, "kept_bytes")


@row("slow_sender_ms")
async def _(folder: Path) -> None:
    async with ml(folder, slow_sender_ms=300, buffer_bytes=20_000) as at:
        for begun in (b"", post(b"")[:20]):  # nothing at all, half a head
            async with wire(at.app.url) as raw:
                await raw.send(begun)
                assert await raw.reader.read() == b""
        for chunked in (False, True):
            async with wire(at.app.url) as raw:
                begun = post(b'{"jsonrpc":"2.0",', length=15_000)
                if chunked:
                    begun = post(b"4000\r\n{").replace(b"Content-Length: 7", b"Transfer-Encoding: chunked")
                await raw.send(begun)
                answer = await raw.answer()
                assert (answer.status, json.loads(answer.body)["error"]["code"]) == (408, -32600)
        assert at.app.tasks.room.budget.used == 0  # what it announced is free for others again
        assert (await at.client.request("server/discover")).status == 200
        await counted(at.app, "slow_sender_ms")


def _lists(key: str) -> Row:
    async def reach(folder: Path) -> None:
        async with ml(folder, **{key: 1}) as at:
            at.upstream.on("tools/list", {**PLAIN, "nextCursor": "more"})
            at.upstream.on("tools/call", text("fine"))
            assert (await at.client.call("plain")).result["content"]
            assert len(at.upstream.seen("tools/list")) == 1
            await counted(at.app, key)

    return reach


ROWS["tools"], ROWS["pages"] = _lists("tools"), _lists("pages")


@row("shutdown_ms")
async def _(folder: Path) -> None:
    """Who asks then finds nobody to tell, so nothing is counted: the shim is gone although a call hangs."""
    async with scripted() as upstream, contextlib.AsyncExitStack() as outlives:
        upstream.on("tools/list", PLAIN)
        upstream.on("tools/call", Hang())
        config = config_for(
            upstream.url, folder, upstream={"dialect": "experimental"}, limits={"shutdown_ms": 50}
        )
        async with running(config) as app:
            client = await outlives.enter_async_context(ModernClient(app.url, headers=ALICE))
            call = asyncio.create_task(client.call("plain"))
            await upstream.wait("tools/call")
        with pytest.raises(aiohttp.ClientError):
            await call


def test_every_limit_has_a_row() -> None:
    assert set(ROWS) == set(Limits.model_fields)


@pytest.mark.parametrize("key", ROWS)
async def test_a_bound_that_is_reached_is_answered_and_counted(key: str, tmp_path: Path) -> None:
    await ROWS[key](tmp_path)


def test_the_default_of_polls_never_meets_real_clients() -> None:
    """A caller may poll all its open tasks every second, and begin with fastmcp's ramp from 20 ms on each."""
    limits = Config.model_validate({"upstream": [{"url": "http://127.0.0.1:1/mcp"}]}).limits
    assert limits.polls_per_second >= limits.open_tasks_per_caller
    ramp, at_ms = 0, 20.0
    while at_ms < 1_000:
        ramp, at_ms = ramp + 1, at_ms * 1.5 + 20
    assert limits.poll_burst >= limits.open_tasks_per_caller * ramp
