"""What holds a session, and that it is let go once nothing needs it (ML-SESSION, DUR-4, DUR-6)."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from shim.tasks.lookout import Lookout
from tests.client import LegacyClient
from tests.corners import lm as modern_side
from tests.corners.ml import ALICE, Corner, corner, elicit
from tests.corners.test_let_go import until
from tests.corners.test_ll_tasks import make, session
from tests.scripted import Error, Hang, Scripted, task, text

IDLE_MS = 600_001
DAY_MS = 86_400_001
UNKNOWN = Error(-32602, "Task not found")


def held(ml: Corner) -> list[str]:
    """The sessions that the shim holds open upstream."""
    speaker: Any = ml.app.behind.main
    return [one.id for one in speaker.pool]


async def settled(ml: Corner) -> None:
    """Wait until no spare session is on its way."""
    speaker: Any = ml.app.behind.main
    await until(lambda: not speaker.pool._warming)


async def looked(ml: Corner) -> None:
    """Let so much time pass that a task is looked at which nobody asks for."""
    ml.clock.advance(IDLE_MS)
    await ml.app.tasks.lookout.once()


async def swept(ml: Corner) -> None:
    """Let so much time pass that a session which nothing needs goes."""
    ml.clock.advance(IDLE_MS)
    await ml.app.tasks.sweeper.once()


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody looks but the test."""

    async def never(_: Lookout) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(Lookout, "run", never)


