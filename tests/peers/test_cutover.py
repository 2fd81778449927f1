"""The old server and its successor side by side: callers of both eras are moved over and back under load."""

import asyncio
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import LegacyClient, ModernClient
from tests.corners.two import config_of
from tests.peers.processes import fastmcp_server, legacy_server
from tests.shim import events

pytestmark = pytest.mark.peers

CALLERS = 50
ENDS = {"completed", "failed", "cancelled"}
GONE = 404


def key(number: int) -> dict[str, str]:
    return {"Authorization": f"Bearer caller-{number}"}


async def ended(client: ModernClient | LegacyClient, task_id: str) -> Any:
    """Poll a task to its end; gives its last state."""
    query = {"taskId": task_id}
    while (seen := (await asked(client, "tasks/get", query)).result)["status"] not in ENDS:  # noqa: ASYNC110
        await asyncio.sleep(0.1)
    return seen["status"]


async def asked(client: ModernClient | LegacyClient, method: str, params: dict[str, Any]) -> Any:
    """Ask; a session that is not there any more is opened anew, as clients of that era have to."""
    reply = await client.request(method, params)
    if reply.status == GONE and isinstance(client, LegacyClient):
        client.session, client.initialized = None, False
        await client.initialize()
        reply = await client.request(method, params)
    return reply


async def modern_job(url: str, number: int, seconds: float = 0.1) -> Any:
    """A modern caller runs a task to its end; gives its last state."""
    async with ModernClient(url, headers=key(number)) as client:
        called = {"name": "slow_compute", "arguments": {"seconds": seconds, "label": str(number)}}
        made = (await asked(client, "tools/call", called)).result
        return await ended(client, made["taskId"])


async def legacy_job(url: str, number: int, seconds: float = 0.1) -> Any:
    """The same by an old caller, in a session of its own."""
    async with LegacyClient(url, headers=key(number)) as client:
        await client.initialize()
        called = {"name": "slow_compute", "arguments": {"seconds": seconds, "label": str(number)}, "task": {}}
        made = (await asked(client, "tools/call", called)).result["task"]
        return await ended(client, made["taskId"])


async def everyone(url: str, seconds: float = 0.1) -> list[Any]:
    """Let all callers work at once, every second one over the old API."""
    jobs = [(legacy_job if number % 2 else modern_job)(url, number, seconds) for number in range(CALLERS)]
    return await asyncio.gather(*jobs, return_exceptions=True)


@asynccontextmanager
async def both(legacy: Path, fastmcp: Path, folder: Path) -> AsyncIterator[tuple[App, AsyncExitStack]]:
    """Run the shim before both; closing the stack ends the old server."""
    async with (
        fastmcp_server(fastmcp, log=folder / "new.log") as new,
        AsyncExitStack() as old_one,
    ):
        old = await old_one.enter_async_context(legacy_server(legacy, log=folder / "old.log"))
        async with running(config_of(old, new, folder)) as app:
            yield app, old_one


async def old_of(app: App) -> dict[str, Any]:
    """What `taskshim cutover status` says of the old server."""
    found: dict[str, Any] = (await app.steering.status())["upstreams"]["old"]
    return found


@pytest.mark.rule("CUTOVER-RULES", "CUTOVER-STAY")
async def test_callers_move_over_and_back_under_load(
    legacy_python: Path, fastmcp_python: Path, tmp_path: Path
) -> None:
    phases = (0, 10, 50, 100, 0)
    async with both(legacy_python, fastmcp_python, tmp_path) as (app, _):
        for percent in phases:
            load = asyncio.create_task(everyone(app.url))
            await asyncio.sleep(0)
            app.steering.change({"rules": [f"new {percent}%"]}, by="an operator")
            assert set(await load) == {"completed"}
            assert set(await everyone(app.url)) == {"completed"}
    told = events(tmp_path)
    changes = [event for event in told if event["event"] == "cutover.changed"]
    assert [event["rules"] for event in changes] == [[f"new {percent}%"] for percent in phases]
    assert {event["by"] for event in changes} == {"an operator"}
    requests = [event for event in told if event["event"] == "request"]
    assert [event for event in requests if event["outcome"] != "ok"] == []
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
    print(f"{len(requests)} requests, 0 failed; {len(made_at)} tasks: {Counter(made_at.values())}")  # noqa: T201


