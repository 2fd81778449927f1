"""A modern client, the shim and a scripted legacy upstream, all over real sockets, on a clock of the test's.

async with corner(upstream, tmp_path) as ml:
    task_id = await ml.create()
    ml.clock.advance(2_000)
    reply = await ml.client.tasks("get", task_id)
ml.events("task.ended")                                   # once the shim has stopped
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from shim.app import App, running
from tests.client import RELATED_TASK, ModernClient
from tests.planted import MARK
from tests.scripted import Raw, Scripted, Seen, Stream, task, tool
from tests.shim import config_for, events

ALICE = {"Authorization": "Bearer alice"}
TOOLS = {"tools": [tool("run", "optional"), tool("must", "required"), tool("plain", "forbidden")]}


class HandClock:
    """Time that passes only when the test says so; a sleeper wakes when its time has come."""

    def __init__(self, now_ms: int = 1_800_000_000_000) -> None:
        self._now_ms = float(now_ms)
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []
        self._asleep = asyncio.Event()

    def now_ms(self) -> int:
        return int(self._now_ms)

    def ticks_ms(self) -> float:
        return self._now_ms

    async def sleep_ms(self, duration_ms: float) -> None:
        due: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleepers.append((self._now_ms + duration_ms, due))
        self._asleep.set()
        await due

    async def slept(self, duration_ms: float, at_most_ms: float | None = None) -> None:
        """Wait until somebody sleeps who is due in exactly so much time, or in that to `at_most_ms`."""
        latest_ms = duration_ms if at_most_ms is None else at_most_ms
        while not any(
            duration_ms <= due_ms - self._now_ms <= latest_ms
            for due_ms, one in self._sleepers
            if not one.done()
        ):
            self._asleep.clear()
            await self._asleep.wait()

    def advance(self, duration_ms: float) -> None:
        self._now_ms += duration_ms
        for due_ms, sleeper in self._sleepers:
            if due_ms <= self._now_ms and not sleeper.done():
                sleeper.set_result(None)
        self._sleepers = [one for one in self._sleepers if not one[1].done()]


@dataclass
class Corner:
    """The running parts of one conversation."""

    upstream: Scripted
    app: App
    client: ModernClient
    clock: HandClock
    folder: Path
    _others: list[ModernClient] = field(default_factory=list)

    async def create(self, upstream_id: str = "task-1", name: str = "run", **fields: Any) -> str:
        """Make a task; gives the id that the client sees."""
        self.upstream.once("tools/call", {"task": task(upstream_id, **fields)})
        reply = await self.client.call(name)
        return str(reply.result["taskId"])

    async def get(self, task_id: str = "task-1") -> Any:
        """Look at a task afresh: enough time passes that nothing older is reused."""
        self.clock.advance(1_001)
        return (await self.client.tasks("get", task_id)).result

    async def until(self, task_id: str, status: str) -> Any:
        """Look at a task until it is in a state; the test's time limit ends a wait in vain."""
        while True:
            if (seen := await self.get(task_id))["status"] == status:
                return seen

    def events(self, name: str) -> list[dict[str, Any]]:
        """The audit events of one name."""
        return events(self.folder, name)


@asynccontextmanager
async def corner(
    upstream: Scripted,
    folder: Path,
    /,
    *,
    clock: HandClock | None = None,
    client: dict[str, Any] | None = None,
    tools: dict[str, Any] | None = None,
    **sections: Any,
) -> AsyncIterator[Corner]:
    """Run the corner ML; `sections` go into the config, `client` into the ModernClient."""
    clock = clock or HandClock()
    upstream.on("tools/list", TOOLS if tools is None else tools)
    sections = {"upstream": {"dialect": "experimental"}, **sections}
    async with (
        running(config_for(upstream.url, folder, **sections), clock=clock) as app,
        ModernClient(app.url, **{"headers": ALICE, **(client or {})}) as modern,
    ):
        yield Corner(upstream, app, modern, clock, folder)


async def breath(app: App) -> None:
    """Let the shim do what is due: while a request goes there and back, on a machine of any speed."""
    async with aiohttp.ClientSession() as http, http.get(f"{app.admin_url}/healthz") as answer:
        await answer.read()


def about(task_id: str) -> dict[str, Any]:
    """A `_meta` that names a task."""
    return {"_meta": {RELATED_TASK: {"taskId": task_id}}}


def elicit(request_id: Any, task_id: str | None = None, message: str = "sure?") -> dict[str, Any]:
    """A server's question, with related-task if a task is given."""
    params = {
        "mode": "form",
        "message": message,
        "requestedSchema": {"type": "object", "properties": {"ok": {"type": "boolean", "description": MARK}}},
        **(about(task_id) if task_id else {}),
    }
    return {"jsonrpc": "2.0", "id": request_id, "method": "elicitation/create", "params": params}


def accept(**content: Any) -> dict[str, Any]:
    """An accepted elicitation."""
    return {"action": "accept", "content": {**content, "planted": MARK}}


def asks_before_it_hears(upstream: Scripted, stream: Stream) -> None:
    """Let the server ask "q" of task-1 on its `tasks/result` just before it hears that this is called off."""

    async def called_off(_: Seen) -> Raw:
        await stream.send(elicit("q", "task-1"))
        await stream.error(0, "Request cancelled")
        return Raw(b"", 202, {})

    upstream.on("notifications/cancelled", called_off)
