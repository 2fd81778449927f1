"""MM-1: what a modern client does with its tasks passes, and the ledger has it."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from shim.hub.status import Status
from shim.tasks.terminal import End
from tests.client import ModernClient
from tests.corners.ml import accept
from tests.corners.mm import (
    TASK,
    asked,
    corner,
    question,
    result,
    sent,
    shown,
    spaced,
    states,
    until,
)
from tests.scripted import Error, Raw, Seen

pytestmark = pytest.mark.rule("MM-1")

STATES: dict[str, dict[str, Any]] = {
    "working": {"statusMessage": "3 of 7"},
    "input_required": {"inputRequests": {"k:1": question(), "k:2": question("really?")}},
    "completed": {"result": result("hi", structuredContent={"resultType": 1, "n": 1.10})},
    "failed": {"error": {"code": -32001, "message": "no", "data": [1]}, "statusMessage": "no"},
    "cancelled": {},
}
BARE = {"content": result("hi")["content"], "structuredContent": {"resultType": 1, "n": 1.1}}


@pytest.mark.parametrize("state", STATES)
async def test_a_state_passes_as_it_came_and_is_in_the_ledger(tmp_path: Path, state: str) -> None:
    fields = STATES[state]
    async with corner(tmp_path) as mm:
        await mm.create()
        answer = spaced({"result": shown(TASK, state, **fields)})
        mm.upstream.on("tasks/get", answer)
        reply = await mm.client.tasks("get", TASK, id=3)
        assert reply.body == answer(Seen("", "", reply.headers, b"", {"id": 3})).body.encode()
        row = await mm.row()
        assert (row.status, row.status_message) == (state, fields.get("statusMessage"))
        assert [one.key for one in await mm.app.ledger.inputs(row.pk)] == list(
            fields.get("inputRequests", ())
        )
        assert (json.loads(row.result) if row.result else None) == (BARE if state == "completed" else None)
        assert (json.loads(row.error) if row.error else None) == fields.get("error")


@pytest.mark.rule("HUB-1")
@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
async def test_an_end_that_was_shown_stays_whatever_the_server_says_later(tmp_path: Path, state: str) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        mm.upstream.once("tasks/get", shown(TASK, state, **STATES[state]))
        first = (await mm.client.tasks("get", TASK)).result
        mm.upstream.on("tasks/get", Error(-32602, "Task not found", status=400))
        again = (await mm.client.tasks("get", TASK)).result
    for key in ("status", "error", "statusMessage"):
        assert again.get(key) == first.get(key)
    if state == "completed":
        assert again["result"] == {"resultType": "complete", **BARE}


@pytest.mark.rule("HUB-1")
@pytest.mark.parametrize("later", ["working", "completed"])
async def test_a_pinned_end_that_comes_in_between_is_what_is_shown(tmp_path: Path, later: str) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()

        async def raced(_: Seen) -> Any:
            await mm.app.tasks.observer.end(await mm.row(), End(Status.CANCELLED))
            return shown(TASK, later, **STATES[later])

        mm.upstream.once("tasks/get", raced)
        assert (await mm.client.tasks("get", TASK)).result["status"] == "cancelled"
        mm.upstream.on("tasks/get", shown(TASK, later, **STATES[later]))
        assert (await mm.client.tasks("get", TASK)).result["status"] == "cancelled"
        assert len(mm.upstream.seen("tasks/get")) == 1
    assert [event["rule"] for event in mm.events("hub.illegal_transition")] == ["HUB-1"]


@pytest.mark.rule("HUB-4")
async def test_a_state_that_nobody_knows_is_a_fault(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        mm.upstream.on("tasks/get", shown(TASK, "sleeping"))
        assert (await mm.client.tasks("get", TASK)).error["code"] == -32603
    assert [event["rule"] for event in mm.events("upstream.invalid")] == ["HUB-4"]


async def test_an_error_about_an_own_task_passes(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        mm.upstream.on("tasks/get", Error(-32602, "Task not found", {"a": 1}, status=400))
        reply = await mm.client.tasks("get", TASK)
        assert (reply.status, reply.error) == (
            400,
            {"code": -32602, "message": "Task not found", "data": {"a": 1}},
        )
        assert (await mm.row()).status is Status.WORKING


@pytest.mark.rule("ML-SESSION-LOST", "DUR-4")
@pytest.mark.parametrize(("later_ms", "ends"), [(2_001, "failed"), (900_001, None)])
async def test_a_task_that_the_server_forgot_is_lost_or_expired(
    tmp_path: Path, later_ms: int, ends: str | None
) -> None:
    unasked = {"idle_ms": 2 * later_ms}  # nobody looks but the client
    async with corner(tmp_path, sessions=unasked) as mm:
        await mm.create()
        mm.upstream.on("tasks/get", Error(-32602, "Task not found", status=400))
        assert (await mm.client.tasks("get", TASK)).error["message"] == "Task not found"
        mm.clock.advance(later_ms)
        for _ in range(2):
            reply = await mm.client.tasks("get", TASK)
            if ends is None:
                assert reply.error["message"] == "Failed to retrieve task: Task has expired"
            else:
                assert (reply.result["status"], reply.result["error"]["code"]) == (ends, -32603)
        assert len(mm.upstream.seen("tasks/get")) == 2


@pytest.mark.rule("ML-UNDECLARED")
@pytest.mark.parametrize("verb", ["get", "update", "cancel"])
async def test_a_task_is_not_for_a_client_that_did_not_declare_them(tmp_path: Path, verb: str) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        mm.client.declares_tasks = False
        reply = await mm.client.tasks(verb, TASK, inputResponses={})
        assert (reply.status, reply.error["code"]) == (400, -32021)
        assert mm.upstream.seen(f"tasks/{verb}") == []


@pytest.mark.rule("OWN-ADOPT")
async def test_a_task_from_before_the_shim_goes_on(tmp_path: Path) -> None:
    until_then = {"adopt_until": datetime(2999, 1, 1, tzinfo=UTC)}
    async with corner(tmp_path, ownership=until_then) as mm:
        mm.upstream.on("tasks/get", spaced({"result": shown()}))
        reply = await mm.client.tasks("get", TASK)
        assert reply.body.startswith(b"\n {\n   ")
        async with ModernClient(mm.app.url, headers={"Authorization": "Bearer bob"}) as bob:
            assert (await bob.tasks("get", TASK)).error["code"] == -32602
    assert [event["task_id"] for event in mm.events("adopted")] == [TASK]


# -- update and cancel ---------------------------------------------------------------------------


async def test_an_answer_passes_and_is_in_the_ledger(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await asked(mm, "k:1", "k:2")
        mm.upstream.on("tasks/update", spaced({"result": {"resultType": "complete"}}))
        reply = await mm.client.tasks("update", TASK, inputResponses={"k:1": accept(ok=True)}, id=5)
        assert reply.body.startswith(b"\n {\n   ")
        assert sent(mm.upstream.seen("tasks/update")[0])["inputResponses"] == {"k:1": accept(ok=True)}
        assert await states(mm) == {"k:1": "delivered", "k:2": "outstanding"}
        assert (await mm.row()).status is Status.INPUT_REQUIRED
        await mm.client.tasks("update", TASK, inputResponses={"k:2": accept()})
        assert (await mm.row()).status is Status.WORKING
    assert [event["key"] for event in mm.events("input.answered")] == ["k:1", "k:2"]


async def test_an_answer_that_the_server_refuses_can_be_given_again(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await asked(mm, "k")
        mm.upstream.once("tasks/update", Error(-32602, "malformed", status=400))
        reply = await mm.client.tasks("update", TASK, inputResponses={"k": {"action": 3}})
        assert (reply.status, reply.error["message"]) == (400, "malformed")
        assert await states(mm) == {"k": "outstanding"}
        mm.upstream.once("tasks/update", {"resultType": "complete"})
        await mm.client.tasks("update", TASK, inputResponses={"k": accept()})
        assert await states(mm) == {"k": "delivered"}


async def test_only_the_first_answer_goes_to_the_server(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await asked(mm, "k:1", "k:2")
        mm.upstream.on("tasks/update", {"resultType": "complete"})
        await mm.client.tasks("update", TASK, inputResponses={"k:1": accept()})
        again = {"k:1": accept(ok=False)}
        assert (await mm.client.tasks("update", TASK, inputResponses=again)).result == {
            "resultType": "complete"
        }
        await mm.client.tasks("update", TASK, inputResponses={**again, "k:2": accept(), "new": accept()})
        given = [list(sent(one)["inputResponses"]) for one in mm.upstream.seen("tasks/update")]
        assert given == [["k:1"], ["k:2", "new"]]


def asking(*keys: str) -> dict[str, Any]:
    """A task that asks, or one that goes on."""
    if not keys:
        return shown(TASK, "working")
    return shown(TASK, "input_required", inputRequests=dict.fromkeys(keys, question()))


@pytest.mark.rule("INPUT-GONE")
async def test_a_question_that_is_shown_no_more_is_closed_until_it_is_shown_again(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await asked(mm, "k", "l")
        for keys, expected in (
            (("l",), {"k": "closed", "l": "outstanding"}),
            ((), {"k": "closed", "l": "closed"}),
            (("k",), {"k": "outstanding", "l": "closed"}),
        ):
            mm.clock.advance(1)
            mm.upstream.once("tasks/get", asking(*keys))
            assert (await mm.client.tasks("get", TASK)).result == asking(*keys)
            assert await states(mm) == expected
            assert (await mm.row()).status is (Status.INPUT_REQUIRED if keys else Status.WORKING)
        late = await mm.client.tasks("update", TASK, inputResponses={"l": accept()})
        assert late.result == {"resultType": "complete"}
        assert mm.upstream.seen("tasks/update") == []
        mm.upstream.once("tasks/update", {"resultType": "complete"})
        await mm.client.tasks("update", TASK, inputResponses={"k": accept()})
        assert await states(mm) == {"k": "delivered", "l": "closed"}
        mm.clock.advance(1)
        mm.upstream.once("tasks/get", asking("k"))  # its acks are eventually consistent
        await mm.client.tasks("get", TASK)
        assert (await states(mm))["k"] == "delivered"
    assert [event["key"] for event in mm.events("input.withdrawn")] == ["k", "l"]
    assert [event["key"] for event in mm.events("input.asked")] == ["k", "l", "k"]


@pytest.mark.rule("INPUT-GONE")
@pytest.mark.parametrize("first", [(), ("k",)], ids=["shows nothing", "shows it"])
async def test_a_look_that_began_before_says_nothing(tmp_path: Path, first: tuple[str, ...]) -> None:
    """Two looks at once, of which the older one is answered last."""
    async with corner(tmp_path) as mm:
        if first:
            await asked(mm, "k")
            mm.clock.advance(1)
        else:
            await mm.create()
        looks = len(mm.upstream.seen("tasks/get"))
        answered = asyncio.Event()

        async def slowly(_: Seen) -> Any:
            await answered.wait()
            return asking(*first)

        mm.upstream.once("tasks/get", slowly)
        older = asyncio.create_task(mm.client.tasks("get", TASK))
        await mm.upstream.wait("tasks/get", looks + 1)
        mm.clock.advance(1)
        mm.upstream.once("tasks/get", asking(*(() if first else ("k",))))
        await mm.client.tasks("get", TASK)
        before = await states(mm)
        answered.set()
        assert (await older).result == asking(*first)
        assert await states(mm) == before == {"k": "closed" if first else "outstanding"}


@pytest.mark.rule("DUR-1")
@pytest.mark.parametrize("fault", [Raw(b"", 503), Raw(b"<html>", 500, {"Content-Type": "text/html"})])
async def test_an_answer_goes_on_until_the_server_has_it(tmp_path: Path, fault: Raw) -> None:
    async with corner(tmp_path) as mm:
        await asked(mm, "k")
        mm.upstream.once("tasks/update", fault)
        mm.upstream.on("tasks/update", {"resultType": "complete"})
        reply = await mm.client.tasks("update", TASK, inputResponses={"k": accept(ok=True)})
        assert reply.result == {"resultType": "complete"}
        seen = await mm.upstream.wait("tasks/update", 2)
        assert sent(seen)["inputResponses"] == {"k": accept(ok=True)}

        async def delivered() -> bool:
            return await states(mm) == {"k": "delivered"}

        await until(delivered)


@pytest.mark.rule("ML-UPDATE")
async def test_a_bare_answer_is_read_as_the_accepted_content(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await asked(mm, "k")
        mm.upstream.on("tasks/update", {"resultType": "complete"})
        await mm.client.tasks("update", TASK, inputResponses={"k": accept(confirm=True)["content"]})
        assert sent(mm.upstream.seen("tasks/update")[0])["inputResponses"] == {"k": accept(confirm=True)}


async def test_a_cancel_passes_and_the_server_decides(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        mm.upstream.once("tasks/cancel", spaced({"result": {"resultType": "complete"}}))
        assert (await mm.client.tasks("cancel", TASK)).body.startswith(b"\n {\n   ")
        assert (await mm.row()).status is Status.WORKING
        mm.upstream.once("tasks/get", shown(TASK, "cancelled"))
        assert (await mm.client.tasks("get", TASK)).result["status"] == "cancelled"
        assert (await mm.client.tasks("cancel", TASK)).result == {"resultType": "complete"}
        assert len(mm.upstream.seen("tasks/cancel")) == 1
