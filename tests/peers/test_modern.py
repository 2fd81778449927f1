"""The real modern server without tasks, as it is: what the shim's modern side is measured by."""

from typing import Any

import pytest

from tests.client import TASKS_EXTENSION, ModernClient

pytestmark = pytest.mark.peers

YES = {"action": "accept", "content": {"name": "Ada", "colour": "blue"}}


async def test_it_has_no_tasks(modern_url: str) -> None:
    async with ModernClient(modern_url) as client:
        found = (await client.request("server/discover")).result
        assert TASKS_EXTENSION not in found["capabilities"].get("extensions", {})
        reply = await client.tasks("get", "nobody")
        assert [reply.status, reply.error["code"]] == [404, -32601]


async def test_what_would_be_a_task_is_answered_at_once(modern_url: str) -> None:
    async with ModernClient(modern_url) as client:
        result = (await client.call("slow_compute", {"seconds": 0, "label": "a"})).result
    assert [result["resultType"], result["structuredContent"]] == ["complete", {"seconds": 0}]


async def test_a_tool_that_raised_an_error_is_answered_with_200(modern_url: str) -> None:
    async with ModernClient(modern_url) as client:
        reply = await client.call("protocol_error_job", {"seconds": 0})
    assert [reply.status, reply.error["code"], reply.error["data"]] == [200, -32603, {"why": "asked to"}]


async def test_it_asks_in_rounds_that_its_own_state_ties_together(modern_url: str) -> None:
    async with ModernClient(modern_url) as client:
        state: dict[str, Any] = {}
        for key in ("name", "colour"):
            result = (await client.request("tools/call", {"name": "two_rounds", **state})).result
            assert [result["resultType"], list(result["inputRequests"])] == ["input_required", [key]]
            state = {"requestState": result["requestState"], "inputResponses": {key: YES}}
        result = (await client.request("tools/call", {"name": "two_rounds", **state})).result
        assert result["content"][0]["text"] == "colour of Ada: blue"
        forged = {**state, "requestState": state["requestState"][:-4] + "AAAA"}
        reply = await client.request("tools/call", {"name": "two_rounds", **forged})
        assert [reply.status, reply.error["code"]] == [400, -32602]


async def test_progress_comes_on_the_call(modern_url: str) -> None:
    async with ModernClient(modern_url) as client:
        params = {"name": "test_tool_with_progress", "_meta": {"progressToken": "p"}}
        *told, answer = (await client.request("tools/call", params)).messages
    assert [one["params"]["progress"] for one in told] == [0, 50, 100]
    assert answer["result"]["content"][0]["text"] == "done"


async def test_its_changes_are_heard_on_a_listen_stream(modern_url: str) -> None:
    uri = "test://static-text"
    wanted = {"toolsListChanged": True, "resourceSubscriptions": [uri], "taskIds": ["nobody"]}
    async with (
        ModernClient(modern_url) as client,
        client.stream("subscriptions/listen", {"notifications": wanted}) as stream,
    ):
        first = (await stream.next()).json
        assert first["params"]["notifications"] == {"toolsListChanged": True, "resourceSubscriptions": [uri]}
        await client.call("touch")
        heard = [(await stream.next()).json["method"] for _ in range(2)]
    assert heard == ["notifications/tools/list_changed", "notifications/resources/updated"]
