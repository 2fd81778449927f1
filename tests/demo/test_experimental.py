"""The demo's experimental server, met by a raw client and held against the 2025-11-25 models."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from shim.demo import experimental
from tests.client import RELATED_TASK, LegacyClient
from tests.models import check_legacy as check


@pytest.fixture
async def client() -> AsyncIterator[LegacyClient]:
    runner, url = await experimental.start(page_size=2, keep_alive_ms=50)
    async with LegacyClient(url) as client:
        await client.initialize()
        yield client
    await runner.cleanup()


async def create(client: LegacyClient, tool: str, ttl: int | None = None, **arguments: object) -> str:
    reply = await client.call(tool, arguments, task={} if ttl is None else {"ttl": ttl})
    check("CreateTaskResult", reply.result)
    assert reply.result["task"]["status"] == "working"
    assert reply.result["task"]["ttl"] == ttl
    return str(reply.result["task"]["taskId"])


async def test_it_initializes_and_lists_its_tools(client: LegacyClient) -> None:
    again = await client.initialize()
    check("InitializeResult", again.result)
    assert again.result["capabilities"]["tasks"]["requests"]["tools"]["call"] == {}
    tools = (await client.request("tools/list")).result
    check("ListToolsResult", tools)
    support = {tool["name"]: tool.get("execution", {}).get("taskSupport") for tool in tools["tools"]}
    assert support == {
        "greet": None,
        "resize_images": "optional",
        "deploy": "required",
        "fails": "optional",
        "crashes": "optional",
    }


async def test_plain_calls_are_answered(client: LegacyClient) -> None:
    reply = await client.call("greet", {"name": "Ada"})
    check("CallToolResult", reply.result)
    assert reply.result["content"][0]["text"] == "Hello, Ada!"
    assert (await client.call("resize_images", {"seconds": 0})).result["structuredContent"] == {"resized": 4}
    assert (await client.call("fails")).result["isError"] is True
    assert (await client.call("crashes")).error["data"] == {"signal": "SIGSEGV"}


async def test_a_task_runs_to_its_result(client: LegacyClient) -> None:
    task_id = await create(client, "resize_images", ttl=60_000, count=2, seconds=0)
    done = await client.tasks("result", task_id)
    check("CallToolResult", done.result)
    assert done.result["_meta"] == {RELATED_TASK: {"taskId": task_id}}
    shown = (await client.tasks("get", task_id)).result
    check("GetTaskResult", shown)
    assert shown["status"] == "completed"
    assert shown["pollInterval"] == 500


async def test_an_elicitation_travels_on_the_open_result_stream(client: LegacyClient) -> None:
    task_id = await create(client, "deploy", environment="staging", seconds=0)
    async with client.stream("tasks/result", {"taskId": task_id}) as stream:
        question = await stream.message()
        check("ElicitRequest", question)
        assert question["params"]["_meta"] == {RELATED_TASK: {"taskId": task_id}}
        assert (await client.tasks("get", task_id)).result["status"] == "input_required"
        while not (await stream.next_raw()).comment:
            pass
        answer = {"action": "accept", "content": {"confirm": True}}
        assert (await client.respond(question["id"], answer)).status == 202
        assert (await client.respond(question["id"], answer)).status == 202
        assert [message["result"]["structuredContent"] for message in await stream.rest()] == [
            {"deployed": True}
        ]


async def test_a_question_left_unanswered_is_asked_again_on_the_next_stream(client: LegacyClient) -> None:
    task_id = await create(client, "deploy", seconds=0)
    async with client.stream("tasks/result", {"taskId": task_id}) as stream:
        first = await stream.message()
    async with client.stream("tasks/result", {"taskId": task_id}) as stream:
        second = await stream.message()
        await client.respond_error(second["id"], -1)
        last = await stream.message()
    assert first == second
    assert last["result"]["structuredContent"] == {"deployed": False}


async def test_who_cannot_be_asked_has_declined(client: LegacyClient) -> None:
    client.capabilities = {}
    await client.initialize()
    task_id = await create(client, "deploy", seconds=0)
    assert (await client.tasks("result", task_id)).result["structuredContent"] == {"deployed": False}


async def test_failures_are_told_as_the_published_text_says(client: LegacyClient) -> None:
    failed, crashed = await create(client, "fails"), await create(client, "crashes")
    assert (await client.tasks("result", failed)).result["isError"] is True
    assert (await client.tasks("result", crashed)).error["code"] == -32000
    for task_id, message in ((failed, "The disk is full."), (crashed, "The worker crashed.")):
        shown = (await client.tasks("get", task_id)).result
        assert (shown["status"], shown["statusMessage"]) == ("failed", message)


async def test_cancel_ends_the_task_and_lets_the_waiters_go(client: LegacyClient) -> None:
    task_id = await create(client, "resize_images", seconds=1000)
    async with client.stream("tasks/result", {"taskId": task_id}) as stream:
        reply = await client.tasks("cancel", task_id)
        check("CancelTaskResult", reply.result)
        assert reply.result["status"] == "cancelled"
        assert (await stream.message())["error"]["code"] == -32603
    assert (await client.tasks("cancel", task_id)).error["code"] == -32602
    assert (await client.tasks("result", task_id)).error["code"] == -32603


async def test_cancelling_the_request_ends_only_the_waiting(client: LegacyClient) -> None:
    task_id = await create(client, "resize_images", seconds=1000)
    async with client.stream("tasks/result", {"taskId": task_id}, id="mine") as stream:
        await client.notify("notifications/cancelled", {"requestId": "mine"})
        assert await stream.rest() == []
    assert (await client.tasks("get", task_id)).result["status"] == "working"


async def test_the_list_comes_in_pages_newest_first(client: LegacyClient) -> None:
    made = [await create(client, "resize_images", seconds=0) for _ in range(3)]
    page = (await client.request("tasks/list")).result
    check("ListTasksResult", page)
    rest = (await client.request("tasks/list", {"cursor": page["nextCursor"]})).result
    assert [task["taskId"] for task in page["tasks"] + rest["tasks"]] == made[::-1]
    assert "nextCursor" not in rest
    assert (await client.request("tasks/list", {"cursor": "x"})).error["code"] == -32602


async def test_sessions_own_their_tasks(client: LegacyClient) -> None:
    task_id = await create(client, "resize_images", seconds=1000)
    mine = client.session
    await client.initialize()
    for verb in ("get", "result", "cancel"):
        error = (await client.tasks(verb, task_id)).error
        assert error == {"code": -32602, "message": "Failed to retrieve task: Task not found"}
    assert (await client.request("tasks/list")).result == {"tasks": []}
    client.session = mine
    assert (await client.delete()).status == 200
    for reply in (await client.request("ping"), await client.delete()):
        assert reply.status == 404
    async with client.get() as stream:
        assert stream.status == 404


async def test_the_get_stream_tells_of_changes_and_is_one(client: LegacyClient) -> None:
    async with client.get() as stream:
        async with client.get() as second:
            assert second.status == 409
        task_id = await create(client, "resize_images", count=1, seconds=0)
        notices = [await stream.message(), await stream.message()]
        check("TaskStatusNotification", notices[1])
        assert [(n["params"]["taskId"], n["params"]["status"]) for n in notices] == [
            (task_id, "working"),
            (task_id, "completed"),
        ]
        await client.delete()
        assert await stream.rest() == []


class Frozen:
    """A clock a test moves."""

    moment = 1_000_000

    def now_ms(self) -> int:
        return self.moment

    def ticks_ms(self) -> float:
        return self.moment

    async def sleep_ms(self, duration_ms: float) -> None:
        if duration_ms:
            await asyncio.Event().wait()


async def test_a_task_is_gone_after_its_ttl() -> None:
    clock = Frozen()
    runner, url = await experimental.start(clock=clock)
    async with LegacyClient(url) as client:
        await client.initialize()
        task_id = await create(client, "resize_images", ttl=10)
        clock.moment += 11
        assert (await client.tasks("get", task_id)).error["code"] == -32602
        assert (await client.request("tasks/list")).result == {"tasks": []}
    await runner.cleanup()


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("tools/call", {"name": "greet", "task": {}}, -32601),
        ("tools/call", {"name": "deploy"}, -32601),
        ("tools/call", {"name": "nothing"}, -32602),
        ("tools/call", {"name": "fails", "task": {"ttl": "1"}}, -32602),
        ("tools/call", {"name": "fails", "task": 1}, -32602),
        ("tools/call", {"name": "fails", "arguments": {"seconds": -1}}, -32602),
        ("tasks/get", {}, -32602),
        ("tasks/create", {}, -32601),
        ("server/discover", {}, -32601),
    ],
)
async def test_what_is_refused(
    client: LegacyClient, method: str, params: dict[str, object], code: int
) -> None:
    assert (await client.request(method, params)).error["code"] == code


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[" * 100_000, {}, 400),
        (b"[]", {}, 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', {"Mcp-Session-Id": None}, 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', {"Mcp-Session-Id": "x"}, 404),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', {"MCP-Protocol-Version": "2026-07-28"}, 400),
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', {"Accept": "application/json"}, 406),
        (b'{"jsonrpc":"2.0","id":1,"method":"initialize"}', {}, 400),
        (b'{"jsonrpc":"2.0","method":"notifications/x"}', {}, 202),
    ],
)
async def test_statuses(
    client: LegacyClient, body: bytes, headers: dict[str, str | None], status: int
) -> None:
    assert (await client.post(body, headers=headers)).status == status
