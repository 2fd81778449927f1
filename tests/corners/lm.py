"""A legacy client, the shim and a scripted modern upstream, all over real sockets, on a clock of the test's.

async with corner(modern_upstream, tmp_path) as lm:
    task_id = await lm.create()                           # tools/call with task; upstream makes "task-1"
    modern_upstream.on("tasks/get", seen_as("task-1", "completed", result=text("done")))
    shown = await lm.until(task_id, "completed")
    async with lm.client.stream("tasks/result", {"taskId": task_id}) as stream: ...
    bob = await lm.seated(BOB)                            # another client, with a session of its own
lm.events("task.ended")                                   # once the shim has stopped
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shim.app import App, running
from tests.client import MODERN, TASKS_EXTENSION, LegacyClient, ModernClient
from tests.corners.ml import ALICE, HandClock, accept, breath
from tests.scripted import Scriptable, Scripted, tool
from tests.shim import config_for, events

BOB = {"Authorization": "Bearer bob"}
SERVER_INFO = {"name": "modern", "version": "4"}
DISCOVER: dict[str, Any] = {
    "resultType": "complete",
    "supportedVersions": [MODERN],
    "capabilities": {
        "tools": {"listChanged": True},
        "logging": {},
        "resources": {"subscribe": True},
        "extensions": {TASKS_EXTENSION: {}},
    },
    "instructions": "Be brief.",
    "ttlMs": 0,
    "cacheScope": "private",
    "_meta": {"io.modelcontextprotocol/serverInfo": SERVER_INFO},
}
TOOLS = {"resultType": "complete", "tools": [tool("run"), tool("other")], "ttlMs": 5, "cacheScope": "public"}
ACK = {"resultType": "complete"}
WITHOUT_TASKS = {**DISCOVER, "capabilities": {"tools": {}}}


def modern_task(task_id: str = "task-1", status: str = "working", **fields: Any) -> dict[str, Any]:
    """A SEP-2663 task object."""
    return {
        "taskId": task_id,
        "status": status,
        "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:01Z",
        "ttlMs": None,
        "pollIntervalMs": 1_000,
        **fields,
    }


def made(task_id: str = "task-1", **fields: Any) -> dict[str, Any]:
    """A CreateTaskResult."""
    return {"resultType": "task", **modern_task(task_id, **fields)}


def seen_as(task_id: str = "task-1", status: str = "working", **fields: Any) -> dict[str, Any]:
    """A GetTaskResult."""
    return {"resultType": "complete", **modern_task(task_id, status, **fields)}


def asks(*keys: str, task_id: str = "task-1") -> dict[str, Any]:
    """A GetTaskResult that asks one elicitation under each key."""
    return seen_as(task_id, "input_required", inputRequests={key: elicitation(key) for key in keys})


def more(*keys: str, state: Any = "state-1") -> dict[str, Any]:
    """An answer to a call that asks one elicitation under each key before it goes on."""
    return {
        "resultType": "input_required",
        "inputRequests": {key: elicitation(key) for key in keys},
        "requestState": state,
    }


def elicitation(message: str) -> dict[str, Any]:
    """A question as the new API has it."""
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


VISIT: dict[str, Any] = {
    "method": "elicitation/create",
    "params": {"mode": "url", "message": "Sign in", "url": "https://example.com/sign-in"},
}
"""A question to visit a URL: the new API has no id for it."""


@dataclass
class Corner:
    """The running parts of one conversation."""

    upstream: Scripted
    app: App
    client: LegacyClient
    clock: HandClock
    folder: Path
    stack: AsyncExitStack

    async def seated(
        self, headers: Mapping[str, str], *, session: bool = True, **options: Any
    ) -> LegacyClient:
        """Another client, with a session of its own or none."""
        client = LegacyClient(self.app.url, headers=dict(headers), **options)
        await self.stack.enter_async_context(client)
        if session:
            await client.initialize()
        return client

    async def modern(self, headers: Mapping[str, str]) -> ModernClient:
        """A modern client of the same shim."""
        return await self.stack.enter_async_context(ModernClient(self.app.url, headers=dict(headers)))

    async def create(self, upstream_id: str = "task-1", **fields: Any) -> str:
        """Make a task; gives the id that the client sees."""
        self.upstream.once("tools/call", made(upstream_id, **fields))
        reply = await self.client.call("run", task={})
        return str(reply.result["task"]["taskId"])

    async def local(self, call: Any, **options: Any) -> str:
        """Make a task of a call that has not answered when the handle is due."""
        self.upstream.once("tools/call", call)
        before = len(self.upstream.seen("tools/call"))
        creating = asyncio.create_task(self.client.call("run", task={}, **options))
        await self.upstream.wait("tools/call", before + 1)
        while not creating.done():
            self.clock.advance(1_001)
            await breath(self.app)
        return str((await creating).result["task"]["taskId"])

    async def get(self, task_id: str = "task-1") -> Any:
        """Look at a task afresh: enough time passes that nothing older is reused."""
        self.clock.advance(1_001)
        return (await self.client.tasks("get", task_id)).result

    async def until(self, task_id: str, status: str) -> Any:
        """Look at a task until it is in a state; the test's time limit ends a wait in vain."""
        while True:
            if (seen := await self.get(task_id))["status"] == status:
                return seen

    async def ticking(self, work: "asyncio.Task[Any]") -> Any:
        """Let time pass, a second at a time, until a piece of work is done; gives its result."""
        while not work.done():
            self.clock.advance(1_001)
            await asyncio.wait((work,), timeout=0.01)
            await breath(self.app)
        return await work

    def events(self, name: str) -> list[dict[str, Any]]:
        """The audit events of one name."""
        return events(self.folder, name)


async def accept_all(lm: Corner, task_id: str, count: int) -> list[Any]:
    """Wait for a task's result and accept the next questions that come meanwhile; gives them."""
    async with lm.client.stream("tasks/result", {"taskId": task_id}) as stream:
        asked = []
        for _ in range(count):
            asked.append(await stream.message())
            await lm.client.respond(asked[-1]["id"], accept(ok=True))
        return asked


@asynccontextmanager
async def corner(
    upstream: Scripted,
    folder: Path,
    /,
    *,
    clock: HandClock | None = None,
    client: dict[str, Any] | None = None,
    session: bool = True,
    **sections: Any,
) -> AsyncIterator[Corner]:
    """Run the corner LM; `sections` go into the config, `client` into the LegacyClient.

    What a test has scripted before stays. With `session` the client has initialized.
    """
    clock = clock or HandClock()
    defaults: dict[str, Scriptable] = {
        "server/discover": DISCOVER,
        "tools/list": TOOLS,
        "tasks/get": lambda seen: seen_as(seen.params["taskId"]),
        "tasks/cancel": ACK,
        "tasks/update": ACK,
    }
    for method, answer in defaults.items():
        upstream.by_default(method, answer)
    sections = {"upstream": {"dialect": "sep-2663"}, **sections}
    sections["legacy"] = {"keepalive_ms": 20, **sections.get("legacy", {})}
    async with (
        running(config_for(upstream.url, folder, **sections), clock=clock) as app,
        LegacyClient(app.url, **{"headers": ALICE, **(client or {})}) as legacy,
        AsyncExitStack() as stack,
    ):
        if session:
            await legacy.initialize()
        yield Corner(upstream, app, legacy, clock, folder, stack)
