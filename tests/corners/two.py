"""An old and a new server behind one shim, scripted, over real sockets.

async with pair(tmp_path, "new 50%") as both:
    both.app.reload(both.config("new"))
    both.events("cutover.changed")
"""

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from shim.app import App, running
from shim.clock import Clock
from shim.config import Config
from tests.client import LegacyClient, ModernClient
from tests.corners.lm import DISCOVER, TOOLS, made, seen_as
from tests.scripted import Scripted, scripted, task, text, tool
from tests.shim import config_for, events

BOB = {"Authorization": "Bearer bob"}


@dataclass
class Pair:
    """An old and a new server behind one shim."""

    old: Scripted
    new: Scripted
    app: App
    folder: Path

    def config(self, *rules: str, default: str = "old", **cutover: Any) -> Config:
        """A config with these rules."""
        return config_of(self.old.url, self.new.url, self.folder, rules, default=default, **cutover)

    def events(self, name: str) -> list[dict[str, Any]]:
        """The audit events of one name."""
        return events(self.folder, name)


def config_of(old: str, new: str, folder: Path, rules: tuple[str, ...] = (), **cutover: Any) -> Config:
    """A config of two servers at these addresses."""
    config = config_for(old, folder).model_dump()
    config["cutover"] |= {"default": "old", "rules": rules, **cutover}
    config["upstream"] = [
        {"name": "old", "url": old, "dialect": "experimental"},
        {"name": "new", "url": new, "dialect": "sep-2663"},
    ]
    return Config.model_validate(config)


@asynccontextmanager
async def old_server(port: int = 0) -> AsyncIterator[Scripted]:
    """Run the old one; its tools are "run", which makes tasks, and "plain"."""
    async with scripted(port=port) as old:
        ids = itertools.count(1)
        old.on("tools/list", {"tools": [tool("run", "optional"), tool("plain", "forbidden")]})
        old.on(
            "tools/call",
            lambda seen: {"task": task(f"old-{next(ids)}")} if "task" in seen.params else text("old"),
        )
        old.on("tasks/get", lambda seen: task(seen.params["taskId"]))
        yield old


@asynccontextmanager
async def new_server() -> AsyncIterator[Scripted]:
    """Run the new one; its tools are "run" and "other", and it makes a task of every call."""
    async with scripted(sessions=False) as new:
        ids = itertools.count(1)
        new.on("server/discover", DISCOVER)
        new.on("tools/list", TOOLS)
        new.on("tools/call", lambda _: made(f"new-{next(ids)}"))
        new.on("tasks/get", lambda seen: seen_as(seen.params["taskId"]))
        yield new


@asynccontextmanager
async def pair(folder: Path, *rules: str, clock: Clock | None = None, **cutover: Any) -> AsyncIterator[Pair]:
    """Run both behind one shim; a task's id begins with the name of the server that made it."""
    async with (
        old_server() as old,
        new_server() as new,
        running(config_of(old.url, new.url, folder, rules, **cutover), clock=clock) as app,
    ):
        yield Pair(old, new, app, folder)


async def ran(client: ModernClient | LegacyClient, **options: Any) -> str:
    """Make a task; gives its id, which begins with the server's name."""
    result = (await client.call("run", **options)).result
    return str(result.get("taskId") or result["task"]["taskId"])
