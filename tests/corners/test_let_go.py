"""What a request leaves behind when it is over: nothing (found by `python -m benchmarks.soak`)."""

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shim.tasks.parked_call import ParkedCall
from tests.corners import lm as modern_side
from tests.corners.ml import ALICE, corner
from tests.corners.test_ll_tasks import make, session
from tests.scripted import EXPERIMENTAL, Scripted, scripted, task, text

LONG_MS = 3_600_000


def there(kind: type) -> list[Any]:
    """The objects of a kind that anything still holds."""
    gc.collect()
    return [one for one in gc.get_objects() if isinstance(one, kind)]


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that comes by itself; the test's time limit ends a wait in vain."""
    while not holds():  # noqa: ASYNC110 - there is no event for what is forgotten
        await asyncio.sleep(0)


@pytest.mark.rule("ML-STREAMS")
async def test_a_sessions_stream_does_not_hold_the_call_that_opened_it(tmp_path: Path) -> None:
    async with scripted(capabilities=EXPERIMENTAL) as upstream, corner(upstream, tmp_path) as ml:
        upstream.stream("GET")
        upstream.on("tools/call", text("done"))
        assert (await ml.client.call("plain")).result["content"]
        assert upstream.seen("GET"), "the session's stream is open"
        await until(lambda: not there(ParkedCall))


@pytest.mark.rule("ML-SESSION")
async def test_idle_sessions_and_their_callers_are_forgotten(tmp_path: Path) -> None:
    async with scripted(capabilities=EXPERIMENTAL) as upstream, corner(upstream, tmp_path) as ml:
        await ml.create()
        upstream.on("tasks/get", task(status="completed"))
        upstream.on("tasks/result", text("done"))
        await ml.until("task-1", "completed")
        speaker: Any = ml.app.behind.main
        assert speaker.pool._groups.by_caller
        assert speaker._catalogs
        await until(lambda: not speaker.pool._warming)
        ml.clock.advance(LONG_MS)
        await ml.app.tasks.sweeper.once()
        assert (speaker.pool._groups.by_caller, len(speaker.pool), len(speaker._catalogs)) == ({}, 0, 0)


@pytest.mark.rule("ML-SESSION", "DUR-4")
async def test_a_task_whose_time_is_over_holds_no_session(tmp_path: Path) -> None:
    async with (
        scripted(capabilities=EXPERIMENTAL) as upstream,
        corner(upstream, tmp_path, tasks={"max_age_ms": 1_000}) as ml,
    ):
        await ml.create()
        speaker: Any = ml.app.behind.main
        await until(lambda: not speaker.pool._warming)
        ml.clock.advance(LONG_MS)
        await ml.app.tasks.sweeper.once()
        ml.clock.advance(LONG_MS)
        await ml.app.tasks.sweeper.once()
        assert (speaker.pool._groups.by_caller, len(speaker.pool)) == ({}, 0)


@pytest.mark.rule("LL-ROUTE")
async def test_a_clients_idle_session_is_found_again_in_the_ledger(tmp_path: Path) -> None:
    async with (
        scripted(capabilities=EXPERIMENTAL) as upstream,
        corner(upstream, tmp_path) as ml,
        session(ml.app, headers=ALICE) as client,
        session(ml.app, headers=ALICE) as other,
    ):
        await make(upstream, client)
        upstream.on("tasks/get", task(status="completed"))
        upstream.on("tasks/result", text("done"))
        assert (await other.tasks("get", "task-1")).result["status"] == "completed"
        speaker: Any = ml.app.behind.main
        assert list(speaker._sessions._driven) == [client.session]
        ml.clock.advance(LONG_MS)
        await ml.app.tasks.sweeper.once()
        assert not speaker._sessions._driven
        assert (await other.tasks("result", "task-1")).result["content"] == text("done")["content"]


@pytest.mark.rule("LM-INIT")
async def test_what_a_server_said_of_itself_is_forgotten(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with modern_side.corner(modern_upstream, tmp_path) as lm:
        speaker: Any = lm.app.behind.main
        assert len(speaker._facts) == 1
        lm.clock.advance(60_000)
        await lm.app.tasks.sweeper.once()
        assert not speaker._facts


@pytest.mark.rule("LL-ROUTE")
async def test_a_waiter_that_leaves_takes_all_its_waiting_along(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with (
        modern_side.corner(modern_upstream, tmp_path) as lm,
        modern_side.ModernClient(lm.app.url, headers=ALICE) as modern,
    ):
        modern_upstream.once("tools/call", modern_side.made())
        await modern.call("run")
        before = {one.get_coro() for one in asyncio.all_tasks()}
        for _ in range(3):
            async with lm.client.stream("tasks/result", {"taskId": "task-1"}):
                pass
        lm.clock.advance(1_001)

        def waits() -> list[str]:
            return [
                one.get_coro().__qualname__  # type: ignore[union-attr]
                for one in asyncio.all_tasks()
                if one.get_coro() not in before and "Event.wait" in repr(one.get_coro())
            ]

        await until(lambda: not waits())
