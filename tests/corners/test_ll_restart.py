"""DUR-2, ML-SESSION-LOST: what a legacy client sees when the shim, or the server, is started again."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from shim.app import running
from tests.client import LegacyClient
from tests.corners.ml import ALICE, HandClock, asks_before_it_hears, elicit
from tests.scripted import Error, Scripted, task
from tests.shim import config_for


@asynccontextmanager
async def seated(
    upstream: Scripted, folder: Path, client: LegacyClient, clock: HandClock | None = None
) -> AsyncIterator[None]:
    """Run the shim in front of a legacy client, which keeps its session over restarts."""
    options = {"upstream": {"dialect": "experimental"}, "limits": {"shutdown_ms": 100}}
    async with running(config_for(upstream.url, folder, **options), clock=clock) as app:
        client.url = app.url
        if client.session is None:
            await client.initialize()
            await client.call("run", task={})
        yield


@pytest.fixture
async def client(upstream: Scripted) -> AsyncIterator[LegacyClient]:
    """A client whose every call makes the task task-1."""
    upstream.on("tools/call", {"task": task()})
    async with LegacyClient("", headers=ALICE) as legacy:
        yield legacy


@pytest.mark.rule("DUR-2", "LL-ROUTE")
async def test_its_stream_is_called_off_and_its_next_one_gets_the_question(
    upstream: Scripted, tmp_path: Path, client: LegacyClient
) -> None:
    first, second = upstream.stream("tasks/result"), upstream.stream("tasks/result")
    async with AsyncExitStack() as streams:
        async with seated(upstream, tmp_path, client):
            await streams.enter_async_context(client.stream("tasks/result", {"taskId": "task-1"}, id="mine"))
            await first.opened()
        [off] = upstream.seen("notifications/cancelled")
        assert (off.params, off.session) == ({"requestId": "mine"}, client.session)
        async with (
            seated(upstream, tmp_path, client),
            client.stream("tasks/result", {"taskId": "task-1"}) as again,
        ):
            await second.send(elicit("q", "task-1"))
            assert (await again.message())["id"] == "q"


@pytest.mark.rule("DUR-2", "LL-ROUTE")
async def test_what_was_asked_just_before_still_passes_and_is_kept(
    upstream: Scripted, tmp_path: Path, client: LegacyClient
) -> None:
    stream = upstream.stream("tasks/result")
    asks_before_it_hears(upstream, stream)
    async with AsyncExitStack() as streams:
        async with seated(upstream, tmp_path, client):
            waiting = client.stream("tasks/result", {"taskId": "task-1"})
            seen = await streams.enter_async_context(waiting)
        assert [message["id"] for message in await seen.rest()] == ["q"]  # and nothing of the error
    async with seated(upstream, tmp_path, client):
        await client.respond("q", {"action": "decline"})
        assert (await upstream.response_to("q")).session == client.session


@pytest.mark.rule("DUR-2", "LL-1")
async def test_a_stream_that_can_be_resumed_is_left_to_its_client(
    upstream: Scripted, tmp_path: Path, client: LegacyClient
) -> None:
    stream = upstream.stream("tasks/result")
    async with AsyncExitStack() as streams, seated(upstream, tmp_path, client):
        waiting = client.stream("tasks/result", {"taskId": "task-1"})
        seen = await streams.enter_async_context(waiting)
        await stream.write(b"id: 1\ndata:\n\n")
        await seen.next_raw()
    assert not upstream.seen("notifications/cancelled")


@pytest.mark.rule("ML-SESSION-LOST", "LL-1", "LL-ROUTE")
async def test_a_server_that_forgot_the_session_says_so_itself(
    upstream: Scripted, tmp_path: Path, client: LegacyClient
) -> None:
    upstream.on("tasks/get", Error(-32602, "Task not found"))
    clock = HandClock()
    async with seated(upstream, tmp_path, client, clock):
        upstream.forget()
        assert (await client.tasks("get", "task-1")).status == 404
        assert len(upstream.seen("initialize")) == 1  # a new session is the client's to open
        await client.initialize()
        assert (await client.tasks("get", "task-1")).result["status"] == "working"
        clock.advance(60_000)
        lost = (await client.tasks("get", "task-1")).result
        assert lost["status"] == "failed"
        assert (await client.tasks("result", "task-1")).error == {
            "code": -32603,
            "message": "upstream lost the task",
        }
    assert len(upstream.seen("initialize")) == 3  # the client's, and the one the task is asked for on
