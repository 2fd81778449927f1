"""What a run of the shim shows of itself: its sign of life, its metrics, not what it is built on."""

import asyncio
import threading
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from shim.app import App, running
from shim.audit.sink import FileSink
from tests.client import LegacyClient, ModernClient
from tests.corners.lm import DISCOVER, asks, made, more, seen_as
from tests.corners.lm import TOOLS as MODERN_TOOLS
from tests.corners.ml import ALICE, TOOLS, accept, elicit
from tests.scripted import Broken, Error, Hang, Raw, Scripted, scripted, text, tool
from tests.shim import config_for, events

MINUTE_MS = 60_000


def alive(folder: Path) -> list[dict[str, Any]]:
    return events(folder, "instance.alive")


async def test_a_short_run_is_covered_and_says_who_is_connected(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tools/list", TOOLS)
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})
    async with running(config) as app:
        for headers in (ALICE, ALICE, {}):
            async with LegacyClient(app.url, headers=headers) as client:
                await client.initialize()
        async with LegacyClient(app.url, headers=ALICE) as gone:
            await gone.initialize()
            await gone.delete()
        async with ModernClient(app.url, headers=ALICE) as modern:
            await modern.request("tools/list")  # the pool's session is no client's
    first, last = alive(tmp_path)
    assert (first["sessions"], first["requests"]) == (0, {})
    assert last["sessions"] == 3
    assert [(one["caller_kind"], one["count"]) for one in last["connected"]] == [("token", 2), ("session", 1)]
    assert all(one["client"]["name"] for one in last["connected"])
    assert last["requests"]["ML"] == 1


async def test_the_audit_file_is_closed_off_the_loop(
    upstream: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed_by: list[threading.Thread] = []
    close = FileSink.close

    def noted(sink: FileSink) -> None:
        closed_by.append(threading.current_thread())
        close(sink)

    monkeypatch.setattr(FileSink, "close", noted)
    async with running(config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})):
        pass
    assert [thread is threading.main_thread() for thread in closed_by] == [False]
    assert (tmp_path / "audit.jsonl").read_text().rstrip().endswith("}")


async def raw(app: App, said: bytes) -> bytes:
    """Say something to the shim's socket and give what it says before it hangs up."""
    port = int(app.url.split(":")[2].split("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.rule("HEADERS")
async def test_no_answer_says_what_the_shim_is_built_on(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tools/list", TOOLS)
    config = config_for(
        upstream.url,
        tmp_path,
        upstream={"dialect": "experimental"},
        listen={"allowed_origins": ["https://a"]},
    )
    async with running(config) as app, aiohttp.ClientSession() as http:
        async with LegacyClient(app.url) as client:
            told = [(await client.initialize()).headers, (await client.request("tools/list")).headers]
            told.append((await client.request("tools/list", headers={"Origin": "https://b"})).headers)
            async with client.get() as stream:
                told.append(stream.headers)
        for method, url in (
            ("OPTIONS", app.url),
            ("GET", app.url.replace("/mcp", "/nowhere")),
            ("GET", f"{app.admin_url}/metrics"),
            ("GET", f"{app.admin_url}/nowhere"),
        ):
            async with http.request(method, url, headers={"Origin": "https://a"}) as response:
                told.append(response.headers)
        unread = await raw(app, b"NO HTTP\r\n\r\n")
    assert unread.startswith(b"HTTP/1.")
    assert b"aiohttp" not in unread
    assert [headers.get("Server") for headers in told] == [None] * len(told)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (text("hi"), "ok"),
        (Error(-32602, "no"), "error"),
        (Raw(b"<h1>", 500, {"Content-Type": "text/html"}), "error"),
        (Raw(b"", 401, {}), "denied"),
        (Broken(), "broken"),
    ],
    ids=["result", "error", "html", "denied", "broken"],
)
async def test_requests_to_the_upstream_are_counted_by_method_and_outcome(
    upstream: Scripted, tmp_path: Path, era: str, answer: Any, outcome: str
) -> None:
    upstream.on("tools/list", TOOLS)
    upstream.on("tools/call", answer)
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})
    async with running(config) as app, aiohttp.ClientSession() as http:
        async with (
            LegacyClient(app.url, headers=ALICE) as legacy,
            ModernClient(app.url, headers=ALICE) as modern,
        ):
            await legacy.initialize()
            await (legacy if era == "legacy" else modern).call("plain")
        async with http.get(f"{app.admin_url}/metrics") as response:
            metrics = await response.text()
    labels = f'method="tools/call",outcome="{outcome}",upstream="main"'
    assert f"taskshim_upstream_requests_total{{{labels}}} 1.0" in metrics


