"""A cancel that the server would have none of: what the task came to of itself is told."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from tests.client import LegacyClient, ModernClient
from tests.corners.ml import ALICE, HandClock, corner
from tests.scripted import Error, Hang, Scripted, task, text
from tests.shim import config_for

REFUSED = Error(-32602, "Cannot cancel task: already in terminal status")
FAILED: dict[str, Any] = {
    "taskId": "t-1",
    "createdAt": "2026-01-01T00:00:00Z",
    "ttl": None,
    "status": "error",
}


@pytest.mark.rule("ML-CANCEL", "ML-SESSION-LOST")
async def test_what_ended_before_its_session_was_lost_was_not_cancelled(
    upstream: Scripted, tmp_path: Path
) -> None:
    """On a server whose tasks are bound to no session, the one in its place is asked what it came to."""
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        upstream.forget()
        upstream.on("tasks/cancel", REFUSED)
        upstream.on("tasks/get", task("task-1", "completed"))
        upstream.on("tasks/result", text("done"))
        assert (await ml.client.tasks("cancel", "task-1")).result["resultType"] == "complete"
        shown = await ml.until("task-1", "completed")
        assert shown["result"]["content"][0]["text"] == "done"


@pytest.mark.rule("ML-CANCEL", "CS-STATUS")
@pytest.mark.parametrize("passes", [False, True])
async def test_an_error_is_not_taken_for_a_cancel_that_was_refused(
    upstream: Scripted, tmp_path: Path, *, passes: bool
) -> None:
    """A server of the four-state API has one word for both; the cancel is the shim's own or passes."""
    upstream.on("tasks/create", {**FAILED, "status": "pending"})
    upstream.on("tasks/status", FAILED)
    upstream.on("tasks/result", Error(-32000, "the disk is full"))
    upstream.on("tasks/cancel", REFUSED)
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "create-status"})
    async with (
        running(config, clock=HandClock()) as app,
        ModernClient(app.url, headers=ALICE) as modern,
        LegacyClient(app.url.replace("/mcp", "/create-status"), headers=ALICE) as four,
    ):
        await four.initialize()
        client = four if passes else modern
        if passes:
            await four.request("tasks/create", {"name": "run", "arguments": {}})
        else:
            await modern.call("run")
        reply = await client.tasks("cancel", "t-1")
        assert reply.json.get("error", {}).get("code") == (-32602 if passes else None)
        shown = (await modern.tasks("get", "t-1")).result
        assert (shown["status"], shown["error"]["message"]) == ("failed", "the disk is full")


@pytest.mark.rule("ML-GET")
async def test_a_look_that_is_under_way_ends_with_the_shim(upstream: Scripted, tmp_path: Path) -> None:
    """Its client may have left: it is ended before the ledger is closed, which it writes to."""
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        upstream.once("tasks/get", Hang())
        looking = asyncio.create_task(ml.client.tasks("get", "task-1"))
        await upstream.wait("tasks/get")
        assert [one for one in ml.app.tasks.room.background if one.get_name().startswith("look at")]
        looking.cancel()
