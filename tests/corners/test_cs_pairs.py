"""The four-state dialect against the demo servers: each pair of dialects, with sessions and without."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shim.app import App, running
from shim.demo import experimental, four_state
from tests.client import RELATED_TASK, LegacyClient, ModernClient, OpenStream
from tests.models import check_legacy
from tests.shim import config_for

ALICE, BOB = {"X-Api-Key": "a-key"}, {"X-Api-Key": "b-key"}
ENDED = {"done", "error", "completed", "failed", "cancelled"}
YES = {"action": "accept", "content": {"confirm": True}}
FIELDS = {"taskId", "status", "createdAt", "ttl", "pollInterval"}


@asynccontextmanager
async def in_front(
    module: ModuleType, folder: Path, *, sessions: bool = True, cancel: bool = True, **sections: Any
) -> AsyncIterator[App]:
    """Run a demo server and a shim in front of it that knows two callers by their keys."""
    four = module is four_state
    options = {"cancel": cancel} if four else {}
    runner, url = await module.start(sessions=sessions, poll_interval_ms=20, **options)
    identity = {"sources": ("api_key",), "api_key": {"keys": {"alice": "a-key", "bob": "b-key"}}}
    upstream = {
        "dialect": "create-status" if four else "experimental",
        "sessions": sessions,
        **sections.pop("upstream", {}),
    }
    config = config_for(url, folder, upstream=upstream, identity=identity, **sections)
    try:
        async with running(config) as app:
            yield app
    finally:
        await runner.cleanup()


FOUR_STATE_PAIRS = [
    pytest.param((four_state, True, True), id="four-state server, session"),
    pytest.param((four_state, False, False), id="four-state server without sessions"),
    pytest.param((experimental, True, True), id="experimental server, session"),
    pytest.param((experimental, True, False), id="experimental server, no session"),
    pytest.param((four_state, True, False), id="four-state server, no session"),
]


@pytest.fixture(params=FOUR_STATE_PAIRS)
async def four(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[LegacyClient]:
    """A four-state client of each pair."""
    module, sessions, opens = request.param
    async with (
        in_front(module, tmp_path, sessions=sessions) as app,
        LegacyClient(app.url, headers=ALICE) as client,
    ):
        if opens:
            await client.initialize()
        yield client


async def create(client: LegacyClient, tool: str, **arguments: Any) -> dict[str, Any]:
    reply = await client.request("tasks/create", {"name": tool, "arguments": arguments})
    made: dict[str, Any] = reply.result
    return made


def pinned(client: LegacyClient) -> str:
    """The address on which everything is four-state: `tasks/list` says nothing by itself."""
    return client.url.replace("/mcp", "/create-status")


async def poll(client: LegacyClient, task_id: str, verb: str = "status") -> dict[str, Any]:
    while True:
        shown: dict[str, Any] = (await client.tasks(verb, task_id)).result
        if shown["status"] in ENDED:
            return shown
        await asyncio.sleep(0.02)  # the pace the server asked for


@pytest.mark.rule("CS-CREATE")
@pytest.mark.parametrize("nested", [False, True])
async def test_both_ways_to_create(four: LegacyClient, *, nested: bool) -> None:
    call = {"name": "resize_images", "arguments": {"seconds": 0}}
    params = {"method": "tools/call", "params": call} if nested else call
    reply = await four.request("tasks/create", {**params, "ttl": 60_000})
    assert set(reply.result) == FIELDS
    assert (reply.result["status"], reply.result["ttl"]) == ("pending", 60_000)


@pytest.mark.rule("CS-CREATE")
async def test_only_a_tools_call_runs_as_a_task(four: LegacyClient) -> None:
    reply = await four.request("tasks/create", {"method": "prompts/get", "params": {"name": "x"}})
    assert reply.error["code"] == -32602


@pytest.mark.rule("CS-STATUS", "CS-RESULT")
async def test_a_task_runs_and_gives_its_result(four: LegacyClient) -> None:
    made = await create(four, "resize_images", seconds=0)
    shown = await poll(four, made["taskId"])
    assert (shown["status"], set(shown) - {"statusMessage"}) == ("done", FIELDS)
    done = await four.tasks("result", made["taskId"])
    assert done.result["structuredContent"] == {"resized": 4}
    assert "_meta" not in done.result


@pytest.mark.rule("CS-RESULT")
async def test_the_result_is_waited_for(four: LegacyClient) -> None:
    made = await create(four, "resize_images", seconds=0.1)
    done = await four.tasks("result", made["taskId"])
    assert done.result["structuredContent"] == {"resized": 4}


@pytest.mark.rule("CS-STATUS", "CS-RESULT")
async def test_a_failure_is_an_error(four: LegacyClient) -> None:
    made = await create(four, "crashes")
    assert (await poll(four, made["taskId"]))["status"] == "error"
    reply = await four.tasks("result", made["taskId"])
    assert reply.error == {"code": -32000, "message": "The worker crashed.", "data": {"signal": "SIGSEGV"}}


@pytest.mark.rule("CS-STATUS", "LM-GET")
async def test_a_tools_own_error_is_an_error_whose_result_can_be_had(four: LegacyClient) -> None:
    made = await create(four, "fails")
    shown = await poll(four, made["taskId"])
    assert (shown["status"], shown["statusMessage"]) == ("error", "The disk is full.")
    assert (await four.tasks("result", made["taskId"])).result["isError"] is True
    [listed] = (await four.request("tasks/list", url=pinned(four))).result["tasks"]
    assert (listed["status"], listed["statusMessage"]) == ("error", "The disk is full.")


@pytest.mark.rule("CS-CANCEL", "CS-STATUS")
async def test_a_cancelled_task_is_an_error_that_says_so(four: LegacyClient) -> None:
    made = await create(four, "resize_images", seconds=60)
    reply = await four.tasks("cancel", made["taskId"])
    assert (reply.result["status"], reply.result["statusMessage"]) == ("error", "cancelled")
    shown = await poll(four, made["taskId"])
    assert (shown["status"], shown["statusMessage"]) == ("error", "cancelled")
    assert (await four.tasks("cancel", made["taskId"])).error["code"] == -32602


@pytest.mark.rule("CS-LIST")
async def test_the_list_has_four_state_rows_newest_first(four: LegacyClient) -> None:
    made = [(await create(four, "resize_images", seconds=60))["taskId"] for _ in range(3)]
    listed = (await four.request("tasks/list", url=pinned(four))).result["tasks"]
    assert [one["taskId"] for one in listed] == made[::-1]
    assert {one["status"] for one in listed} <= {"pending", "running"}
    assert all(set(one) - {"statusMessage"} == FIELDS for one in listed)


@pytest.mark.rule("CS-INPUT")
async def test_a_question_is_answered(four: LegacyClient) -> None:
    made = await create(four, "deploy", seconds=0)
    if four.session is None:
        while "inputRequests" not in (shown := (await four.tasks("status", made["taskId"])).result):
            assert shown["status"] not in ENDED
        assert (shown["status"], shown["statusMessage"]) == ("running", "input required")
        [[key, asked]] = shown["inputRequests"].items()
        assert asked["method"] == "elicitation/create"
        reply = await four.tasks("inputResponse", made["taskId"], inputResponses={key: YES})
        assert reply.result == {}
        done = (await four.tasks("result", made["taskId"])).result
    else:
        async with four.stream("tasks/result", {"taskId": made["taskId"]}) as stream:
            asked = await stream.message()
            assert asked["method"] == "elicitation/create"
            assert "_meta" not in asked["params"]
            assert (await four.respond(asked["id"], YES)).status == 202
            done = (await stream.message())["result"]
    assert done["structuredContent"] == {"deployed": True}


@pytest.mark.rule("CS-INPUT")
async def test_a_client_with_a_session_may_answer_by_the_method_too(four: LegacyClient) -> None:
    made = await create(four, "deploy", seconds=0)
    if four.session is None:
        return  # that is the test above
    async with four.stream("tasks/result", {"taskId": made["taskId"]}) as stream:
        asked = await stream.message()
        reply = await four.tasks("inputResponse", made["taskId"], inputResponses={str(asked["id"]): YES})
        assert reply.result == {}
        # nobody has to answer the request of that id any more
        rest = [one for one in await stream.rest() if one.get("method") != "notifications/cancelled"]
        assert [one["result"]["structuredContent"] for one in rest] == [{"deployed": True}]


@pytest.mark.rule("LL-OWN")
@pytest.mark.parametrize("verb", ["status", "result", "cancel", "inputResponse"])
async def test_a_foreign_task_is_an_unknown_one(four: LegacyClient, verb: str) -> None:
    made = await create(four, "resize_images", seconds=60)
    async with LegacyClient(four.url, headers=BOB) as bob:
        await bob.initialize()
        told = [await bob.tasks(verb, task, id=1, inputResponses={}) for task in (made["taskId"], "nobody's")]
    assert told[0].body == told[1].body
    assert told[0].error["code"] == -32602


# an experimental client on a four-state server


@pytest.fixture
async def old(tmp_path: Path) -> AsyncIterator[LegacyClient]:
    async with (
        in_front(four_state, tmp_path) as app,
        LegacyClient(app.url, headers=ALICE) as client,
    ):
        reply = await client.initialize()
        assert reply.result["capabilities"]["tasks"] == {
            "list": {},
            "cancel": {},
            "requests": {"tools": {"call": {}}},
        }
        check_legacy("InitializeResult", reply.result)
        yield client


@pytest.mark.rule("LL-1")
async def test_an_experimental_client_runs_a_task_on_a_four_state_server(old: LegacyClient) -> None:
    made = (await old.call("resize_images", {"seconds": 0}, task={"ttl": 60_000})).result
    check_legacy("CreateTaskResult", made)
    assert made["task"]["status"] == "working"
    task_id = made["task"]["taskId"]
    shown = await poll(old, task_id, "get")
    check_legacy("GetTaskResult", shown)
    assert (shown["status"], shown["ttl"]) == ("completed", 60_000)
    done = (await old.tasks("result", task_id)).result
    assert done["structuredContent"] == {"resized": 4}
    assert done["_meta"] == {RELATED_TASK: {"taskId": task_id}}
    listed = (await old.request("tasks/list")).result
    check_legacy("ListTasksResult", listed)
    assert [one["taskId"] for one in listed["tasks"]] == [task_id]


@pytest.mark.rule("LL-1")
async def test_an_experimental_client_answers_a_four_state_servers_question(old: LegacyClient) -> None:
    task_id = (await old.call("deploy", {"seconds": 0}, task={})).result["task"]["taskId"]
    async with old.stream("tasks/result", {"taskId": task_id}) as stream:
        asked = await stream.message()
        assert asked["params"]["_meta"] == {RELATED_TASK: {"taskId": task_id}}
        assert (await old.tasks("get", task_id)).result["status"] == "input_required"
        await old.respond(asked["id"], YES)
        assert (await stream.message())["result"]["structuredContent"] == {"deployed": True}


@pytest.mark.rule("LL-ROUTE", "INPUT-GONE")
async def test_a_question_that_was_answered_elsewhere_is_called_off(old: LegacyClient) -> None:
    task_id = (await old.call("deploy", {"seconds": 0}, task={})).result["task"]["taskId"]
    async with (
        old.stream("tasks/result", {"taskId": task_id}) as stream,
        ModernClient(old.url, headers=ALICE) as modern,
    ):
        asked = await stream.message()
        [key] = (await modern.tasks("get", task_id)).result["inputRequests"]
        await modern.tasks("update", task_id, inputResponses={key: YES})
        told = await stream.message()
        assert (told["method"], told["params"]) == ("notifications/cancelled", {"requestId": asked["id"]})
        assert (await stream.message())["result"]["structuredContent"] == {"deployed": True}


@pytest.mark.rule("LL-1", "CS-INPUT")
async def test_a_question_on_the_get_stream_is_made_to_fit_and_not_asked_twice(old: LegacyClient) -> None:
    async with old.get() as inbox:
        task_id = (await old.call("deploy", {"seconds": 0}, task={})).result["task"]["taskId"]
        asked = await _question(inbox)
        assert asked["params"]["_meta"] == {RELATED_TASK: {"taskId": task_id}}
        async with old.stream("tasks/result", {"taskId": task_id}) as stream:
            await old.respond(asked["id"], YES)
            assert [list(one) for one in await stream.rest()] == [["jsonrpc", "id", "result"]]


@pytest.mark.rule("LL-1")
async def test_tools_say_that_they_run_as_tasks(tmp_path: Path) -> None:
    overrides = {"tool_support": {"greet": "forbidden"}}
    async with (
        in_front(four_state, tmp_path, upstream=overrides) as app,
        LegacyClient(app.url, headers=ALICE) as client,
    ):
        await client.initialize()
        tools = (await client.request("tools/list")).result["tools"]
        support = {tool["name"]: tool["execution"]["taskSupport"] for tool in tools}
    assert support.pop("greet") == "forbidden"
    assert set(support.values()) == {"optional"}


@pytest.mark.rule("LL-1")
async def test_a_cancel_of_an_ended_task_is_refused(old: LegacyClient) -> None:
    task_id = (await old.call("resize_images", {"seconds": 60}, task={})).result["task"]["taskId"]
    assert (await old.tasks("cancel", task_id)).result["status"] == "cancelled"
    assert (await old.tasks("get", task_id)).result["status"] == "cancelled"
    assert (await old.tasks("cancel", task_id)).error["code"] == -32602
    assert (await old.tasks("result", task_id)).error == {"code": -32603, "message": "task was cancelled"}


# a modern client on a four-state server


@pytest.fixture(params=[True, False], ids=["sessions", "no sessions"])
async def modern(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[ModernClient]:
    async with (
        in_front(four_state, tmp_path, sessions=request.param) as app,
        ModernClient(app.url, headers=ALICE) as client,
    ):
        yield client


async def until(client: ModernClient, task_id: str, *states: str) -> dict[str, Any]:
    while True:
        shown: dict[str, Any] = (await client.tasks("get", task_id)).result
        if shown["status"] in states:
            return shown
        assert shown["status"] not in ENDED, shown
        await asyncio.sleep(0.02)  # the pace the server asked for


@pytest.mark.rule("CS-STATUS", "CS-CREATE")
async def test_a_modern_client_runs_a_task_on_a_four_state_server(modern: ModernClient) -> None:
    made = (await modern.call("resize_images", {"seconds": 0})).result
    assert (made["resultType"], made["status"]) == ("task", "working")
    shown = await until(modern, made["taskId"], "completed")
    assert shown["result"]["structuredContent"] == {"resized": 4}


@pytest.mark.rule("CS-INPUT")
async def test_a_modern_client_answers_a_four_state_servers_question(modern: ModernClient) -> None:
    made = (await modern.call("deploy", {"seconds": 0})).result
    shown = await until(modern, made["taskId"], "input_required")
    [key] = shown["inputRequests"]
    await modern.tasks("update", made["taskId"], inputResponses={key: YES})
    shown = await until(modern, made["taskId"], "completed")
    assert shown["result"]["structuredContent"] == {"deployed": True}


@pytest.mark.rule("CS-STATUS")
@pytest.mark.parametrize(
    ("tool", "state", "holds"), [("fails", "completed", "result"), ("crashes", "failed", "error")]
)
async def test_an_error_is_what_its_result_makes_of_it(
    modern: ModernClient, tool: str, state: str, holds: str
) -> None:
    made = (await modern.call(tool)).result
    shown = await until(modern, made["taskId"], state)
    assert ("result" in shown, "error" in shown) == (holds == "result", holds == "error")


@pytest.mark.rule("CS-CANCEL")
@pytest.mark.parametrize("offered", [True, False])
async def test_a_cancel_goes_to_a_server_that_has_it(tmp_path: Path, *, offered: bool) -> None:
    mapping = Path(__file__).parents[2] / "mappings" / "create-status.toml"
    table = mapping.read_text().replace('name = "create-status"', 'name = "site"')
    if not offered:
        table = table.replace('cancel = "tasks/cancel"', "cancel = false")
    own = tmp_path / "site.toml"
    own.write_text(table)
    async with (
        in_front(
            four_state, tmp_path, cancel=offered, upstream={"dialect": "site"}, mappings={"files": (own,)}
        ) as app,
        ModernClient(app.url, headers=ALICE) as client,
    ):
        made = (await client.call("resize_images", {"seconds": 60})).result
        assert (await client.tasks("cancel", made["taskId"])).result == {"resultType": "complete"}
        shown = (await client.tasks("get", made["taskId"])).result
        assert shown["status"] == ("cancelled" if offered else "working")


async def _question(stream: OpenStream) -> Any:
    while "id" not in (message := await stream.message()):
        continue
    return message
