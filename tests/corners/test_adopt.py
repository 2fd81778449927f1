"""OWN-ADOPT: tasks from before the shim stood here go on, for whoever the server lets at them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.client import LegacyClient
from tests.corners.ml import ALICE
from tests.corners.test_strangers import BOB, House, house, seen_by_client
from tests.scripted import Error, Raw, Scripted, Seen, task, text
from tests.shim import events

UNTIL = datetime(2999, 1, 1, tzinfo=UTC)
PAST = datetime(2000, 1, 1, tzinfo=UTC)
OLD = "0c8f9a52-30f6-4a53-9d3f-91b0f4f4c001"
UNKNOWN = Error(-32602, "Task not found")


def of(credential: str | None, answer: dict[str, Any]) -> Any:
    """The server knows the one old task, and lets one credential at it."""

    def judge(seen: Seen) -> Any:
        known = seen.params["taskId"] == OLD and seen.headers.get("Authorization") == credential
        return answer if known else UNKNOWN

    return judge


@asynccontextmanager
async def adopting(
    upstream: Scripted, folder: Path, until: datetime | None = UNTIL, dialect: str = "experimental"
) -> AsyncIterator[House]:
    method = "tasks/get" if dialect == "experimental" else "tasks/status"
    state = "working" if dialect == "experimental" else "running"
    upstream.on(method, of(ALICE["Authorization"], task(OLD, state)))
    async with house(upstream, folder, dialect, ownership={"adopt_until": until}) as at:
        yield at


def adopted(folder: Path) -> list[str | None]:
    return [one.get("task_id") for one in events(folder, "adopted")]


@pytest.mark.rule("OWN-ADOPT")
async def test_an_old_session_and_its_task_go_on(upstream: Scripted, tmp_path: Path) -> None:
    async with LegacyClient(upstream.url) as before:
        await before.initialize()
    async with adopting(upstream, tmp_path) as at:
        alice, bob = await at.legacy(ALICE), await at.seated(BOB)
        alice.session, alice.initialized = before.session, True
        unknown = await bob.tasks("get", "no-such-task", id=7)
        assert seen_by_client(await bob.tasks("get", OLD, id=7)) == seen_by_client(unknown)
        assert (await alice.tasks("get", OLD)).result == task(OLD)
        upstream.on("tasks/result", text("done"))
        assert (await alice.tasks("result", OLD)).result == text("done")
        # it is hers now, in both eras, and nobody else's
        assert [one["taskId"] for one in (await alice.request("tasks/list")).result["tasks"]] == [OLD]
        assert (await (await at.modern(ALICE)).tasks("get", OLD)).result["status"] == "completed"
        upstream.on("tasks/get", of(BOB["Authorization"], task(OLD)))
        assert seen_by_client(await bob.tasks("get", OLD, id=7)) == seen_by_client(unknown)
    assert adopted(tmp_path) == [None, OLD]


@pytest.mark.rule("OWN-ADOPT")
@pytest.mark.parametrize("dialect", ["experimental", "create-status"])
async def test_a_task_bound_to_no_session_is_found_by_any_client(
    upstream: Scripted, tmp_path: Path, dialect: str
) -> None:
    async with adopting(upstream, tmp_path, dialect=dialect) as at:
        clients = [await at.modern(ALICE), await at.modern(ALICE)]
        assert [(await one.tasks("get", OLD)).result["status"] for one in clients] == ["working"] * 2
        four_state = await at.legacy(ALICE, "/create-status")
        assert (await four_state.tasks("status", OLD)).result["taskId"] == OLD
    assert adopted(tmp_path) == [OLD]


@pytest.mark.rule("OWN-ADOPT")
@pytest.mark.parametrize("until", [None, PAST])
async def test_not_when_the_operator_does_not_allow_it(
    upstream: Scripted, tmp_path: Path, until: datetime | None
) -> None:
    async with adopting(upstream, tmp_path, until) as at:
        assert (await (await at.modern(ALICE)).tasks("get", OLD)).error["code"] == -32602
        assert (await (await at.seated(ALICE)).tasks("get", OLD)).error["code"] == -32602
        assert upstream.seen("tasks/get") == []
    assert adopted(tmp_path) == []


@pytest.mark.rule("OWN-ADOPT", "OWN-NONE", "OWN-ID-MAP")
async def test_never_an_id_that_the_ledger_knows(upstream: Scripted, tmp_path: Path) -> None:
    async with adopting(upstream, tmp_path) as at:
        alice, nobody = await at.modern(ALICE), await at.modern({})
        upstream.on("tools/call", {"task": task("task-1")})
        made = (await nobody.call("run")).result["taskId"]
        upstream.on("tasks/get", task("task-1"))
        assert made != "task-1"
        for stranger in (alice, nobody):
            assert (await stranger.tasks("get", "task-1")).error["code"] == -32602
        upstream.on("tools/call", {"task": task(OLD)})
        assert (await alice.call("run")).result["taskId"] == OLD
        upstream.on("tasks/get", task(OLD))
        assert (await (await at.modern(BOB)).tasks("get", OLD)).error["code"] == -32602
    assert adopted(tmp_path) == []


@pytest.mark.rule("OWN-ADOPT", "OWN-NONE")
async def test_nobody_takes_over_what_can_be_guessed(upstream: Scripted, tmp_path: Path) -> None:
    async with adopting(upstream, tmp_path) as at:
        nobody = await at.modern({})
        upstream.on("tasks/get", lambda seen: task(seen.params["taskId"]))
        assert (await nobody.tasks("get", "task-7")).error["code"] == -32602
        assert (await nobody.tasks("get", OLD)).result["taskId"] == OLD


@pytest.mark.rule("OWN-ADOPT", "OWN-CHECK")
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (Raw(b"", 500, {}), -32603),
        (Error(-32000, "busy"), -32603),
        (task("another"), -32602),
        ({}, -32603),
        (UNKNOWN, -32602),
    ],
)
async def test_a_failure_is_not_taken_for_unknown(
    upstream: Scripted, tmp_path: Path, answer: Any, code: int
) -> None:
    async with adopting(upstream, tmp_path) as at:
        upstream.on("tasks/get", answer)
        client, legacy = await at.modern(ALICE), await at.seated(ALICE)
        assert (await client.tasks("get", OLD)).error["code"] == code
        assert (await legacy.tasks("get", OLD)).error["code"] == code
    assert adopted(tmp_path) == []
