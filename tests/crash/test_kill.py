"""kill -9 while clients of both eras work, then a new start: whatever they were told still holds (DUR-2).

TASKSHIM_CRASH_ROUNDS sets how often; the upstream outlives the shim. A few rounds share a ledger.
"""

import asyncio
import os
import random
from pathlib import Path

import aiohttp
import pytest

from shim.demo import experimental
from tests.crash.clients import Told, hold, work_legacy, work_modern
from tests.crash.serving import events, shim
from tests.ports import free_port

ROUNDS = int(os.environ.get("TASKSHIM_CRASH_ROUNDS", "10"))
KILLS_OF_A_LEDGER = 5
MODERN = 3
LEGACY = 3
LOSSES = ("task.lost", "session.lost", "input.lost")
FEW = 60
"""A kill comes after at most so many answers."""


@pytest.mark.rule("DUR-1", "DUR-2", "DUR-5", "DUR-7", "LL-RECORD", "ML-CREATE-REPLY")
@pytest.mark.timeout(120 + 60 * ROUNDS)
async def test_nothing_a_client_was_told_is_lost(tmp_path: Path) -> None:
    dice = random.Random(20260728)  # noqa: S311 - moments, not secrets
    runner, upstream = await experimental.start(poll_interval_ms=20)
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    told = Told(dice)
    folder = tmp_path
    try:
        for number in range(ROUNDS):
            if number % KILLS_OF_A_LEDGER == 0:
                told, folder = Told(dice), tmp_path / str(number)
                folder.mkdir()
            told.kill_after = dice.randint(1, FEW)
            told.enough.clear()
            async with shim(upstream, folder, port) as process:
                working = [asyncio.create_task(work_modern(url, told)) for _ in range(MODERN)]
                working += [asyncio.create_task(work_legacy(url, told, one)) for one in range(LEGACY)]
                enough = asyncio.create_task(told.enough.wait())
                await asyncio.wait([enough, *working], return_when=asyncio.FIRST_COMPLETED)
                process.kill()
                for ended in await asyncio.gather(*working, return_exceptions=True):
                    cut_off = aiohttp.ClientError | ConnectionError | StopAsyncIteration
                    assert isinstance(ended, cut_off), ended
                enough.cancel()
            async with shim(upstream, folder, port):
                await hold(url, told)
            assert not [lost for name in LOSSES for lost in events(folder, name)]
    finally:
        await runner.cleanup()
