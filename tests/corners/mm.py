"""A modern client, the shim and a scripted modern upstream, all over real sockets, on a clock of the test's.

async with corner(tmp_path) as mm:
    task_id = await mm.create()
    mm.upstream.once("tasks/get", shown(task_id, "completed", result=text("hi")))
    reply = await mm.client.tasks("get", task_id)
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from shim.app import running
from shim.ledger.records import InputState, TaskRow
from tests.client import MODERN, TASKS_EXTENSION, ModernClient
from tests.corners.ml import ALICE, Corner, HandClock
from tests.scripted import Raw, Seen, scripted, text
from tests.shim import config_for

SERVER_INFO = {"io.modelcontextprotocol/serverInfo": {"name": "scripted", "version": "1"}}
TASK = "3f0f7f3e-5f6c-4a52-9d56-2a5d3f7f0c11"
CREATED = "2027-01-15T08:00:00.000001+00:00"


def discovered(*, tasks: bool = True) -> dict[str, Any]:
    """A discover result."""
    extensions: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}} if tasks else {}
    return {
        "resultType": "complete",
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {}, **extensions},
        "ttlMs": 5_000,
        "cacheScope": "public",
        "_meta": SERVER_INFO,
    }


def task(task_id: str = TASK, status: str = "working", **fields: Any) -> dict[str, Any]:
    """A task as a modern server shows it."""
    times = {"createdAt": CREATED, "lastUpdatedAt": CREATED}
    return {"taskId": task_id, "status": status, **times, "ttlMs": 900_000, "pollIntervalMs": 1_000, **fields}


def handle(task_id: str = TASK, **fields: Any) -> dict[str, Any]:
    """The answer to a call that became a task."""
    return {"resultType": "task", **task(task_id, **fields), "_meta": SERVER_INFO}


def shown(task_id: str = TASK, status: str = "working", **fields: Any) -> dict[str, Any]:
    """A tasks/get answer."""
    return {"resultType": "complete", **task(task_id, status, **fields), "_meta": SERVER_INFO}


def result(value: str = "hi", **fields: Any) -> dict[str, Any]:
    """A tool's result as a modern server gives it."""
    return {
        "content": text(value)["content"],
        "resultType": "complete",
        **fields,
        "_meta": SERVER_INFO,
    }


def question(message: str = "sure?") -> dict[str, Any]:
    """A question inside a task."""
    schema = {"type": "object", "properties": {"ok": {"type": "boolean"}}}
    return {
        "method": "elicitation/create",
        "params": {"mode": "form", "message": message, "requestedSchema": schema},
    }


def spaced(answer: dict[str, Any], status: int = 200) -> Any:
    """An answer as no encoder of the shim's would write it, so that a copy can be told."""

    def answered(seen: Seen) -> Raw:
        message = {"jsonrpc": "2.0", "id": seen.id, **answer}
        return Raw("\n " + json.dumps(message, indent=3), status)

    return answered


class ModernCorner(Corner):
    """The running parts of one conversation."""

    async def create(self, upstream_id: str = TASK, name: str = "run", **fields: Any) -> str:
        """Make a task; gives the id that the client sees."""
        self.upstream.once("tools/call", handle(upstream_id, **fields))
        reply = await self.client.call(name)
        return str(reply.result["taskId"])

    async def row(self, pk: int = 1) -> TaskRow:
        """The n-th task that was written down. Raises KeyError."""
        return await self.app.ledger.own_task(pk)

    async def is_kept(self, pk: int = 1) -> bool:
        """Whether the n-th task was written down."""
        with contextlib.suppress(KeyError):
            return bool(await self.row(pk))
        return False

    async def has_left(self) -> bool:
        """Whether a client is known to have left."""
        return any(event["outcome"] == "disconnected" for event in self.events("request"))


@asynccontextmanager
async def corner(
    folder: Path, *, clock: HandClock | None = None, client: dict[str, Any] | None = None, **sections: Any
) -> AsyncIterator[ModernCorner]:
    """Run the corner MM; `sections` go into the config, `client` into the ModernClient."""
    clock = clock or HandClock()
    async with scripted(sessions=False) as upstream:
        upstream.on("server/discover", discovered())
        sections["upstream"] = {"dialect": "sep-2663", **sections.get("upstream", {})}
        async with (
            running(config_for(upstream.url, folder, **sections), clock=clock) as app,
            ModernClient(app.url, **{"headers": ALICE, **(client or {})}) as modern,
        ):
            yield ModernCorner(upstream, app, modern, clock, folder)


async def until(check: Callable[[], Awaitable[bool]]) -> None:
    """Wait for something that others do; the test's time limit ends a wait in vain."""
    while not await check():  # noqa: ASYNC110 - there is no event to wait for in what others keep
        await asyncio.sleep(0)


def sent(seen: Seen) -> Any:
    """A request's params but for `_meta`."""
    return {key: value for key, value in seen.params.items() if key != "_meta"}


async def asked(mm: ModernCorner, *keys: str) -> None:
    """Make a task that asks, and let its client see the questions."""
    await mm.create()
    mm.upstream.once(
        "tasks/get", shown(TASK, "input_required", inputRequests=dict.fromkeys(keys, question()))
    )
    await mm.client.tasks("get", TASK)


async def states(mm: ModernCorner) -> dict[str, str]:
    """What became of each question."""
    every: tuple[InputState, ...] = ("outstanding", "answered", "delivered", "closed")
    return {one.key: one.state for one in await mm.app.ledger.inputs(1, every)}
