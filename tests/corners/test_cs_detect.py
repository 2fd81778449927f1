"""Which legacy dialect a request is in, told in the order the rule names (CS-DETECT)."""

from pathlib import Path
from typing import Any

import pytest

from shim.demo import experimental
from tests.client import RELATED_TASK, LegacyClient
from tests.corners.test_cs_pairs import ALICE, in_front

CALL = {"name": "resize_images", "arguments": {"seconds": 0}}


def is_four_state(result: dict[str, Any]) -> bool:
    """Tell by what only one of the two dialects puts into a result."""
    return RELATED_TASK not in result.get("_meta", {})


@pytest.mark.rule("CS-DETECT")
@pytest.mark.parametrize("opens", [True, False])
@pytest.mark.parametrize(
    ("path", "maker", "four"),
    [
        pytest.param("/create-status", "experimental", True, id="the pinned path comes first"),
        pytest.param("/mcp", "create-status", True, id="then the dialect of the task's row"),
        pytest.param("/mcp", "experimental", False, id="which may be the other"),
    ],
)
async def test_the_dialect_of_a_result(
    tmp_path: Path, path: str, maker: str, *, four: bool, opens: bool
) -> None:
    async with in_front(experimental, tmp_path) as app, LegacyClient(app.url, headers=ALICE) as client:
        await client.initialize()
        if maker == "create-status":
            task_id = (await client.request("tasks/create", CALL)).result["taskId"]
        else:
            task_id = (await client.request("tools/call", {**CALL, "task": {}})).result["task"]["taskId"]
        url = app.url.replace("/mcp", path)
        async with LegacyClient(url, headers=ALICE) as asking:
            if opens:
                await asking.initialize()
            done = (await asking.tasks("result", task_id)).result
        assert done["structuredContent"] == {"resized": 4}
        assert is_four_state(done) == four


@pytest.mark.rule("CS-DETECT")
async def test_then_the_sessions_last_then_experimental(tmp_path: Path) -> None:
    async with in_front(experimental, tmp_path) as app, LegacyClient(app.url, headers=ALICE) as client:
        await client.initialize()
        await client.request("tools/call", {**CALL, "task": {}})
        [listed] = (await client.request("tasks/list")).result["tasks"]
        assert "lastUpdatedAt" in listed
        await client.request("tasks/create", CALL)
        listed = (await client.request("tasks/list")).result["tasks"]
        assert not any("lastUpdatedAt" in one for one in listed)
