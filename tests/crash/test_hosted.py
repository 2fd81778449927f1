"""kill -9 while old clients work on a new server: what they had is there after it (DUR-2)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shim.demo import modern
from shim.demo.jobs import Job, Json
from shim.demo.tools import TOOLS, Tool, text
from tests.client import LegacyClient, ModernClient
from tests.crash.serving import shim
from tests.ports import free_port

ANN = {"Authorization": "Bearer ann"}
YES = {"action": "accept", "content": {"confirm": True}}
ENDED = {"completed", "failed", "cancelled"}


async def _dawdle(job: Job, _: Mapping[str, Any]) -> Json:
    await job.pause(600)
    return text("never")


DAWDLE = Tool("dawdle", "Answers late, and never as a task.", "forbidden", {}, _dawdle)


async def ended(client: LegacyClient, task_id: str) -> Any:
    while (seen := (await client.tasks("get", task_id)).result)["status"] not in ENDED:
        pass
    return seen


@pytest.mark.rule("DUR-1", "DUR-2", "LM-INIT", "LM-CREATE", "LM-INPUT", "LM-CANCEL", "LM-LIST")
async def test_what_old_clients_had_is_there_after_a_kill(tmp_path: Path) -> None:
    runner, upstream = await modern.start(poll_interval_ms=50, tools={**TOOLS, "dawdle": DAWDLE})
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    try:
        async with LegacyClient(url, headers=ANN) as old:
            async with shim(upstream, tmp_path, port, dialect="sep-2663", handle_after_ms=100) as process:
                await old.initialize()

                async def start(tool: str, **arguments: Any) -> str:
                    made = await old.call(tool, arguments, task={})
                    return str(made.result["task"]["taskId"])

                asking = await start("deploy", seconds=0)
                at_once = await start("greet", name="Ada")
                late = await start("dawdle")
                pinned = await start("resize_images", seconds=600)
                assert (await old.tasks("cancel", pinned)).result["status"] == "cancelled"
                async with old.stream("tasks/result", {"taskId": asking}) as stream:
                    question = await stream.message()
                    await ended(old, at_once)
                    process.kill()
            async with (
                shim(upstream, tmp_path, port, dialect="sep-2663"),
                ModernClient(url, headers=ANN) as new,
            ):
                listed = (await old.request("tasks/list", {})).result["tasks"]
                assert [task["taskId"] for task in listed] == [pinned, late, at_once, asking]
                async with old.stream("tasks/result", {"taskId": asking}) as again:
                    assert await again.message() == question
                    assert (await old.respond(question["id"], YES)).status == 202
                    assert (await again.message())["result"]["structuredContent"] == {"deployed": True}
                greeted = (await old.request("tasks/result", {"taskId": at_once})).result
                assert greeted["content"] == text("Hello, Ada!")["content"]
                assert (await ended(old, late))["status"] == "failed"
                fault = (await old.request("tasks/result", {"taskId": late})).error
                assert fault["code"] == -32603
                assert "outcome unknown" in fault["message"]
                for client in (old, new):
                    assert (await client.tasks("get", pinned)).result["status"] == "cancelled"
    finally:
        await runner.cleanup()
