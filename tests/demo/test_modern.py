"""The demo's modern server: what a client of SEP-2663 may rely on."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from shim.demo.modern import start
from tests.client import ModernClient


@pytest_asyncio.fixture
async def client() -> AsyncIterator[ModernClient]:
    runner, url = await start(poll_interval_ms=20)
    async with ModernClient(url) as modern:
        yield modern
    await runner.cleanup()


async def ended(client: ModernClient, task_id: str) -> Any:
    while (seen := (await client.tasks("get", task_id)).result)["status"] in {"working", "input_required"}:
        if (asked := seen.get("inputRequests")) is not None:
            answers = {key: {"action": "accept", "content": {"confirm": True}} for key in asked}
            await client.tasks("update", task_id, inputResponses=answers)
    return seen


async def test_it_says_that_it_has_tasks(client: ModernClient) -> None:
    found = (await client.request("server/discover", {})).result
    assert found["capabilities"]["extensions"] == {"io.modelcontextprotocol/tasks": {}}
    assert found["supportedVersions"] == ["2026-07-28"]


async def test_a_call_is_answered_or_becomes_a_task(client: ModernClient) -> None:
    assert (await client.call("greet", {"name": "Ada"})).result["resultType"] == "complete"
    made = (await client.call("resize_images", {"count": 1, "seconds": 0})).result
    assert (made["resultType"], made["ttlMs"]) == ("task", None)
    seen = await ended(client, made["taskId"])
    assert seen["result"]["structuredContent"] == {"resized": 1}
    assert seen["result"]["resultType"] == "complete"


async def test_it_asks_and_goes_on(client: ModernClient) -> None:
    made = (await client.call("deploy", {"seconds": 0})).result
    assert (await ended(client, made["taskId"]))["result"]["structuredContent"] == {"deployed": True}


async def test_both_kinds_of_failing(client: ModernClient) -> None:
    tool_error = await ended(client, (await client.call("fails")).result["taskId"])
    assert (tool_error["status"], tool_error["result"]["isError"]) == ("completed", True)
    crashed = await ended(client, (await client.call("crashes")).result["taskId"])
    assert (crashed["status"], crashed["error"]["code"]) == ("failed", -32000)


async def test_cancel_is_acknowledged(client: ModernClient) -> None:
    made = (await client.call("resize_images", {"seconds": 600})).result
    assert (await client.tasks("cancel", made["taskId"])).result["resultType"] == "complete"
    assert (await ended(client, made["taskId"]))["status"] == "cancelled"


async def test_what_it_refuses(client: ModernClient) -> None:
    client.declares_tasks = False
    refused = await client.call("deploy", {})
    assert (refused.status, refused.error["code"]) == (400, -32021)
    assert (await client.call("resize_images", {"count": 0})).result["resultType"] == "complete"
    gone = await client.request("tasks/list", {})
    assert (gone.status, gone.error["code"]) == (404, -32601)
    unknown = await client.tasks("get", "nobody")
    assert (unknown.status, unknown.error["code"]) == (400, -32602)
