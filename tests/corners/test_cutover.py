"""Two servers behind one address: new calls go where the rules say, what was begun stays where it is."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from shim.config import Config
from shim.steering import Left, in_the_way
from tests.client import LegacyClient, ModernClient
from tests.corners.lm import DISCOVER, TOOLS, made, seen_as
from tests.corners.ml import ALICE, accept, elicit
from tests.scripted import Scripted, scripted, task, text, tool
from tests.shim import config_for

BOB = {"Authorization": "Bearer bob"}


@dataclass
class Pair:
    """An old and a new server behind one shim."""

    old: Scripted
    new: Scripted
    app: App
    folder: Path

    def config(self, *rules: str, default: str = "old") -> Config:
        return config_of(self.old, self.new, self.folder, rules, default)

    def events(self, name: str) -> list[dict[str, Any]]:
        lines = (self.folder / "audit.jsonl").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]


def config_of(old: Scripted, new: Scripted, folder: Path, rules: tuple[str, ...], default: str) -> Config:
    config = config_for(old.url, folder).model_dump()
    config["cutover"] |= {"default": default, "rules": rules}
    config["upstream"] = [
        {"name": "old", "url": old.url, "dialect": "experimental"},
        {"name": "new", "url": new.url, "dialect": "sep-2663"},
    ]
    return Config.model_validate(config)


@asynccontextmanager
async def pair(folder: Path, *rules: str, default: str = "old") -> AsyncIterator[Pair]:
    async with scripted() as old, scripted(sessions=False) as new:
        old.on("tools/list", {"tools": [tool("run", "optional"), tool("plain", "forbidden")]})
        ids = itertools.count(1)
        old.on(
            "tools/call",
            lambda seen: {"task": task(f"old-{next(ids)}")} if "task" in seen.params else text("old"),
        )
        old.on("tasks/get", lambda seen: task(seen.params["taskId"]))
        new.on("server/discover", DISCOVER)
        new.on("tools/list", TOOLS)
        new.on("tools/call", lambda _: made(f"new-{next(ids)}"))
        new.on("tasks/get", lambda seen: seen_as(seen.params["taskId"]))
        async with running(config_of(old, new, folder, rules, default)) as app:
            yield Pair(old, new, app, folder)


async def ran(client: ModernClient | LegacyClient, **options: Any) -> str:
    """Make a task; gives its id, which begins with the server's name."""
    result = (await client.call("run", **options)).result
    return str(result.get("taskId") or result["task"]["taskId"])


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
                reply = await client.call("plain")
                moved = reply.result["resultType"] == "task"
                where.setdefault(str(number), []).append("new" if moved else "old")

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


async def test_a_drained_session_ends_once_it_has_no_open_task(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, LegacyClient(both.app.url, headers=ALICE) as client:
        await client.initialize()
        task_id = await ran(client, task={})
        config = both.config("new").model_dump()
        config["cutover"]["drain"] = ("old",)
        both.app.reload(Config.model_validate(config))
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


@pytest.mark.parametrize(
    ("rules", "default", "left", "why"),
    [
        ((), "old", Left(0, None, 0), "by default"),
        (("new",), "old", Left(0, None, 0), None),
        (("new 50%",), "old", Left(0, None, 0), "by default"),
        (("old tool=x", "new"), "old", Left(0, None, 0), 'the rule "old tool=x"'),
        (("new", "old"), "old", Left(0, None, 0), None),
        (("new",), "old", Left(2, 0, 0), "2 open tasks, the oldest 3 minutes old"),
        (("new",), "old", Left(0, None, 1), "1 open sessions"),
        (("old 0%",), "new", Left(0, None, 0), None),
    ],
)
def test_what_stands_in_the_way_of_switching_off(
    rules: tuple[str, ...], default: str, left: Left, why: str | None
) -> None:
    found = in_the_way("old", default, rules, left, 180_000)
    assert (why in "; ".join(found)) if why else found == []
