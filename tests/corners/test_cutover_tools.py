"""Tools that only one server has, and rules that name tools, also inside a session (CUTOVER-RULES, -TOOL)."""

import asyncio
from pathlib import Path

import pytest

from tests.client import LegacyClient, ModernClient
from tests.corners.lm import more, seen_as
from tests.corners.ml import ALICE, HandClock, accept
from tests.corners.two import pair, ran
from tests.scripted import Error, Hang, text, tool

# both have "run"; only the old one has "plain", only the new one "other"


@pytest.mark.rule("CUTOVER-TOOL")
@pytest.mark.parametrize(
    ("rules", "called", "answered_by"),
    [
        (("new",), "plain", "old"),
        ((), "other", "new"),
        ((), "run", "old"),
        (("new",), "run", "new"),
        ((), "nowhere", "old"),
        (("new",), "nowhere", "new"),
    ],
)
@pytest.mark.parametrize("client", ["modern", "legacy"])
async def test_a_tool_that_one_server_has_is_called_there(
    client: str, rules: tuple[str, ...], called: str, answered_by: str, tmp_path: Path
) -> None:
    async with (
        pair(tmp_path, *rules) as both,
        ModernClient(both.app.url, headers=ALICE) as modern,
        LegacyClient(both.app.url, headers=ALICE) as legacy,
    ):
        both.old.on("tools/call", text("old"))
        both.new.on("tools/call", {"resultType": "complete", **text("new")})
        caller: ModernClient | LegacyClient = modern
        if client == "legacy":
            await legacy.initialize()
            caller = legacy
        listed = [one["name"] for one in (await caller.request("tools/list", {})).result["tools"]]
        assert listed == (["run", "other"] if rules else ["run", "plain"])
        assert (await caller.call(called)).result["content"] == text(answered_by)["content"]
        assert len(both.old.seen("tools/call")) + len(both.new.seen("tools/call")) == 1
        status = (await both.app.steering.status())["upstreams"]
        routed = "new" if rules else "old"
        assert status[answered_by]["calls_of_own_tools"] == int(answered_by != routed)
    told = [(one["wanted"], one["upstream"], one["reason"]) for one in both.events("rerouted")]
    assert told == ([(routed, answered_by, "tool")] if answered_by != routed else [])


@pytest.mark.rule("CUTOVER-TOOL")
async def test_lists_are_read_once_in_a_while(tmp_path: Path) -> None:
    clock = HandClock()
    async with (
        pair(tmp_path, clock=clock) as both,
        ModernClient(both.app.url, headers=ALICE) as client,
    ):
        for _ in range(3):
            await client.call("run", meta={"x": 1})
            await client.call("other")
        lists = len(both.old.seen("tools/list")), len(both.new.seen("tools/list"))
        both.old.on("tools/list", {"tools": [tool("run"), tool("other")]})
        both.old.on("tools/call", text("old"))
        assert (await client.call("other")).result["resultType"] == "task"
        clock.advance(60_001)
        assert (await client.call("other")).result["content"] == text("old")["content"]
        assert len(both.new.seen("tools/list")) == lists[1] == 1
        assert len(both.old.seen("tools/list")) > lists[0]


@pytest.mark.rule("CUTOVER-TOOL")
async def test_a_list_that_cannot_be_had_leaves_a_call_where_it_was(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, ModernClient(both.app.url, headers=ALICE) as client:
        both.new.on("tools/list", Error(-32603, "no"))
        both.old.on("tools/call", text("old"))
        assert (await client.call("other")).result["content"] == text("old")["content"]


@pytest.mark.rule("CUTOVER-RULES")
async def test_a_rule_by_tool_holds_inside_a_session_too(tmp_path: Path) -> None:
    async with (
        pair(tmp_path, "new tool=ru*") as both,
        LegacyClient(both.app.url, headers=ALICE) as client,
    ):
        await client.initialize()
        task_id = await ran(client, task={})
        assert task_id.startswith("new")
        shown = (await client.tasks("get", task_id)).result
        assert (shown["taskId"], shown["status"]) == (task_id, "working")
        both.new.on("tasks/get", lambda seen: seen_as(seen.params["taskId"], "completed", result=text("x")))
        assert (await client.tasks("result", task_id)).result["content"] == text("x")["content"]
        assert (await client.call("plain")).result["content"] == text("old")["content"]
        # the session and all the rest of it are where they were
        assert both.new.seen("initialize") == []
        assert (await client.request("ping", {})).result == {}


@pytest.mark.rule("CUTOVER-RULES")
async def test_a_rule_by_tool_reaches_the_old_server_from_a_session_of_the_new_one(tmp_path: Path) -> None:
    async with (
        pair(tmp_path, "old tool=ru*", default="new") as both,
        LegacyClient(both.app.url, headers=ALICE) as client,
    ):
        await client.initialize()
        task_id = await ran(client, task={})
        assert task_id.startswith("old")
        assert (await client.tasks("get", task_id)).result["status"] == "working"
        assert (await client.call("run")).result["content"] == text("old")["content"]
        assert both.new.seen("tools/call") == []


@pytest.mark.rule("CUTOVER-TOOL")
async def test_a_call_elsewhere_can_ask_its_client(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, LegacyClient(both.app.url, headers=ALICE) as client:
        await client.initialize()
        both.new.once("tools/call", more("q"), text("done"))
        async with client.stream("tools/call", {"name": "other", "arguments": {}}) as stream:
            asked = await stream.message()
            assert asked["method"] == "elicitation/create"
            assert (await client.respond(asked["id"], accept(ok=True))).status == 202
            assert (await stream.message())["result"]["content"] == text("done")["content"]
        assert [seen for seen in both.old.requests if seen.is_response] == []


@pytest.mark.rule("CUTOVER-TOOL")
async def test_a_call_elsewhere_can_be_called_off(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, LegacyClient(both.app.url, headers=ALICE) as client:
        await client.initialize()
        both.new.once("tools/call", Hang())
        calling = asyncio.create_task(client.post(client.build("tools/call", {"name": "other"}, id=7)))
        await both.new.wait("tools/call")
        await client.notify("notifications/cancelled", {"requestId": 7})
        await calling
    assert [one["outcome"] for one in both.events("request") if one.get("tool") == "other"] == ["cancelled"]
