"""What the real mcp 1.30 server announces and logs reaches a modern client through the shim."""

from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from tests.client import ALL_KINDS, ModernClient
from tests.corners.ml import ALICE
from tests.shim import config_for

pytestmark = pytest.mark.peers

WATCHED = "test://watched-resource"
TOOLS, UPDATED = "notifications/tools/list_changed", "notifications/resources/updated"
LEVEL = "io.modelcontextprotocol/logLevel"


@pytest.mark.rule("ML-LISTEN")
@pytest.mark.parametrize("kinds", [{}, ALL_KINDS], ids=["one session", "a session for each call"])
async def test_its_changes_are_heard(legacy_url: str, tmp_path: Path, kinds: dict[str, Any]) -> None:
    wanted = {"toolsListChanged": True, "resourceSubscriptions": [WATCHED]}
    async with (
        running(config_for(legacy_url, tmp_path)) as app,
        ModernClient(app.url, headers=ALICE, capabilities=kinds) as client,
        client.stream("subscriptions/listen", {"notifications": wanted}) as stream,
    ):
        assert (await stream.message())["params"]["notifications"] == wanted
        # this server announces a resource as soon as it is subscribed to
        first = await stream.message()
        assert (first["method"], first["params"]["uri"]) == (UPDATED, WATCHED)
        assert (await client.call("touch")).result["content"][0]["text"] == "touched"
        assert {(await stream.message())["method"] for _ in range(2)} == {TOOLS, UPDATED}


@pytest.mark.rule("ML-LISTEN")
async def test_a_whole_task_is_heard(legacy_url: str, tmp_path: Path) -> None:
    async with (
        running(config_for(legacy_url, tmp_path)) as app,
        ModernClient(app.url, headers=ALICE) as client,
        client.stream("subscriptions/listen", {"notifications": ["notifications/tasks"]}) as stream,
    ):
        await stream.message()
        handle = (await client.call("confirm_delete", {"filename": "a.txt"})).result
        task: dict[str, Any] = {}
        seen = []
        while task.get("status") != "completed":
            task = (await stream.message())["params"]
            assert task["taskId"] == handle["taskId"]
            seen.append(task["status"])
            if task["status"] == "input_required":
                answers = {
                    key: {"action": "accept", "content": {"confirm": True}} for key in task["inputRequests"]
                }
                await client.tasks("update", task["taskId"], inputResponses=answers)
        assert "input_required" in seen
        assert task["result"]["content"]


@pytest.mark.rule("ML-LOGGING")
@pytest.mark.parametrize(("level", "heard"), [("info", 3), ("error", 0), (None, 0)])
async def test_its_log_is_heard(legacy_url: str, tmp_path: Path, level: str | None, heard: int) -> None:
    async with (
        running(config_for(legacy_url, tmp_path)) as app,
        ModernClient(app.url, headers=ALICE) as client,
    ):
        reply = await client.call("test_tool_with_logging", meta={LEVEL: level} if level else {})
        assert len(reply.messages) == heard + 1