@pytest.mark.rule("DUR-6")
async def test_the_shim_looks_by_itself(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        upstream.on("tasks/get", task(status="completed"))
        upstream.on("tasks/result", text("done"))
        await ml.clock.slept(600_000)
        ml.clock.advance(IDLE_MS)
        await until(lambda: len(ml.events("task.ended")) == 1)


@pytest.mark.usefixtures("by_hand")
@pytest.mark.rule("DUR-6", "ML-SESSION")
async def test_a_finished_task_that_nobody_polls_lets_its_session_go(
    upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        await settled(ml)
        upstream.on("tasks/get", task())
        await looked(ml)
        await swept(ml)
        assert len(held(ml)) == 1, "the task goes on, and only its session stays"
        upstream.on("tasks/get", task(status="completed"))
        upstream.on("tasks/result", text("done"))
        await looked(ml)
        await until(lambda: len(ml.events("task.ended")) == 1)
        assert await ml.app.ledger.open_count_by_caller((await ml.app.ledger.own_task(1)).caller) == 0
        await swept(ml)
        assert held(ml) == []
        assert (await ml.get())["result"]["content"] == text("done")["content"]
        assert len(upstream.seen("tasks/result")) == 1, "it is the ledger's own"


@pytest.mark.usefixtures("by_hand")
@pytest.mark.rule("DUR-6", "OWN-CREDENTIAL")
async def test_a_task_is_not_looked_at_without_its_owners_credential(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task(status="completed"))
    upstream.on("tasks/result", text("done"))
    upstream.on("tools/call", text("hi"))
    async with corner(upstream, tmp_path, identity={"credential_hold_ms": 1}) as ml:
        await ml.create()
        await settled(ml)  # a spare session that opens later would hold the credential anew
        for _ in range(2):
            await looked(ml)
        assert not upstream.seen("tasks/get")
        await until(lambda: len(ml.events("task.waiting_credential")) == 1)
        ml.app.behind.main.credentials.held.hold_ms = 10 * IDLE_MS
        assert (await ml.client.call("plain")).result["content"]
        await looked(ml)
        await until(lambda: len(ml.events("task.ended")) == 1)


@pytest.mark.usefixtures("by_hand")
@pytest.mark.rule("DUR-6")
async def test_a_server_that_is_away_is_asked_again_next_time(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        for name in ("task-1", "task-2"):
            await ml.create(name)
        upstream.once("tasks/get", Error(-32603, status=503))
        upstream.on("tasks/get", lambda seen: task(seen.params["taskId"], "completed"))
        upstream.on("tasks/result", text("done"))
        await looked(ml)
        await until(lambda: len(ml.events("task.ended")) == 1)  # the other one was looked at all the same
        await looked(ml)
        await until(lambda: len(ml.events("task.ended")) == 2)


@pytest.mark.usefixtures("by_hand")
@pytest.mark.rule("DUR-6", "LL-ROUTE")
async def test_a_task_that_its_client_waits_for_is_left_to_it(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml, session(ml.app, headers=ALICE) as client:
        await make(upstream, client)
        upstream.on("tasks/result", Hang())
        waiting = asyncio.create_task(client.tasks("result", "task-1"))
        await upstream.wait("tasks/result")
        await looked(ml)
        assert not upstream.seen("tasks/get")
        assert len(upstream.seen("tasks/result")) == 1
        waiting.cancel()
        await until(lambda: not ml.app.tasks.hand_back._open)
        upstream.on("tasks/get", task(status="completed"))
        upstream.on("tasks/result", text("done"))
        await looked(ml)
        await until(lambda: len(ml.events("task.ended")) == 1)


@pytest.mark.rule("ML-SESSION", "ML-CANCEL")
async def test_a_stream_that_is_called_off_at_the_end_does_not_take_the_place_again(
    upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        upstream.on("tasks/get", task(status="input_required"))
        upstream.stream("tasks/result")
        await (await upstream.get_stream()).send(elicit(9, "task-1"))
        await ml.until("task-1", "input_required")
        await upstream.wait("tasks/result")
        upstream.on("tasks/cancel", task(status="cancelled"))
        upstream.on("tasks/get", task(status="cancelled"))
        await ml.client.tasks("cancel", "task-1")
        await ml.until("task-1", "cancelled")
        await upstream.wait("notifications/cancelled")
        speaker: Any = ml.app.behind.main
        await until(lambda: all(one.free for one in speaker.pool))


@pytest.mark.usefixtures("by_hand")
@pytest.mark.rule("DUR-4", "ML-SESSION")
async def test_a_task_that_its_server_forgot_after_its_ttl_holds_no_session(
    upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(upstream, tmp_path) as ml:
        await ml.create(ttl=1_000)
        await settled(ml)
        upstream.on("tasks/get", UNKNOWN)
        await looked(ml)
        await swept(ml)
        assert held(ml) == []
        assert "expired" in (await ml.client.tasks("get", "task-1")).error["message"]


@pytest.mark.rule("DUR-4")
async def test_what_time_takes_leaves_no_stream_behind(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path, tasks={"max_age_ms": 10 * IDLE_MS}) as ml:
        await ml.create()
        upstream.on("tasks/get", task(status="input_required"))
        stream = upstream.stream("tasks/result")
        await (await upstream.get_stream()).send(elicit(9, "task-1"))
        await ml.until("task-1", "input_required")
        await stream.opened()
        ml.clock.advance(10 * IDLE_MS)
        await ml.app.tasks.sweeper.once()
        await stream.left()


@pytest.mark.rule("DUR-6")
@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize("side", ["LL", "LM"])
async def test_a_task_that_a_legacy_client_asks_for_is_not_abandoned(
    side: str, upstream: Scripted, modern_upstream: Scripted, tmp_path: Path, *, waits: bool
) -> None:
    sections: dict[str, Any] = {
        "tasks": {"on_abandon": "cancel"},
        "identity": {"credential_hold_ms": 30 * DAY_MS},
    }

    async def asked_for(at: Any, client: LegacyClient, server: Scripted) -> None:
        waiting = asyncio.create_task(client.tasks("result", "task-1")) if waits else None
        if waits:
            await until(lambda: 1 in at.app.tasks._waited_for())
        for _ in range(4):
            at.clock.advance(DAY_MS * 2 // 3)
            if not waits:
                await client.tasks("get", "task-1")
            await at.app.tasks.sweeper.once()
        at.clock.advance(DAY_MS)
        if waiting is not None:
            assert not server.seen("tasks/cancel")
            waiting.cancel()
            await until(lambda: 1 not in at.app.tasks._waited_for())
            at.clock.advance(DAY_MS)
        await at.app.tasks.sweeper.once()
        await until(lambda: len(at.events("task.abandoned")) == 1)  # now, and not before
        assert len(server.seen("tasks/cancel")) == 1

    if side == "LL":
        async with (
            corner(upstream, tmp_path, **sections) as ml,
            session(ml.app, headers=ALICE) as client,
        ):
            await make(upstream, client)
            upstream.on("tasks/get", task())
            upstream.on("tasks/result", Hang())
            upstream.on("tasks/cancel", task())
            await asked_for(ml, client, upstream)
    else:
        async with modern_side.corner(modern_upstream, tmp_path, **sections) as lm:
            await lm.create()
            await asked_for(lm, lm.client, modern_upstream)


@pytest.mark.usefixtures("by_hand")
@pytest.mark.rule("ML-SESSION")
@pytest.mark.parametrize(("close", "told"), [(True, 1), (False, 0)])
async def test_a_session_of_an_earlier_run_that_nobody_takes_up_is_closed(
    upstream: Scripted, tmp_path: Path, *, close: bool, told: int
) -> None:
    sections: dict[str, Any] = {
        "sessions": {"close": close, "spares": 0},
        "upstream": {"dialect": "experimental", "credentials": "none"},
    }
    async with corner(upstream, tmp_path, **sections) as ml:
        await ml.create()
    upstream.on("tasks/get", task(status="completed"))
    upstream.on("tasks/result", text("done"))
    async with corner(upstream, tmp_path, clock=ml.clock, **sections) as ml:
        await swept(ml)
        [row] = upstream.sessions
        kept = await ml.app.ledger.session(row)
        assert kept is not None
        assert not kept.closed, "its task is open"
        await looked(ml)
        for _ in range(2):
            await swept(ml)
        kept = await ml.app.ledger.session(row)
        assert kept is not None
        assert kept.closed
    assert len(upstream.seen("DELETE")) == told


@pytest.mark.rule("LL-OWN", "DUR-4")
async def test_a_session_that_its_client_ended_goes_after_its_tasks(
    upstream: Scripted, tmp_path: Path
) -> None:
    identity = {"credential_hold_ms": 30 * DAY_MS}
    async with corner(upstream, tmp_path, identity=identity) as ml:
        async with session(ml.app, headers=ALICE) as client:
            await make(upstream, client)
            assert (await client.delete()).status == 200
            ended = str(client.session)
        upstream.on("tasks/get", task())
        ml.clock.advance(DAY_MS)
        await ml.app.tasks.sweeper.once()
        assert await ml.app.ledger.session(ended) is not None, "an open task was made in it"
        upstream.on("tasks/get", task(status="completed"))
        upstream.on("tasks/result", text("done"))
        await ml.until("task-1", "completed")
        await ml.app.tasks.sweeper.once()
        assert await ml.app.ledger.session(ended) is None
        assert (await ml.get())["status"] == "completed"
