"""The old server and its successor side by side: callers of both eras are moved over and back under load."""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from shim.config import Config
from tests.client import LegacyClient, ModernClient
from tests.peers.processes import fastmcp_server, legacy_server
from tests.shim import config_for

pytestmark = pytest.mark.peers

CALLERS = 50
ENDS = {"completed", "failed", "cancelled"}
JOB = {"seconds": 0.1}


def config_of(old: str, new: str, folder: Path, *rules: str, drain: tuple[str, ...] = ()) -> Config:
    config = config_for(old, folder).model_dump()
    config["upstream"] = [
        {"name": "old", "url": old, "dialect": "experimental"},
        {"name": "new", "url": new, "dialect": "sep-2663"},
    ]
    config["cutover"] |= {"rules": rules, "drain": drain}
    return Config.model_validate(config)


def key(number: int) -> dict[str, str]:
    return {"Authorization": f"Bearer caller-{number}"}


async def modern_job(url: str, number: int) -> Any:
    """A modern caller runs a task to its end; gives its last state."""
    async with ModernClient(url, headers=key(number)) as client:
        made = (await client.call("slow_compute", {**JOB, "label": str(number)})).result
        while (seen := (await client.tasks("get", made["taskId"])).result)["status"] not in ENDS:  # noqa: ASYNC110 - a poll
            await asyncio.sleep(0.1)
        return seen["status"]


async def legacy_job(url: str, number: int) -> Any:
    """The same by an old caller, in a session of its own."""
    async with LegacyClient(url, headers=key(number)) as client:
        await client.initialize()
        made = (await client.call("slow_compute", {**JOB, "label": str(number)}, task={})).result["task"]
        while (seen := (await client.tasks("get", made["taskId"])).result)["status"] not in ENDS:  # noqa: ASYNC110 - a poll
            await asyncio.sleep(0.1)
        await client.delete()
        return seen["status"]


async def everyone(url: str, callers: int = CALLERS) -> list[Any]:
    """Let all callers work at once, every second one over the old API."""
    jobs = [(legacy_job if number % 2 else modern_job)(url, number) for number in range(callers)]
    return await asyncio.gather(*jobs, return_exceptions=True)


@asynccontextmanager
async def both(legacy: Path, fastmcp: Path, folder: Path) -> AsyncIterator[tuple[App, str, str]]:
    async with (
        legacy_server(legacy, log=folder / "old.log") as old,
        fastmcp_server(fastmcp, log=folder / "new.log") as new,
        running(config_of(old, new, folder)) as app,
    ):
        yield app, old, new


def events(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]


@pytest.mark.timeout(300)
async def test_callers_move_over_and_back_under_load(
    legacy_python: Path, fastmcp_python: Path, tmp_path: Path
) -> None:
    phases = (0, 10, 50, 100, 0)
    async with both(legacy_python, fastmcp_python, tmp_path) as (app, old, new):
        for percent in phases:
            load = asyncio.create_task(everyone(app.url))
            await asyncio.sleep(0)
            app.reload(config_of(old, new, tmp_path, f"new {percent}%"))
            assert set(await load) == {"completed"}
            assert set(await everyone(app.url)) == {"completed"}
    told = events(tmp_path)
    assert [event["rules"] for event in told if event["event"] == "cutover.changed"] == [
        [f"new {percent}%"] for percent in phases
    ]
    assert [event for event in told if event["event"] == "request" and event["outcome"] != "ok"] == []
    # a task is asked for where it was made, and never anywhere else
    made_at = {one["task_id"]: one["upstream"] for one in told if one["event"] == "task.created"}
    asked_at = {(one["task_id"], one["upstream"]) for one in told if one.get("method") == "tasks/get"}
    assert asked_at == set(made_at.items())
    # a caller goes over once and comes back once, together with the percentage
    path: dict[str, list[str]] = defaultdict(list)
    for event in told:
        if event["event"] == "task.created":
            path[event["caller"]].append(event["upstream"])
    turns = {caller: sum(a != b for a, b in pairwise(seen)) for caller, seen in path.items()}
    assert len(turns) == CALLERS
    assert set(turns.values()) == {2}


@pytest.mark.timeout(300)
async def test_the_old_server_is_drained_and_taken_away(
    legacy_python: Path, fastmcp_python: Path, tmp_path: Path
) -> None:
    async with (
        fastmcp_server(fastmcp_python, log=tmp_path / "new.log") as new,
        legacy_server(legacy_python, log=tmp_path / "old.log") as old,
    ):
        async with (
            running(config_of(old, new, tmp_path)) as app,
            LegacyClient(app.url, headers=key(1)) as client,
        ):
            await client.initialize()
            task = (await client.call("slow_compute", JOB, task={})).result["task"]["taskId"]
            app.reload(config_of(old, new, tmp_path, "new", drain=("old",)))
            assert not (await app.steering.status())["upstreams"]["old"]["can_be_switched_off"]
            while (await client.tasks("get", task)).result["status"] not in ENDS:  # noqa: ASYNC110 - a poll
                await asyncio.sleep(0.1)
            assert (await client.tasks("result", task)).result["content"]
            assert (await client.request("ping", {})).status == 404
            seen = (await app.steering.status())["upstreams"]["old"]
            assert (seen["can_be_switched_off"], seen["because"]) == (True, [])
        gone = "http://127.0.0.1:1/mcp"
        async with running(config_of(gone, new, tmp_path, "new", drain=("old",))) as app:
            assert set(await everyone(app.url, 10)) == {"completed"}


@pytest.mark.timeout(300)
async def test_half_way_only_what_was_on_the_old_server_fails(fastmcp_python: Path, tmp_path: Path) -> None:
    async with fastmcp_server(fastmcp_python, log=tmp_path / "new.log") as new:
        gone = "http://127.0.0.1:1/mcp"
        async with (
            running(config_of(gone, new, tmp_path, "new 50%")) as app,
            ModernClient(app.url) as client,
        ):
            for number in range(CALLERS):
                reply = await client.call("greet", headers=key(number))
                assert reply.status in {200, 502}
                if reply.status == 502:
                    assert reply.error["code"] == -32603
                    assert "cannot be reached" in reply.error["message"]
    outcomes: dict[str, set[str]] = defaultdict(set)
    for event in events(tmp_path):
        if event["event"] == "request":
            outcomes[event["upstream"]].add(event["outcome"])
    assert outcomes == {"old": {"error"}, "new": {"ok"}}
