"""SHADOW with real servers: mcp 1.30 and fastmcp-tasks answer the same calls alike."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from shim.config import Config
from tests.client import LegacyClient, ModernClient
from tests.corners.two import config_of
from tests.peers.processes import fastmcp_server, legacy_server
from tests.peers.test_cutover import events, key, modern_job

pytestmark = [pytest.mark.peers, pytest.mark.rule("SHADOW")]

NAMED = ["greet", "slow_compute"]


async def until(so: Callable[[], bool]) -> None:
    while not so():  # noqa: ASYNC110
        await asyncio.sleep(0.01)


async def greeted(client: ModernClient | LegacyClient) -> Any:
    called = {"name": "greet", "arguments": {"name": "Ann"}}
    return (await client.request("tools/call", called)).result["content"]


async def computed(client: LegacyClient) -> Any:
    """Run a task and fetch its result; gives the text of it."""
    called = {"name": "slow_compute", "arguments": {"seconds": 0.1, "label": "b"}, "task": {}}
    made = (await client.request("tools/call", called)).result["task"]
    return (await client.request("tasks/result", {"taskId": made["taskId"]})).result["content"][0]["text"]


@pytest.mark.parametrize("default", ["old", "new"])
async def test_two_real_servers_answer_alike(
    default: str, legacy_python: Path, fastmcp_python: Path, tmp_path: Path
) -> None:
    async with (
        legacy_server(legacy_python, log=tmp_path / "old.log") as old,
        fastmcp_server(fastmcp_python, log=tmp_path / "new.log") as new,
    ):
        config = config_of(old, new, tmp_path, default=default).model_dump()
        config["cutover"]["shadow"] |= {"tools": NAMED, "percent": 100}
        async with running(Config.model_validate(config)) as app:
            async with (
                ModernClient(app.url, headers=key(1)) as modern,
                LegacyClient(app.url, headers=key(2)) as legacy,
            ):
                await legacy.initialize()
                assert await greeted(modern) == await greeted(legacy)
                assert await modern_job(app.url, 3) == "completed"
                assert await computed(legacy) == "computed b in 0.1 s"
            await until(lambda: app.shadow.counts.total() == 4)
            await until(lambda: not app.shadow.busy)
            counts = dict(app.shadow.counts)
    found = [(one["path"], one["kind"]) for one in events(tmp_path) if one["event"] == "shadow.diff"]
    other = {"old": "new", "new": "old"}[default]
    assert (counts, found) == ({(other, "same"): 4}, [])
