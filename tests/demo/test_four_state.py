"""The demo's four-state server, with sessions and without."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from shim.demo import four_state
from tests.client import LegacyClient


@pytest.fixture
async def client() -> AsyncIterator[LegacyClient]:
    runner, url = await four_state.start()
    async with LegacyClient(url) as client:
        await client.initialize()
        yield client
    await runner.cleanup()


@pytest.fixture
async def stateless() -> AsyncIterator[LegacyClient]:
    runner, url = await four_state.start(sessions=False)
    async with LegacyClient(url) as client:
        yield client
    await runner.cleanup()


@pytest.fixture(params=["sessions", "none"])
def either(request: pytest.FixtureRequest) -> LegacyClient:
    name = {"sessions": "client", "none": "stateless"}[request.param]
    found: LegacyClient = request.getfixturevalue(name)
    return found


async def create(client: LegacyClient, tool: str, **arguments: Any) -> str:
    reply = await client.request("tasks/create", {"name": tool, "arguments": arguments})
    assert set(reply.result) == {"taskId", "status", "createdAt", "ttl", "pollInterval"}
    assert (reply.result["status"], reply.result["ttl"]) == ("pending", None)
    return str(reply.result["taskId"])


@pytest.mark.parametrize(
    "params",
    [
        {"name": "resize_images", "arguments": {"seconds": 0}, "ttl": 60_000},
        {
            "method": "tools/call",
            "params": {"name": "resize_images", "arguments": {"seconds": 0}},
            "ttl": 60_000,
        },
    ],
)
async def test_both_ways_to_create(either: LegacyClient, params: dict[str, Any]) -> None:
    made = (await either.request("tasks/create", params)).result
    done = await either.tasks("result", made["taskId"])
    assert done.result["structuredContent"] == {"resized": 4}
    assert "_meta" not in done.result
    shown = (await either.tasks("status", made["taskId"])).result
    assert (shown["status"], shown["ttl"]) == ("done", 60_000)


async def test_it_runs_after_pending(either: LegacyClient) -> None:
    task_id = await create(either, "resize_images", seconds=1000)
    shown = (await either.tasks("status", task_id)).result
    assert (shown["status"], shown["statusMessage"]) == ("running", "resized 0 of 4 images")


async def test_errors(either: LegacyClient) -> None:
    failed, crashed = await create(either, "fails"), await create(either, "crashes")
    assert (await either.tasks("result", failed)).result["isError"] is True
    assert (await either.tasks("result", crashed)).error["code"] == -32000
    assert [(await either.tasks("status", task_id)).result["status"] for task_id in (failed, crashed)] == [
        "error"
    ] * 2


async def test_cancel_is_an_error_here(either: LegacyClient) -> None:
    task_id = await create(either, "resize_images", seconds=1000)
    shown = (await either.tasks("cancel", task_id)).result
    assert (shown["status"], shown["statusMessage"]) == ("error", "cancelled")
    assert (await either.tasks("cancel", task_id)).error["code"] == -32602
    assert (await either.tasks("result", task_id)).error["code"] == -32603


async def test_the_list(either: LegacyClient) -> None:
    made = [await create(either, "greet") for _ in range(11)]
    page = (await either.request("tasks/list")).result
    rest = (await either.request("tasks/list", {"cursor": page["nextCursor"]})).result
    assert [task["taskId"] for task in page["tasks"] + rest["tasks"]] == made[::-1]
    assert {task["status"] for task in page["tasks"]} == {"done"}


@pytest.mark.parametrize("on_get", [True, False])
async def test_with_a_session_questions_are_server_requests(client: LegacyClient, on_get: bool) -> None:  # noqa: FBT001
    if on_get:
        async with client.get() as stream:
            task_id = await create(client, "deploy", seconds=0)
            question = await stream.message()
    else:
        task_id = await create(client, "deploy", seconds=0)
        async with client.stream("tasks/result", {"taskId": task_id}) as stream:
            question = await stream.message()
    assert question["method"] == "elicitation/create"
    assert "_meta" not in question["params"]
    shown = (await client.tasks("status", task_id)).result
    assert (shown["status"], shown["statusMessage"]) == ("running", "input required")
    assert "inputRequests" not in shown
    await client.respond(question["id"], {"action": "accept", "content": {"confirm": True}})
    assert (await client.tasks("result", task_id)).result["structuredContent"] == {"deployed": True}


async def test_a_waiting_question_is_asked_when_a_get_stream_comes(client: LegacyClient) -> None:
    task_id = await create(client, "deploy", seconds=0)
    async with client.get() as stream:
        question = await stream.message()
    assert question["id"].startswith(task_id)


async def test_without_a_session_questions_stand_in_the_status(stateless: LegacyClient) -> None:
    task_id = await create(stateless, "deploy", seconds=0)
    shown = (await stateless.tasks("status", task_id)).result
    [(key, question)] = shown["inputRequests"].items()
    assert question["method"] == "elicitation/create"
    answer = {key: {"action": "accept", "content": {"confirm": True}}, "other": {}}
    for _ in range(2):
        assert (await stateless.tasks("inputResponse", task_id, inputResponses=answer)).result == {}
    assert (await stateless.tasks("result", task_id)).result["structuredContent"] == {"deployed": True}


async def test_a_plain_call_asks_on_its_own_stream(client: LegacyClient) -> None:
    async with client.stream("tools/call", {"name": "deploy", "arguments": {"seconds": 0}}) as stream:
        question = await stream.message()
        await client.respond(question["id"], {"action": "accept", "content": {"confirm": True}})
        assert (await stream.message())["result"]["structuredContent"] == {"deployed": True}


async def test_a_plain_call_without_a_session_cannot_ask(stateless: LegacyClient) -> None:
    reply = await stateless.call("deploy", {"seconds": 0})
    assert reply.result["structuredContent"] == {"deployed": False}


async def test_without_sessions_there_are_none(stateless: LegacyClient) -> None:
    assert "Mcp-Session-Id" not in (await stateless.initialize()).headers
    assert (await stateless.delete()).status == 405
    async with stateless.get() as stream:
        assert stream.status == 405


async def test_sessions_own_their_tasks(client: LegacyClient) -> None:
    task_id = await create(client, "resize_images", seconds=1000)
    await client.initialize()
    for verb in ("status", "result", "cancel", "inputResponse"):
        assert (await client.tasks(verb, task_id)).error["code"] == -32602


async def test_cancel_may_be_missing() -> None:
    runner, url = await four_state.start(cancel=False, sessions=False)
    async with LegacyClient(url) as client:
        task_id = await create(client, "greet")
        assert (await client.tasks("cancel", task_id)).error["code"] == -32601
    await runner.cleanup()


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tasks/create", {"name": "nothing"}, -32602),
        ("tasks/create", {"method": "prompts/get", "params": {}}, -32602),
        ("tasks/create", {"name": "greet", "ttl": True}, -32602),
        ("tasks/create", {"name": "greet", "arguments": []}, -32602),
        ("tasks/status", {"taskId": 1}, -32602),
        ("tasks/get", {"taskId": "x"}, -32601),
    ],
)
async def test_what_is_refused(either: LegacyClient, method: str, params: dict[str, Any], code: int) -> None:
    assert (await either.request(method, params)).error["code"] == code
