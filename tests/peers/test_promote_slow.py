"""A plain tool of 20 seconds that asks in the middle, promoted, as people use it: they leave and come back.

The servers have no tasks; every step of a client is a process of its own, which knows the task's id and has
the credential of the one that made it. All stories run at the same time.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from shim.app import running
from tests.client import ModernClient
from tests.crash.serving import shim
from tests.peers.processes import visit
from tests.peers.test_fastmcp import ALICE
from tests.peers.test_promote import DIALECTS, server
from tests.ports import free_port
from tests.shim import config_for

pytestmark = [
    pytest.mark.peers, pytest.mark.rule("PROMOTE-1", "PROMOTE-2", "PROMOTE-3"),
]  # fmt: skip

HALF_S = 10
PROMOTE: dict[str, Any] = {"promote": ["report"]}
SERVERS = {"mcp 1.30": "legacy", "mcp 2.3": "modern"}
CLIENTS = {"mcp 1.30": ("legacy", "visit_legacy.py"), "fastmcp 4": ("fastmcp", "visit_fastmcp.py")}
Step = Callable[..., Awaitable[dict[str, Any]]]
StepOf = Callable[[str, str], Step]
DONE = {"status": "completed", "result": "report for Ada"}
CANCELLED = {"mcp 1.30": [-32603, "task was cancelled"], "fastmcp 4": None}
LOST = [-32603, "outcome unknown: the call may have run; it is not sent again"]

EXPECTED: dict[str, Callable[[str], list[Any]]] = {
    "answered": lambda _: ["working", "input_required", {"asked": ["Your name?"], **DONE}],
    "cancelled": lambda client: ["working", {"status": "cancelled", "result": CANCELLED[client]}],
    "killed": lambda _: ["working", {"status": "failed", "result": LOST}],
}
"""What each visit of a story comes to."""


async def answered(step: Step) -> list[Any]:
    """Begin and leave; come back to see that it asks, and leave; come back to answer and have the result."""
    made = await step("make", f"--seconds={HALF_S}")
    seen = await step("watch", made["task"])
    return [made["status"], seen["status"], await step("finish", made["task"])]


async def cancelled(step: Step) -> list[Any]:
    """Begin and leave; come back to cancel."""
    made = await step("make", f"--seconds={HALF_S}")
    return [made["status"], await step("cancel", made["task"])]


async def both_ask(url: str, tasks: list[str]) -> None:
    """Hear of the tasks until each asks."""
    waiting = set(tasks)
    wanted = {"notifications": {"taskIds": tasks}}
    async with (
        ModernClient(url, headers=ALICE) as client,
        client.stream("subscriptions/listen", wanted) as stream,
    ):
        while waiting:
            told = (await stream.message()).get("params", {})
            if told.get("status") == "input_required":
                waiting.discard(told["taskId"])


async def killed(upstream: str, era: str, folder: Path, step_of: StepOf) -> dict[str, list[Any]]:
    """Each client begins and leaves; kill -9 when both tasks ask; each comes back to a shim that knows."""
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    steps = [step_of(client, url) for client in CLIENTS]
    async with shim(upstream, folder, port, dialect=DIALECTS[era], **PROMOTE) as process:
        made = await asyncio.gather(*(step("make", f"--seconds={HALF_S}") for step in steps))
        await both_ask(url, [one["task"] for one in made])
        process.kill()
        await process.wait()
    async with shim(upstream, folder, port, dialect=DIALECTS[era], **PROMOTE):
        ends = await asyncio.gather(
            *(step("end", one["task"]) for step, one in zip(steps, made, strict=True))
        )
    return {client: [one["status"], end] for client, one, end in zip(CLIENTS, made, ends, strict=True)}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def told(
    fastmcp_python: Path, legacy_python: Path, modern_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str, str], list[Any]]:
    """What came of (story, client, server)."""
    pythons = {"legacy": legacy_python, "modern": modern_python, "fastmcp": fastmcp_python}
    folder = tmp_path_factory.mktemp("slow")
    stories: dict[tuple[str, str, str], list[Any]] = {}

    def step_of(client: str, url: str) -> Step:
        environment, script = CLIENTS[client]

        async def step(*args: str) -> dict[str, Any]:
            log = folder / "client.log"
            return await visit(pythons[environment], script, url, *args, headers=ALICE, log=log)

        return step

    async def lived(
        name: str, story: Callable[[Step], Awaitable[list[Any]]], client: str, at: str, url: str
    ) -> None:
        stories[name, client, at] = await story(step_of(client, url))

    async def died(at: str, upstream: str, here: Path) -> None:
        for client, seen in (await killed(upstream, SERVERS[at], here, step_of)).items():
            stories["killed", client, at] = seen

    async with AsyncExitStack() as stack:
        running_now: list[Awaitable[None]] = []
        for at, era in SERVERS.items():
            here = folder / era
            (here / "killed").mkdir(parents=True)
            upstream = await stack.enter_async_context(server(era, pythons[era], here))
            config = config_for(upstream, here, upstream={"dialect": DIALECTS[era]}, tasks=PROMOTE)
            url = (await stack.enter_async_context(running(config))).url
            for client in CLIENTS:
                running_now += [
                    lived("answered", answered, client, at, url),
                    lived("cancelled", cancelled, client, at, url),
                ]
            running_now.append(died(at, upstream, here / "killed"))
        await asyncio.gather(*running_now)
    return stories


@pytest.mark.parametrize("at", SERVERS)
@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("story", EXPECTED)
def test_a_slow_tool_is_a_task_that_people_leave_and_come_back_to(
    story: str, client: str, at: str, told: dict[tuple[str, str, str], list[Any]]
) -> None:
    assert told[story, client, at] == EXPECTED[story](client)