@pytest.mark.rule("CUTOVER-DRAIN")
async def test_the_old_server_is_drained_and_taken_away(
    legacy_python: Path, fastmcp_python: Path, tmp_path: Path
) -> None:
    async with both(legacy_python, fastmcp_python, tmp_path) as (app, old_server):
        outcomes: Counter[Any] = Counter()
        killed = asyncio.Event()

        async def load() -> None:
            while not killed.is_set():
                outcomes.update(await everyone(app.url))

        async with LegacyClient(app.url, headers=key(1)) as client:
            await client.initialize()
            called = {"name": "slow_compute", "arguments": {"seconds": 3, "label": "held"}, "task": {}}
            held = (await client.request("tools/call", called)).result["task"]["taskId"]
            working = asyncio.create_task(load())
            await everyone(app.url)
            app.steering.change({"rules": ["new"], "drain": ["old"]}, by="an operator")
            reasons: list[str] = []
            while not (status := await old_of(app))["can_be_switched_off"]:
                reasons += [why for why in status["because"] if why not in reasons]
                await asyncio.sleep(0.2)
            assert "open task" in " ".join(reasons)
            await old_server.aclose()
            killed.set()
            await working
            outcomes.update(await everyone(app.url))
            # what the old server made is still there, and so is what came of it
            assert await ended(client, held) == "completed"
            result = (await asked(client, "tasks/result", {"taskId": held})).result
            assert "computed held" in result["content"][0]["text"]
        assert set(outcomes) == {"completed"}
    failed = [
        event for event in events(tmp_path)
        if event["event"] == "request" and event["outcome"] != "ok" and event.get("http_status") != GONE
    ]  # fmt: skip
    assert failed == []
    print(f"{outcomes}; it waited for: {'; '.join(reasons[:3])} ... {reasons[-1]}; then killed")  # noqa: T201


@pytest.mark.rule("CUTOVER-FALLBACK")
async def test_half_way_only_what_was_on_the_old_server_fails(
    legacy_python: Path, fastmcp_python: Path, tmp_path: Path
) -> None:
    async with both(legacy_python, fastmcp_python, tmp_path) as (app, old_server), AsyncExitStack() as stack:
        app.steering.change({"rules": ["new 50%"]}, by="an operator")
        clients: list[tuple[ModernClient | LegacyClient, str]] = []
        for number in range(CALLERS):
            kind = LegacyClient if number % 2 else ModernClient
            client = await stack.enter_async_context(kind(app.url, headers=key(number)))
            called = {"name": "slow_compute", "arguments": {"seconds": 60, "label": str(number)}}
            if isinstance(client, LegacyClient):
                await client.initialize()
                called["task"] = {}
            made = (await client.request("tools/call", called)).result
            clients.append((client, str(made.get("taskId") or made["task"]["taskId"])))
        made_at = {one["task_id"]: one["upstream"] for one in await until_written(tmp_path, CALLERS)}
        await old_server.aclose()
        seen: dict[str, Counter[Any]] = {"old": Counter(), "new": Counter()}
        for client, task_id in clients:
            for method, params in (
                ("tasks/get", {"taskId": task_id}),
                ("tools/call", {"name": "greet", "arguments": {}}),
            ):
                reply = await client.request(method, params)
                error = reply.json.get("error", {})
                seen[made_at[task_id]][method, reply.status, error.get("code")] += 1
    there = Counter(made_at.values())
    assert there["old"] > 0
    assert there["new"] > 0
    assert seen["new"] == {
        ("tasks/get", 200, None): there["new"], ("tools/call", 200, None): there["new"],
    }  # fmt: skip
    assert {(status, code) for _, status, code in seen["old"]} == {(502, -32603)}
    print(seen)  # noqa: T201


async def until_written(folder: Path, count: int) -> list[dict[str, Any]]:
    """Wait until the log has that many tasks; the test's time limit ends a wait in vain."""
    while len(made := [one for one in events(folder) if one["event"] == "task.created"]) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.05)
    return made