@pytest.mark.rule("LM-STREAM", "LL-1")
@pytest.mark.parametrize("dialect", ["experimental", "sep-2663"])
async def test_a_get_stream_does_not_hold_the_stop(tmp_path: Path, dialect: str) -> None:
    """The end of the stream is the end of its answer, long before `limits.shutdown_ms` is over."""
    async with AsyncExitStack() as outlives, scripted(sessions=dialect == "experimental") as upstream:
        upstream.on("server/discover", DISCOVER)
        sections: dict[str, Any] = {"upstream": {"dialect": dialect}, "limits": {"shutdown_ms": 600_000}}
        async with running(config_for(upstream.url, tmp_path, **sections)) as app:
            client = await outlives.enter_async_context(LegacyClient(app.url, headers=ALICE))
            await client.initialize()
            stream = await outlives.enter_async_context(client.get())
            assert stream.status == 200
        assert await stream.rest() == []  # a whole answer: one that breaks off raises
    assert {one.get("outcome") for one in events(tmp_path, "request")} == {"ok"}


@pytest.mark.rule("LM-RESULT", "DUR-2")
@pytest.mark.parametrize("legacy", ["experimental", "create-status"])
async def test_a_wait_for_a_result_does_not_hold_the_stop(tmp_path: Path, legacy: str) -> None:
    """It ends without an answer, long before `limits.shutdown_ms` is over; the task goes on."""
    async with AsyncExitStack() as outlives, scripted(sessions=False) as upstream:
        for method, answer in (
            ("server/discover", DISCOVER),
            ("tools/list", MODERN_TOOLS),
            ("tasks/get", seen_as()),
        ):
            upstream.on(method, answer)
        sections: dict[str, Any] = {
            "upstream": {"dialect": "sep-2663"},
            "limits": {"shutdown_ms": 600_000},
            "legacy": {"dialect": legacy},
        }
        async with running(config_for(upstream.url, tmp_path, **sections)) as app:
            client = await outlives.enter_async_context(LegacyClient(app.url, headers=ALICE))
            await client.initialize()
            upstream.once("tools/call", made("task-1"))
            if legacy == "experimental":
                await client.call("run", task={})
            else:
                await client.request("tasks/create", {"name": "run", "arguments": {}})
            waiting = client.stream("tasks/result", {"taskId": "task-1"})
            stream = await outlives.enter_async_context(waiting)
            await upstream.wait("tasks/get")
        assert await stream.rest() == []  # a whole answer: one that breaks off raises
    assert upstream.seen("tasks/cancel") == []


@pytest.mark.rule("LM-PLAIN", "LM-MRTR")
@pytest.mark.parametrize("as_task", [True, False])
async def test_a_call_that_waits_for_an_answer_does_not_hold_the_stop(
    tmp_path: Path, *, as_task: bool
) -> None:
    """No answer gets through any more, so the call ends long before `limits.shutdown_ms` is over."""
    async with AsyncExitStack() as outlives, scripted(sessions=False) as upstream:
        upstream.on("server/discover", DISCOVER)
        upstream.on("tools/list", MODERN_TOOLS)
        upstream.on("tasks/get", asks("k"))
        upstream.on("tools/call", made("task-1") if as_task else more("k"))
        sections: dict[str, Any] = {"upstream": {"dialect": "sep-2663"}, "limits": {"shutdown_ms": 600_000}}
        async with running(config_for(upstream.url, tmp_path, **sections)) as app:
            client = await outlives.enter_async_context(LegacyClient(app.url, headers=ALICE))
            await client.initialize()
            call = {"name": "run", "arguments": {}}
            stream = await outlives.enter_async_context(client.stream("tools/call", call, id=7))
            assert (await stream.message())["method"] == "elicitation/create"
        [answer] = [one for one in await stream.rest() if "id" in one]
    assert (answer["id"], answer["error"]["code"]) == (7, -32603)
    assert ("tasks/list has it" if as_task else "call again") in answer["error"]["message"]
    assert len(upstream.seen("tools/call")) == 1
    assert not upstream.seen("tasks/cancel")


