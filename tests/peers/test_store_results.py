"""`ledger.store_results = false` in front of real servers, over a restart of the shim (DUR-8)."""

from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from tests.client import LegacyClient, ModernClient
from tests.corners.ml import ALICE, accept
from tests.planted import in_ledgers
from tests.shim import config_for

pytestmark = [pytest.mark.peers, pytest.mark.rule("DUR-8")]

OFF: dict[str, Any] = {"ledger": {"store_results": False}}


@pytest.fixture(params=["legacy_url", "fastmcp_url"])
def server(request: pytest.FixtureRequest) -> tuple[str, str]:
    """A server of each era: its fixture's name and its address."""
    return request.param, request.getfixturevalue(request.param)


async def made(client: ModernClient, name: str, arguments: dict[str, Any]) -> str:
    """Make a task; what `client.call` plants fastmcp refuses."""
    reply = await client.request("tools/call", {"name": name, "arguments": arguments})
    return str(reply.result["taskId"])


async def until(client: ModernClient, task_id: str, status: str) -> Any:
    while (seen := (await client.tasks("get", task_id)).result)["status"] != status:
        pass
    return seen


async def test_a_result_is_asked_for_again(server: tuple[str, str], tmp_path: Path) -> None:
    config = config_for(server[1], tmp_path, **OFF)
    async with running(config) as app, ModernClient(app.url, headers=ALICE) as client:
        task_id = await made(client, "slow_compute", {"seconds": 0, "label": "a"})
        before = await until(client, task_id, "completed")
    async with (
        running(config) as app,
        ModernClient(app.url, headers=ALICE) as client,
        LegacyClient(app.url, headers=ALICE) as old,
    ):
        assert (await client.tasks("get", task_id)).result["result"] == before["result"]
        await old.initialize()
        told = (await old.tasks("result", task_id)).result
        assert told["content"] == before["result"]["content"]
    assert in_ledgers(tmp_path) == []


async def test_a_question_is_answered_after_the_restart(server: tuple[str, str], tmp_path: Path) -> None:
    """mcp 1.30 asks once, and takes the answer; a server of SEP-2663 shows its question again, too."""
    config = config_for(server[1], tmp_path, **OFF)
    async with running(config) as app, ModernClient(app.url, headers=ALICE) as client:
        task_id = await made(client, "confirm_delete", {"filename": "a"})
        [(key, asked)] = (await until(client, task_id, "input_required"))["inputRequests"].items()
    async with running(config) as app, ModernClient(app.url, headers=ALICE) as client:
        if server[0] == "fastmcp_url":
            again = await until(client, task_id, "input_required")
            assert again["inputRequests"] == {key: asked}
        answers = {key: accept(confirm=True)}
        await client.tasks("update", task_id, inputResponses=answers)
        ended = await until(client, task_id, "completed")
    assert "a" in ended["result"]["content"][0]["text"]
    assert in_ledgers(tmp_path) == []
