"""A cancel races the end of the work, a thousand times a corner: what was first shown as the end stays."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import LegacyClient, ModernClient
from tests.scripted import Error, Scripted, Seen, scripted, task, text
from tests.shim import config_for, events

RACES = 1_000
AT_ONCE = 25
ENDS = {"completed", "failed", "cancelled"}
ALICE = {"Authorization": "Bearer alice"}
DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
    "ttlMs": 0,
    "cacheScope": "private",
}


class Server:
    """A server whose tasks end when the test says so, or by a cancel that comes before that."""

    def __init__(self, upstream: Scripted, *, modern: bool) -> None:
        self.modern = modern
        self.states: dict[str, str] = {}
        upstream.on("tools/list", {"tools": [{"name": "run", "execution": {"taskSupport": "optional"}}]})
        if modern:
            upstream.on("server/discover", DISCOVERED)
        upstream.on("tools/call", self._create)
        upstream.on("tasks/get", self._get)
        upstream.on("tasks/result", lambda seen: text(f"done {seen.params['taskId']}"))
        upstream.on("tasks/cancel", self._cancel)

    def finish(self, task_id: str) -> None:
        """Let a task's work be done, unless it was cancelled; its call may still be on its way."""
        if self.states.get(task_id, "working") == "working":
            self.states[task_id] = "completed"

    def show(self, task_id: str) -> dict[str, Any]:
        status = self.states[task_id]
        if not self.modern:
            return task(task_id, status, pollInterval=5)
        shown = {
            "taskId": task_id, "status": status, "createdAt": "2026-01-01T00:00:00Z",
            "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": None, "pollIntervalMs": 5,
        }  # fmt: skip
        return {**shown, **({"result": text("done")} if status == "completed" else {})}

    def _create(self, seen: Seen) -> dict[str, Any]:
        task_id = named(seen.params["arguments"]["n"])
        self.states.setdefault(task_id, "working")
        return {"resultType": "task", **self.show(task_id)} if self.modern else {"task": self.show(task_id)}

    def _get(self, seen: Seen) -> dict[str, Any]:
        envelope = {"resultType": "complete"} if self.modern else {}
        return {**envelope, **self.show(seen.params["taskId"])}

    def _cancel(self, seen: Seen) -> dict[str, Any] | Error:
        task_id = seen.params["taskId"]
        if self.modern:
            if self.states[task_id] == "working" and random.random() < 0.5:  # noqa: S311 - a server may be slow
                self.states[task_id] = "cancelled"
            return {"resultType": "complete"}
        if self.states[task_id] != "working":
            return Error(-32602, "Cannot cancel task in terminal status")
        self.states[task_id] = "cancelled"
        return self.show(task_id)


def named(number: int) -> str:
    """The server's id of the task that a call makes; its client may know it by another."""
    return f"{number:032x}"


@asynccontextmanager
async def stage(folder: Path, *, modern: bool, handle_after_ms: int) -> AsyncIterator[tuple[Server, App]]:
    async with scripted(sessions=not modern) as upstream:
        server = Server(upstream, modern=modern)
        config = config_for(
            upstream.url, folder,
            upstream={"dialect": "sep-2663" if modern else "experimental"},
            tasks={
                "tasks_per_session": 10_000, "default_poll_interval_ms": 5,
                "handle_after_ms": handle_after_ms,
            },
            limits={"open_tasks_per_caller": 10_000},
        )  # fmt: skip
        async with running(config) as app:
            yield server, app


Create = Callable[[], Any]


@pytest.mark.rule("HUB-1", "HUB-2", "LM-CANCEL", "ML-CANCEL")
@pytest.mark.parametrize(
    ("corner", "handle_after_ms"),
    [("LM", 600_000), ("LM", 1), ("ML", 600_000), ("MM", 600_000)],
    ids=["LM", "LM, the handle before the server's", "ML", "MM"],
)
async def test_the_end_that_was_shown_first_stays(corner: str, handle_after_ms: int, tmp_path: Path) -> None:
    """On however slow a machine, each is about handles of one origin: what a late one means is known."""
    async with (
        stage(tmp_path, modern=corner[1] == "M", handle_after_ms=handle_after_ms) as (server, app),
        LegacyClient(app.url, headers=ALICE) as old,
        ModernClient(app.url, headers=ALICE) as new,
    ):
        await old.initialize()
        turn = asyncio.Semaphore(AT_ONCE)

        async def shown(client: LegacyClient | ModernClient, task_id: str) -> str:
            return str((await client.tasks("get", task_id)).result["status"])

        async def race(number: int) -> list[str]:
            async with turn:
                if corner[0] == "L":
                    made = (await old.call("run", {"n": number}, task={})).result["task"]["taskId"]
                else:
                    made = (await new.call("run", {"n": number})).result["taskId"]
                canceller = old if corner[0] == "L" else new

                async def finish() -> None:
                    for _ in range(random.randrange(40)):  # noqa: S311 - any moment will do
                        await asyncio.sleep(0)
                    server.finish(named(number))

                seen = await asyncio.gather(
                    shown(old, made), shown(new, made), canceller.tasks("cancel", made), finish(),
                    shown(new, made), shown(old, made),
                )  # fmt: skip
                states = [one for one in seen if isinstance(one, str)]
                server.finish(named(number))
                while (state := await shown(new, made)) not in ENDS:  # noqa: ASYNC110 - a poll
                    await asyncio.sleep(0.005)
                return [*states, state, await shown(old, made), await shown(new, made)]

        told = await asyncio.gather(*(race(number) for number in range(RACES)))
    ends = [{state for state in states if state in ENDS} for states in told]
    assert [one for one in ends if len(one) != 1] == []
    assert {"completed", "cancelled"} == set().union(*ends), "the race was none"
    own = [event for event in events(tmp_path, "task.created") if event["local"]]
    assert bool(own) == (handle_after_ms == 1)
    ended = events(tmp_path, "task.ended")
    assert (len(ended), len({event["task_id"] for event in ended})) == (RACES, RACES)  # told once each
