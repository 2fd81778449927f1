"""kill -9 while clients work, then a new start: whatever a client was told still holds (DUR-1, DUR-2).

TASKSHIM_CRASH_ROUNDS sets how often; the upstream outlives the shim.
"""

import asyncio
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest

from shim.demo import experimental
from tests.client import ModernClient

ROUNDS = int(os.environ.get("TASKSHIM_CRASH_ROUNDS", "10"))
CLIENTS = 4
FEW = 60
"""A kill comes after at most so many answers."""


@dataclass
class Told:
    """What the clients were told."""

    handles: set[str] = field(default_factory=set)
    asked: dict[str, str] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    answers: int = 0
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    kill_after: int = 0

    def heard(self) -> None:
        self.answers += 1
        if self.answers >= self.kill_after:
            self.enough.set()


@asynccontextmanager
async def shim(upstream: str, folder: Path, port: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run `taskshim serve` until the block ends, by kill -9 if it still runs then."""
    config = folder / "shim.toml"
    config.write_text(
        f'[[upstream]]\nurl = "{upstream}"\ndialect = "experimental"\n[listen]\nport = {port}\n'
        f'[admin]\nenabled = false\n[ledger]\npath = "{folder / "ledger.db"}"\n'
        f'[identity]\nkey_file = "{folder / "shim.key"}"\n[audit]\npath = "{folder / "audit.jsonl"}"\n'
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shim.cli.main", "serve", "--config", str(config),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    while b"serving" not in (line := await process.stdout.readline()):
        assert line, "the shim did not start"
    drain = asyncio.create_task(process.stdout.read())
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        await drain


async def work(url: str, told: Told) -> None:
    """Make tasks, look at them, answer their questions, until the shim is gone."""
    async with ModernClient(url, headers={"Authorization": "Bearer ann"}) as client:
        while True:
            reply = await client.call("deploy", {"seconds": 0})
            task_id = reply.result["taskId"]
            told.handles.add(task_id)
            told.heard()
            while not (asked := (await client.tasks("get", task_id)).result.get("inputRequests")):
                told.heard()
            (told.asked[task_id],) = asked
            told.heard()
            if told.answers % 2:
                continue
            answer = {told.asked[task_id]: {"action": "accept", "content": {"confirm": True}}}
            await client.tasks("update", task_id, inputResponses=answer)
            told.answered.add(task_id)
            told.heard()


async def hold(url: str, told: Told) -> None:
    """See that all of it still holds."""
    async with ModernClient(url, headers={"Authorization": "Bearer ann"}) as client:
        for task_id in told.handles:
            seen = (await client.tasks("get", task_id)).result
            if task_id in told.answered:
                while seen["status"] not in {"completed", "failed", "cancelled"}:
                    seen = (await client.tasks("get", task_id)).result
                assert seen["result"]["structuredContent"] == {"deployed": True}
            elif task_id in told.asked and seen["status"] != "completed":  # an answer may have got through
                key = told.asked[task_id]
                while seen["status"] == "working":
                    seen = (await client.tasks("get", task_id)).result
                assert seen["status"] == "completed" or list(seen["inputRequests"]) == [key]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.mark.rule("DUR-1", "DUR-2", "DUR-5", "DUR-7")
@pytest.mark.timeout(30 + 20 * ROUNDS)
async def test_nothing_a_client_was_told_is_lost(tmp_path: Path) -> None:
    dice = random.Random(20260728)  # noqa: S311 - moments, not secrets
    runner, upstream = await experimental.start(poll_interval_ms=20)
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        for number in range(ROUNDS):
            folder = tmp_path / str(
                number
            )  # a ledger of its own: open tasks hold sessions, and those are bounded
            folder.mkdir()
            told = Told(kill_after=dice.randint(1, FEW))
            async with shim(upstream, folder, port) as process:
                working = [asyncio.create_task(work(url, told)) for _ in range(CLIENTS)]
                enough = asyncio.create_task(told.enough.wait())
                await asyncio.wait([enough, *working], return_when=asyncio.FIRST_COMPLETED)
                process.kill()
                for ended in await asyncio.gather(*working, return_exceptions=True):
                    assert isinstance(ended, aiohttp.ClientError | ConnectionError), ended
                enough.cancel()
            async with shim(upstream, folder, port):
                await hold(url, told)
    finally:
        await runner.cleanup()


@pytest.mark.rule("DUR-2")
async def test_sigterm_ends_it_cleanly(tmp_path: Path) -> None:
    runner, upstream = await experimental.start()
    try:
        async with shim(upstream, tmp_path, free_port()) as process:
            process.send_signal(signal.SIGTERM)
            assert await process.wait() == 0
    finally:
        await runner.cleanup()
