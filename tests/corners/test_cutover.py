"""Two servers behind one address: new calls go where the rules say, what was begun stays where it is."""

import asyncio
from pathlib import Path

import pytest

from shim.steering import Left, in_the_way
from tests.client import LegacyClient, ModernClient
from tests.corners.ml import ALICE, HandClock, accept, breath, elicit
from tests.corners.two import BOB, pair, ran
from tests.scripted import Error, task, text, tool


@pytest.mark.parametrize(
    ("rules", "default", "made_by"),
    [
        ((), "old", "old"),
        ((), "new", "new"),
        (("new era=modern",), "old", "new"),
        (("new era=legacy",), "old", "old"),
        (("new tool=ru*",), "old", "new"),
        (("new tool=other",), "old", "old"),
        (("new client=test-*",), "old", "new"),
        (("new 0%",), "old", "old"),
        (("new 100%",), "old", "new"),
    ],
)
async def test_a_new_call_goes_where_the_rules_say(
    rules: tuple[str, ...], default: str, made_by: str, tmp_path: Path
) -> None:
    async with (
        pair(tmp_path, *rules, default=default) as both,
        ModernClient(both.app.url, headers=ALICE, name="test-client") as client,
    ):
        assert (await ran(client)).startswith(made_by)


async def test_a_session_is_opened_where_the_rules_say_and_stays(tmp_path: Path) -> None:
    async with pair(tmp_path, "new era=legacy") as both, LegacyClient(both.app.url, headers=ALICE) as moved:
        await moved.initialize()
        assert (await ran(moved, task={})).startswith("new")
        both.app.reload(both.config())
        assert (await ran(moved, task={})).startswith("new")
        async with LegacyClient(both.app.url, headers=ALICE) as fresh:
            await fresh.initialize()
            assert (await ran(fresh, task={})).startswith("old")
            both.app.reload(both.config("new"))
            assert (await ran(fresh, task={})).startswith("old")


