"""A shim in front of a server without tasks, some of whose tools it runs as tasks itself.

async with world(tmp_path, "legacy") as one:
    task_id = await one.made()
    ended = await one.shown(task_id, "completed")
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shim.app import App, running
from tests.client import LegacyClient, ModernClient
from tests.corners.lm import WITHOUT_TASKS
from tests.corners.ml import ALICE, HandClock
from tests.scripted import Scripted, scripted, tool
from tests.shim import config_for

ERAS = ("legacy", "modern")
DIALECTS = {"legacy": "experimental", "modern": "sep-2663"}
TOOLS = {"tools": [tool("slow", annotations={"idempotentHint": True}), tool("other")]}
NAMED = {"promote": ["sl*"]}


def text(value: str, **fields: Any) -> dict[str, Any]:
    """A tool's result."""
    return {"content": [{"type": "text", "text": value}], **fields}


@dataclass
class World:
    """A shim in front of a scripted server of one era that has no tasks."""

    upstream: Scripted
    app: App
    clock: HandClock
    modern: ModernClient
    legacy: LegacyClient

    async def shown(self, task_id: str, *statuses: str) -> Any:
        """A task as a modern client sees it, once it is in one of these states."""
        while True:
            seen = (await self.modern.tasks("get", task_id)).result
            if seen["status"] in statuses:
                return seen
            await asyncio.sleep(0)

    async def made(self) -> str:
        """The id of a task that a modern client's call became."""
        reply = await self.modern.call("slow", {"n": 1})
        assert reply.result["resultType"] == "task", reply
        return str(reply.result["taskId"])


@asynccontextmanager
async def standing(
    upstream: Scripted, folder: Path, era: str, tasks: Mapping[str, Any] = NAMED, /, **sections: Any
) -> AsyncIterator[World]:
    upstream.by_default("tools/list", TOOLS)
    upstream.by_default("server/discover", WITHOUT_TASKS)
    sections["upstream"] = {"dialect": DIALECTS[era], **sections.get("upstream", {})}
    config = config_for(upstream.url, folder, tasks=dict(tasks), **sections)
    clock = HandClock()
    async with (
        running(config, clock=clock) as app,
        ModernClient(app.url, headers=ALICE) as modern,
        LegacyClient(app.url, headers=ALICE) as legacy,
    ):
        yield World(upstream, app, clock, modern, legacy)


def options(era: str, capabilities: Any = None) -> dict[str, Any]:
    """How a scripted server of an era is run."""
    return {"capabilities": capabilities or {"tools": {}}} if era == "legacy" else {"sessions": False}


@asynccontextmanager
async def world(
    folder: Path, era: str, tasks: Mapping[str, Any] = NAMED, *, capabilities: Any = None, **sections: Any
) -> AsyncIterator[World]:
    """Run the parts; `tasks` is that section of the config."""
    async with (
        scripted(**options(era, capabilities)) as upstream,
        standing(upstream, folder, era, tasks, **sections) as one,
    ):
        yield one