@pytest.mark.rule("LM-PLAIN")
async def test_a_held_call_whose_task_ends_while_the_shim_stops_is_answered(tmp_path: Path) -> None:
    async with AsyncExitStack() as outlives, scripted(sessions=False) as upstream:
        upstream.on("server/discover", DISCOVER)
        upstream.on("tools/list", MODERN_TOOLS)
        upstream.on("tools/call", made("task-1", pollIntervalMs=5))
        stopping = asyncio.Event()

        async def seen(_: Any) -> Any:
            await stopping.wait()
            return seen_as("task-1", "completed", result=text("done"))

        upstream.on("tasks/get", seen)
        sections: dict[str, Any] = {"upstream": {"dialect": "sep-2663"}, "limits": {"shutdown_ms": 600_000}}
        async with running(config_for(upstream.url, tmp_path, **sections)) as app:
            client = await outlives.enter_async_context(LegacyClient(app.url, headers=ALICE))
            await client.initialize()
            call = {"name": "run", "arguments": {}}
            stream = await outlives.enter_async_context(client.stream("tools/call", call, id=7))
            await upstream.wait("tasks/get")

            async def stopped() -> None:
                await app.tasks.hand_back.stopping.wait()
                stopping.set()

            telling = asyncio.create_task(stopped())
        await telling
        assert [one["result"]["content"] for one in await stream.rest() if "id" in one] == [
            text("done")["content"]
        ]


@pytest.mark.rule("LL-1")
@pytest.mark.parametrize("way", ["call", "get"])
@pytest.mark.parametrize("settled", ["answered", "called off", None])
async def test_a_passed_call_that_waits_for_an_answer_does_not_hold_the_stop(
    upstream: Scripted, tmp_path: Path, way: str, settled: str | None
) -> None:
    """It is cut off, long before `limits.shutdown_ms` is over; one that goes on is waited for."""
    upstream.on("tools/list", TOOLS)
    running_call = upstream.stream("tools/call")
    sections: dict[str, Any] = {
        "upstream": {"dialect": "experimental"},
        "limits": {"shutdown_ms": 600_000},
    }
    async with AsyncExitStack() as outlives:
        async with running(config_for(upstream.url, tmp_path, **sections)) as app:
            client = await outlives.enter_async_context(LegacyClient(app.url, headers=ALICE))
            await client.initialize()
            get = await outlives.enter_async_context(client.get())
            asking = await upstream.get_stream() if way == "get" else running_call
            call = {"name": "plain", "arguments": {}}
            begun = asyncio.create_task(outlives.enter_async_context(client.stream("tools/call", call, id=7)))
            await running_call.opened()
            await running_call.send(notice("begun"))
            stream = await begun
            await stream.message()
            await asking.send(elicit("q"))
            assert (await (get if way == "get" else stream).message())["id"] == "q"
            if settled == "answered":
                await client.respond("q", accept(ok=True))
            elif settled is not None:
                off = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}}
                await asking.send(off)
                await (get if way == "get" else stream).message()

            async def stopped() -> None:
                await app.tasks.hand_back.stopping.wait()
                if settled is not None:
                    await running_call.result(text("done"))

            telling = asyncio.create_task(stopped())
        await telling
        if settled is None:
            with pytest.raises(aiohttp.ClientError):
                await stream.rest()
        else:
            assert [one["result"] for one in await stream.rest()] == [text("done")]


def notice(text: str) -> dict[str, Any]:
    """A message that a server logs."""
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": text}}


async def test_what_hangs_at_the_stop_is_waited_for_once(
    upstream: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """aiohttp waits once more after `limits.shutdown_ms`, before it cuts off: that wait has no end here."""
    waits: list[float | None] = []

    def waiting(delay: float | None, **_: Any) -> asyncio.Timeout:
        waits.append(delay)
        return asyncio.timeout(delay if len(waits) == 1 else None)

    upstream.on("tools/list", {"tools": [tool("plain", "forbidden")]})
    upstream.on("tools/call", Hang())
    config = config_for(
        upstream.url, tmp_path, upstream={"dialect": "experimental"}, limits={"shutdown_ms": 50}
    )
    async with AsyncExitStack() as outlives:
        async with running(config) as app:
            client = await outlives.enter_async_context(ModernClient(app.url, headers=ALICE))
            call = asyncio.create_task(client.call("plain"))
            await upstream.wait("tools/call")
            monkeypatch.setattr("aiohttp.web_protocol.ceil_timeout", waiting)
        with pytest.raises(aiohttp.ClientError):
            await call
    assert waits == [0.05, 0.05]