async def test_a_task_stays_with_the_server_that_made_it(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, ModernClient(both.app.url, headers=ALICE) as client:
        old_id = await ran(client)
        both.app.reload(both.config("new"))
        new_id = await ran(client)
        for task_id, server, other in ((old_id, both.old, both.new), (new_id, both.new, both.old)):
            seen, not_asked = len(server.seen("tasks/get")), len(other.seen("tasks/get"))
            assert (await client.tasks("get", task_id)).result["status"] == "working"
            assert len(server.seen("tasks/get")) == seen + 1
            assert len(other.seen("tasks/get")) == not_asked
        async with LegacyClient(both.app.url, headers=ALICE) as old_client:
            await old_client.initialize()
            listed = (await old_client.request("tasks/list", {})).result["tasks"]
            assert [one["taskId"] for one in listed] == [new_id, old_id]
            assert (await old_client.tasks("get", old_id)).result["taskId"] == old_id


@pytest.mark.rule("ML-MRTR")
async def test_a_parked_call_stays_with_the_server_that_asks(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, ModernClient(both.app.url, headers=ALICE) as client:
        call = both.old.stream("tools/call")
        calling = asyncio.create_task(client.call("plain"))
        await call.send(elicit("q"))
        asked = (await calling).result
        both.app.reload(both.config("new"))
        more = {"inputResponses": {"elicitation-1": accept(ok=True)}, "requestState": asked["requestState"]}
        both.new.on("tools/list", {"tools": [tool("run"), tool("plain")]})
        both.new.on("tools/call", text("new"))
        client.headers = BOB
        await client.call("plain", **more)  # what bob sends goes where bob's calls go
        assert len(both.new.seen("tools/call")) == 1
        client.headers = ALICE
        retry = asyncio.create_task(client.call("plain", **more))
        await both.old.response_to("q")
        await call.result(text("done"))
        assert (await retry).result["content"] == text("done")["content"]
    assert len(both.new.seen("tools/call")) == 1


async def test_one_picture_for_each_caller(tmp_path: Path) -> None:
    async with (
        pair(tmp_path, "new caller=nobody-else", "new era=modern") as both,
        ModernClient(both.app.url, headers=ALICE) as moved,
        LegacyClient(both.app.url, headers=ALICE) as stayed,
    ):
        await stayed.initialize()
        new_names = [one["name"] for one in (await moved.request("tools/list", {})).result["tools"]]
        old_names = [one["name"] for one in (await stayed.request("tools/list", {})).result["tools"]]
        assert (new_names, old_names) == (["run", "other"], ["run", "plain"])
    towards = {(event["upstream"], event["corner"]) for event in both.events("request")}
    assert towards == {("new", "MM"), ("old", "LL")}


async def test_a_percentage_goes_up_and_back_while_callers_work(tmp_path: Path) -> None:
    async with pair(tmp_path) as both:
        where: dict[str, list[str]] = {}

        async def call(number: int) -> None:
            headers = {"Authorization": f"Bearer caller-{number}"}
            async with ModernClient(both.app.url, headers=headers) as client:
                where.setdefault(str(number), []).append((await ran(client)).partition("-")[0])

        for percent in (0, 10, 50, 100):
            both.app.reload(both.config(f"new {percent}%"))
            await asyncio.gather(*(call(number) for number in range(50)))
        assert all(seen == sorted(seen, reverse=True) for seen in where.values())
        assert {seen[0] for seen in where.values()} == {"old"}
        assert {seen[-1] for seen in where.values()} == {"new"}
        both.app.reload(both.config("new 0%"))
        await asyncio.gather(*(call(number) for number in range(50)))
        assert {seen[-1] for seen in where.values()} == {"old"}
    assert len(both.events("config.reloaded")) == 5


async def test_a_foreign_task_is_unknown_whichever_server_has_it(tmp_path: Path) -> None:
    async with (
        pair(tmp_path, "new era=modern") as both,
        ModernClient(both.app.url, headers=ALICE) as ann,
        ModernClient(both.app.url, headers=BOB) as bob,
    ):
        task_id = await ran(ann)
        await bob.call("run")
        foreign, unknown = await bob.tasks("get", task_id), await bob.tasks("get", "nobody")
        assert (foreign.status, foreign.error) == (unknown.status, unknown.error)


@pytest.mark.rule("CUTOVER-DRAIN")
async def test_a_drained_session_ends_once_it_has_no_open_task(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, LegacyClient(both.app.url, headers=ALICE) as client:
        await client.initialize()
        task_id = await ran(client, task={})
        both.app.reload(both.config("new", drain=("old",)))
        assert (await client.tasks("get", task_id)).result["status"] == "working"
        both.old.on("tasks/get", lambda seen: task(seen.params["taskId"], "completed"))
        both.old.on("tasks/result", text("done"))
        assert (await client.tasks("result", task_id)).result["content"]
        ended = await client.request("ping", {})
        assert ended.status == 404
        client.session, client.initialized = None, False
        await client.initialize()
        assert (await ran(client, task={})).startswith("new")
        assert (await client.tasks("get", task_id)).result["status"] == "completed"


@pytest.mark.rule("CUTOVER-DRAIN")
async def test_a_drained_session_that_nobody_comes_back_to_ends_too(tmp_path: Path) -> None:
    clock = HandClock()
    async with (
        pair(tmp_path, "old caller=carol-hash", clock=clock) as both,
        LegacyClient(both.app.url, headers=ALICE) as alice,
        LegacyClient(both.app.url, headers=BOB) as bob,
    ):
        await alice.initialize()
        await bob.initialize()
        await ran(bob, task={})

        async def left() -> int:
            return int((await both.app.steering.status())["upstreams"]["old"]["sessions"])

        for rules in (("old caller=carol-hash", "new"), ("new 0%",)):
            both.app.reload(both.config(*rules, drain=("old",)))
            await clock.slept(2_000)
            clock.advance(2_000)
            await clock.slept(2_000)
            assert await left() == 2  # carol is known when she comes; and nobody would be elsewhere
        both.app.reload(both.config("new", drain=("old",)))
        clock.advance(2_000)
        while await left() != 1:  # bob has a task  # noqa: ASYNC110 - there is no event for a row
            await asyncio.sleep(0)
        assert (await alice.request("ping", {})).status == 404
        assert (await bob.request("ping", {})).status == 200
    assert [one["reason"] for one in both.events("session.closed")] == ["drained"]


@pytest.mark.rule("CUTOVER-DRAIN")
async def test_a_result_that_nobody_fetched_is_kept_before_its_server_goes(tmp_path: Path) -> None:
    clock = HandClock()
    async with (
        pair(tmp_path, "new", clock=clock) as both,
        LegacyClient(both.app.url, headers=ALICE) as client,
    ):
        both.app.reload(both.config())
        await client.initialize()
        task_id = await ran(client, task={})
        both.old.on("tasks/get", lambda seen: task(seen.params["taskId"], "completed"))
        both.old.on("tasks/result", text("done"))
        both.app.reload(both.config("new", drain=("old",)))
        while not (await both.app.steering.status())["upstreams"]["old"]["can_be_switched_off"]:
            clock.advance(2_000)
            await breath(both.app)
        both.old.forget()
        both.old.on("tasks/result", Error(-32603, "gone"))
        assert (await client.request("ping", {})).status == 404
        client.session, client.initialized = None, False
        await client.initialize()
        assert (await client.tasks("result", task_id)).result["content"] == text("done")["content"]


@pytest.mark.rule("CUTOVER-DRAIN")
async def test_a_session_with_a_request_under_way_is_not_drained(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, LegacyClient(both.app.url, headers=ALICE) as client:
        await client.initialize()
        call = both.old.stream("tools/call")
        calling = asyncio.create_task(client.call("plain"))
        await call.opened()
        both.app.reload(both.config("new", drain=("old",)))
        assert (await client.request("ping", {})).status == 200
        status = (await both.app.steering.status())["upstreams"]["old"]
        assert "1 request under way" in status["because"]
        await call.result(text("done"))
        assert (await calling).status == 200
        assert (await client.request("ping", {})).status == 404


@pytest.mark.rule("CUTOVER-RULES")
@pytest.mark.parametrize("rules", [(), ("new",)])
async def test_every_address_is_served_by_the_rules(rules: tuple[str, ...], tmp_path: Path) -> None:
    made_by = "new" if rules else "old"
    async with pair(tmp_path, *rules) as both:
        for path in ("/mcp", "/modern"):
            async with ModernClient(both.app.url.replace("/mcp", path), headers=ALICE) as modern:
                assert (await ran(modern)).startswith(made_by)
        for path in ("/mcp", "/legacy"):
            async with LegacyClient(both.app.url.replace("/mcp", path), headers=ALICE) as legacy:
                await legacy.initialize()
                assert (await ran(legacy, task={})).startswith(made_by)
        async with LegacyClient(both.app.url.replace("/mcp", "/create-status"), headers=ALICE) as older:
            assert (await older.request("tasks/create", {"name": "run", "arguments": {}})).result["taskId"]
        calls = {"old": len(both.old.seen("tools/call")), "new": len(both.new.seen("tools/call"))}
        assert calls == {"old": 0, "new": 0, made_by: 5}


@pytest.mark.parametrize(
    ("rules", "default", "left", "why"),
    [
        ((), "old", Left(), "by default"),
        (("new",), "old", Left(), None),
        (("new 50%",), "old", Left(), "by default"),
        (("old tool=x", "new"), "old", Left(), 'the rule "old tool=x"'),
        (("new", "old"), "old", Left(), None),
        (("new",), "old", Left(open_tasks=2, oldest_open_ms=0), "2 open tasks, the oldest 3 min old"),
        (("new",), "old", Left(sessions=1), "1 open session of legacy clients"),
        (("old 0%",), "new", Left(), None),
        (("new fallback=old",), "old", Left(), None),
        (("new",), "old", Left(parked=1), "1 call that waits for answers"),
        (("new",), "old", Left(under_way=2), "2 requests under way"),
        (("new",), "old", Left(alone=3), "3 calls of tools that it alone has"),
    ],
)
def test_what_stands_in_the_way_of_switching_off(
    rules: tuple[str, ...], default: str, left: Left, why: str | None
) -> None:
    found = in_the_way("old", default, rules, left, 180_000)
    assert (why in "; ".join(found)) if why else found == []
