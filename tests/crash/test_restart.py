"""What a server asks while no shim runs: lost and reported after kill -9, not lost after SIGTERM (DUR-2)."""

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.client import ModernClient
from tests.corners.ml import accept, elicit
from tests.crash.clients import ANN
from tests.crash.serving import events, shim
from tests.ports import free_port
from tests.scripted import Raw, Scripted, Seen, Stream, sse_event, task, tool

LOST = "the server waits for input, but its question was lost"


class Asking:
    """Lets an upstream ask as real ones do: once, on a `tasks/result` that it was not told to forget.

    Whether anybody still reads that stream it does not know.
    """

    def __init__(self, upstream: Scripted) -> None:
        self._streams: list[Stream] = []
        self._unsent: list[dict[str, Any]] = []
        upstream.on("tools/list", {"tools": [tool("run", "required")]})
        upstream.on("tools/call", {"task": task(pollInterval=20)})
        upstream.on("tasks/get", task(status="input_required", pollInterval=20))
        upstream.on("tasks/result", self._opened)
        upstream.on("notifications/cancelled", self._called_off)

    async def ask(self, question: dict[str, Any]) -> None:
        """Ask on the oldest stream, or on the next that is opened if there is none."""
        if self._streams:
            await self._streams[0].send(question)
        else:
            self._unsent.append(question)

    async def _opened(self, _: Seen) -> Stream:
        stream = Stream()
        self._streams.append(stream)
        while self._unsent:
            await stream.write(sse_event(self._unsent.pop()))
        return stream

    def _called_off(self, seen: Seen) -> Raw:
        self._streams = [
            one for one in self._streams if one.request and one.request.id != seen.params["requestId"]
        ]
        return Raw(b"", 202, {})


async def until(client: ModernClient, key: str, value: str) -> Any:
    """Look at the task until it says so; the test's time limit ends a wait in vain."""
    while (seen := (await client.tasks("get", "task-1")).result).get(key) != value:
        pass
    return seen


@pytest.mark.rule("DUR-2", "ML-INPUT")
@pytest.mark.parametrize(("policy", "status"), [("wait", "working"), ("fail", "failed")])
async def test_after_a_kill_it_is_reported_as_lost(
    upstream: Scripted, tmp_path: Path, policy: str, status: str
) -> None:
    server, port = Asking(upstream), free_port()
    options = {"question_wait_ms": 300, "lost_input": policy}
    async with ModernClient(f"http://127.0.0.1:{port}/mcp", headers=ANN) as client:
        async with shim(upstream.url, tmp_path, port, **options) as process:
            await client.call("run")
            await client.tasks("get", "task-1")
            old = await upstream.wait("tasks/result")
            process.kill()
            await process.wait()
        await server.ask(elicit("q", "task-1"))
        async with shim(upstream.url, tmp_path, port, **options) as process:
            if policy == "wait":
                seen = await until(client, "statusMessage", LOST)
                assert "inputRequests" not in seen
            else:
                seen = await until(client, "status", "failed")
                assert seen["error"] == {"code": -32603, "message": LOST}
            assert seen["status"] == status
            await client.tasks("get", "task-1")
            process.terminate()
            await process.wait()
    [lost] = events(tmp_path, "input.lost")
    assert lost["task_id"] == "task-1"
    [off, *_] = upstream.seen("notifications/cancelled")
    assert off.params["requestId"] == old.id
    assert upstream.requests.index(off) < upstream.requests.index(upstream.seen("tasks/result")[1])


@pytest.mark.rule("DUR-2", "ML-INPUT")
async def test_after_a_stop_it_is_shown_and_answered(upstream: Scripted, tmp_path: Path) -> None:
    server, port = Asking(upstream), free_port()
    options = {"question_wait_ms": 600_000}
    async with ModernClient(f"http://127.0.0.1:{port}/mcp", headers=ANN) as client:
        async with shim(upstream.url, tmp_path, port, **options) as process:
            await client.call("run")
            await client.tasks("get", "task-1")
            await upstream.wait("tasks/result")
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
        await server.ask(elicit("q", "task-1"))
        async with shim(upstream.url, tmp_path, port, **options) as process:
            seen = await until(client, "status", "input_required")
            [key] = seen["inputRequests"]
            await client.tasks("update", "task-1", inputResponses={key: accept(ok=True)})
            await upstream.response_to("q")
            process.terminate()
            await process.wait()
    assert not events(tmp_path, "input.lost")


@pytest.mark.rule("DUR-2")
async def test_an_idle_one_stops_cleanly(upstream: Scripted, tmp_path: Path) -> None:
    async with shim(upstream.url, tmp_path, free_port()) as process:
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0
