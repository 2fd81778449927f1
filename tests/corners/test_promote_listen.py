"""Tasks that live in the shim are heard of on subscriptions (PROMOTE-1, ML-LISTEN)."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.corners.promote import ERAS, NAMED, text, world

LISTEN, TOLD = "subscriptions/listen", "notifications/tasks"


@pytest.mark.rule("PROMOTE-1", "ML-LISTEN")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("named", [True, False])
async def test_its_life_is_heard_on_a_subscription(tmp_path: Path, era: str, *, named: bool) -> None:
    async with world(tmp_path, era) as one:
        call = one.upstream.stream("tools/call")
        task_id = await one.made()
        wanted = {"taskIds": [task_id]} if named else [TOLD]
        async with one.modern.stream(LISTEN, {"notifications": wanted}, id="L") as stream:
            assert (await stream.message())["params"]["notifications"] == {"taskIds": [task_id]}
            assert (await stream.message())["params"]["status"] == "working"
            await call.result(text("done"))
            ended = (await stream.message())["params"]
            assert (ended["status"], ended["result"]["content"]) == ("completed", text("done")["content"])


@pytest.mark.rule("PROMOTE-1", "MM-1")
async def test_a_subscription_has_what_the_shim_and_what_the_server_say(tmp_path: Path) -> None:
    changed = "notifications/tools/list_changed"
    async with world(tmp_path, "modern") as one:
        one.upstream.stream("tools/call")
        task_id = await one.made()
        feed = one.upstream.stream(LISTEN)

        async def acknowledge() -> None:
            asked = (await feed.opened()).params["notifications"]
            assert asked == {"toolsListChanged": True, "promptsListChanged": True}
            params = {"notifications": {"toolsListChanged": True}}
            await feed.send(
                {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
            )

        lists = {"toolsListChanged": True, "promptsListChanged": True}
        async with asyncio.TaskGroup() as group:
            group.create_task(acknowledge())
            wanted = {"taskIds": [task_id, "nothing"], **lists}
            async with one.modern.stream(LISTEN, {"notifications": wanted}, id="L") as stream:
                honoured = {"toolsListChanged": True, "taskIds": [task_id]}
                assert (await stream.message())["params"]["notifications"] == honoured
                assert (await stream.message())["params"]["taskId"] == task_id
                meta = {"io.modelcontextprotocol/subscriptionId": "ts-1"}
                await feed.send({"jsonrpc": "2.0", "method": changed, "params": {"_meta": meta}})
                told = await stream.message()
                assert told["params"] == {"_meta": {"io.modelcontextprotocol/subscriptionId": "L"}}
                await feed.result({"resultType": "complete"})
                [over] = await stream.rest()
                assert (over["id"], over["result"]["resultType"]) == ("L", "complete")


@pytest.mark.rule("PROMOTE-1", "ML-LISTEN", "MM-1")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tasks", [NAMED, {**NAMED, "promote_after_ms": 500}], ids=["at once", "in a while"])
async def test_one_that_is_promoted_later_is_heard_too(
    tmp_path: Path, era: str, tasks: Mapping[str, Any]
) -> None:
    async with world(tmp_path, era, tasks) as one:
        call = one.upstream.stream("tools/call")
        async with one.modern.stream(LISTEN, {"notifications": [TOLD]}, id="L") as stream:
            assert (await stream.message())["params"]["notifications"] == {"taskIds": []}
            made = asyncio.create_task(one.made())
            await call.opened()
            one.clock.advance(500)
            task_id = await made
            first = (await stream.message())["params"]
            assert (first["taskId"], first["status"]) == (task_id, "working")
            await call.result(text("done"))
            ended = (await stream.message())["params"]
            assert (ended["taskId"], ended["status"]) == (task_id, "completed")
