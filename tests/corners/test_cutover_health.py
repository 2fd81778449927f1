"""A server that is down: new calls go to the fallback, nothing is sent twice (CUTOVER-FALLBACK)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import pytest

from shim.app import running
from shim.config import Config
from tests.client import LegacyClient, ModernClient
from tests.corners.ml import ALICE, HandClock, breath
from tests.corners.two import config_of, new_server, old_server, pair, ran
from tests.scripted import Broken, Raw, text
from tests.shim import events

pytestmark = pytest.mark.rule("CUTOVER-FALLBACK")
GONE = "http://127.0.0.1:1/mcp"


@pytest.mark.parametrize("rules", [(), ("old fallback=new",)])
@pytest.mark.parametrize("client", ["modern", "legacy", "keyed"])
async def test_new_calls_of_a_server_that_is_down_go_to_the_fallback(
    client: str, rules: tuple[str, ...], tmp_path: Path
) -> None:
    fallback = "" if rules else "new"
    keyed = {"Idempotency-Key": "k"} if client == "keyed" else {}
    async with (
        new_server() as new,
        running(config_of(GONE, new.url, tmp_path, rules, fallback=fallback), clock=HandClock()) as app,
        ModernClient(app.url, headers={**ALICE, **keyed}) as modern,
        LegacyClient(app.url, headers=ALICE) as legacy,
    ):
        if client == "legacy":
            await legacy.initialize()
            assert (await ran(legacy, task={})).startswith("new")
        else:
            first = await ran(modern)
            assert first.startswith("new")
            assert (await modern.tasks("get", first)).result["status"] == "working"
            assert (await ran(modern) == first) is (client == "keyed")
        health = (await app.steering.status())["upstreams"]["old"]["health"]
        assert (health["up"], "refused" in health["evidence"]) == (False, True)
    assert {(one["wanted"], one["reason"]) for one in events(tmp_path, "rerouted")} == {("old", "down")}
    # the first one found out; nobody has asked since
    assert len(events(tmp_path, "upstream.down")) == 1
    assert {one["outcome"] for one in events(tmp_path, "request")} == {"ok"}


async def test_without_a_fallback_they_fail(tmp_path: Path) -> None:
    async with (
        new_server() as new,
        running(config_of(GONE, new.url, tmp_path)) as app,
        ModernClient(app.url, headers=ALICE) as client,
    ):
        reply = await client.call("run")
        assert (reply.status, reply.error["code"]) == (502, -32603)
    assert new.seen("tools/call") == []


@pytest.mark.parametrize("answer", [Broken(), Broken(b"HTTP/1.1 200 OK\r\n"), Raw(b"", 503, {})])
async def test_what_may_have_run_is_not_sent_again(answer: Broken | Raw, tmp_path: Path) -> None:
    async with (
        pair(tmp_path, fallback="new") as both,
        ModernClient(both.app.url, headers=ALICE) as client,
    ):
        await client.call("plain")
        both.old.once("tools/call", answer)
        reply = await client.call("plain")
        assert reply.error["code"] == -32603
        assert both.new.seen("tools/call") == []


@asynccontextmanager
async def deaf(*, closes: bool) -> AsyncIterator[str]:
    """A server that takes every connection and answers none; gives its address."""
    taken: set[asyncio.StreamWriter] = set()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        taken.add(writer)
        await reader.readuntil(b"\r\n\r\n")
        if closes:
            writer.close()

    async with await asyncio.start_server(take, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        try:
            yield f"http://{host}:{port}/mcp"
        finally:
            for writer in taken:
                writer.close()


@pytest.mark.parametrize("closes", [False, True], ids=["silent", "closes"])
async def test_a_server_that_takes_connections_and_never_answers_is_down(
    tmp_path: Path, *, closes: bool
) -> None:
    async with new_server() as new, deaf(closes=closes) as old:
        config = config_of(old, new.url, tmp_path, fallback="new").model_dump()
        config["upstream"][0]["answer_timeout_ms"] = 100
        async with (
            running(Config.model_validate(config), clock=HandClock()) as app,
            ModernClient(app.url, headers=ALICE) as client,
        ):
            first = await client.call("run")  # it may have run: it goes nowhere else
            assert (first.status, first.error["code"]) == (502 if closes else 504, -32603)
            while app.stands["old"].up:
                await breath(app)
            assert (await ran(client)).startswith("new")
    [event] = events(tmp_path, "upstream.down")
    assert ("closed the connection" if closes else "in time") in event["evidence"]


async def test_one_request_without_an_answer_makes_no_server_down(tmp_path: Path) -> None:
    """It is asked, and answers."""
    async with (
        pair(tmp_path, fallback="new", clock=HandClock()) as both,
        ModernClient(both.app.url, headers=ALICE) as client,
    ):
        both.old.once("tools/call", Broken())
        assert (await client.call("plain")).error["code"] == -32603
        while "OPTIONS" not in {one.http_method for one in both.old.requests}:
            await breath(both.app)
        both.old.once("tools/call", text("again"))
        assert (await client.call("plain")).result["content"] == text("again")["content"]
        assert both.app.stands["old"].up
    assert both.events("upstream.down") == []


async def test_a_server_that_comes_back_gets_new_calls_again(tmp_path: Path) -> None:
    clock = HandClock()
    async with old_server() as before:
        port = urlsplit(before.url).port or 0
    async with (
        new_server() as new,
        running(config_of(before.url, new.url, tmp_path, fallback="new"), clock=clock) as app,
        ModernClient(app.url, headers=ALICE) as client,
    ):
        assert (await ran(client)).startswith("new")
        async with old_server(port) as old:
            while not app.stands["old"].up:
                clock.advance(60_000)
                await breath(app)
            assert {one.http_method for one in old.requests} == {"OPTIONS"}
            assert (await ran(client)).startswith("old")
    assert len(events(tmp_path, "upstream.up")) == 1


async def test_tasks_and_sessions_stay_while_their_server_is_down(tmp_path: Path) -> None:
    async with new_server() as new:
        async with old_server() as old:
            config = config_of(old.url, new.url, tmp_path, fallback="new")
            async with running(config) as app, LegacyClient(app.url, headers=ALICE) as legacy:
                await legacy.initialize()
                old_id = await ran(legacy, task={})
        async with (
            running(config) as app,
            LegacyClient(app.url, headers=ALICE) as again,
            ModernClient(app.url, headers=ALICE) as modern,
        ):
            again.session, again.initialized = legacy.session, True
            assert (await again.call("run", task={})).status == 502
            assert (await ran(modern)).startswith("new")
            assert (await modern.tasks("get", old_id)).status == 502
    assert new.seen("tasks/get") == []


async def test_what_is_down_is_shown(tmp_path: Path) -> None:
    async with (
        new_server() as new,
        running(config_of(GONE, new.url, tmp_path, fallback="new")) as app,
        ModernClient(app.url, headers=ALICE) as client,
        aiohttp.ClientSession(app.admin_url or "") as admin,
    ):
        await client.call("run")
        async with admin.get("/metrics") as answer:
            metrics = await answer.text()
        assert 'taskshim_upstream_up{upstream="old"} 0.0' in metrics
        assert 'taskshim_upstream_up{upstream="new"} 1.0' in metrics
        assert 'taskshim_rerouted_total{reason="down"} 1.0' in metrics
        async with admin.get("/upstreams") as answer:
            told = {one["name"]: one["health"]["up"] for one in (await answer.json())["upstreams"]}
        assert told == {"old": False, "new": True}
        async with admin.get("/readyz") as answer:
            assert answer.status == 200
