"""MM: subscriptions/listen is passed through; of tasks only the caller's own."""

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from shim.hub.status import Status
from shim.tasks.terminal import End
from tests.client import ModernClient
from tests.corners.mm import TASK, corner, question, result, sent, shown, task
from tests.scripted import Error, Raw, Stream, text

pytestmark = pytest.mark.rule("MM-1")

LISTEN, TOLD = "subscriptions/listen", "notifications/tasks"
BOB = {"Authorization": "Bearer bob"}


UPDATED = "notifications/tasks/updated"


def wanted(*ids: str, **flags: bool) -> dict[str, Any]:
    """A filter."""
    return {"notifications": {"taskIds": list(ids), **flags}}


def told(method: str, **params: Any) -> dict[str, Any]:
    """A notification of a subscription."""
    meta = {"io.modelcontextprotocol/subscriptionId": "L1"}
    return {"jsonrpc": "2.0", "method": method, "params": {"_meta": meta, **params}}


def acknowledged(*ids: str, **flags: bool) -> dict[str, Any]:
    return told("notifications/subscriptions/acknowledged", **wanted(*ids, **flags))


async def opened(stream: Stream, answer: Any) -> None:
    """Let the server acknowledge what it was asked."""
    seen = await stream.opened()
    await stream.send({**acknowledged(), "params": {"_meta": {}, **sent(seen)}})
    assert (await answer.message())["method"] == "notifications/subscriptions/acknowledged"


async def test_a_stream_of_own_tasks_passes_as_it_came(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        stream = mm.upstream.stream(LISTEN)
        async with mm.client.stream(LISTEN, wanted(TASK, toolsListChanged=True), id="L1") as answer:
            seen = await stream.opened()
            assert (seen.id, sent(seen)) == ("L1", wanted(TASK, toolsListChanged=True))
            for message in (
                acknowledged(TASK, toolsListChanged=True),
                told("notifications/tools/list_changed"),
                told(TOLD, **task(statusMessage="3 of 7")),
                told(TOLD, **task(status="input_required", inputRequests={"k": question()})),
                told(TOLD, **task(status="completed", result=result())),
            ):
                await stream.send(message, event_id="7")
                frame = await answer.next()
                assert (frame.json, frame.id) == (message, "7")
            await stream.result({"resultType": "complete"})
            assert (await answer.message())["result"] == {"resultType": "complete"}
        row = await mm.row()
        assert (row.status, json.loads(row.result or b"")) == (Status.COMPLETED, text("hi"))
    assert [event["key"] for event in mm.events("input.asked")] == ["k"]


@pytest.mark.rule("INPUT-GONE")
async def test_a_push_asks_anew_and_withdraws_nothing(tmp_path: Path) -> None:
    """It may be older than a look: it has no beginning."""
    asks = told(TOLD, **task(status="input_required", inputRequests={"k": question()}))
    async with corner(tmp_path) as mm:
        await mm.create()
        stream = mm.upstream.stream(LISTEN)
        async with mm.client.stream(LISTEN, wanted(TASK), id="L1") as answer:
            await opened(stream, answer)
            for message in (asks, told(TOLD, **task())):
                mm.clock.advance(1)
                await stream.send(message)
                assert (await answer.message())["method"] == TOLD
            assert [one.key for one in await mm.app.ledger.inputs(1)] == ["k"]
            mm.clock.advance(1)
            mm.upstream.once("tasks/get", shown())
            await mm.client.tasks("get", TASK)
            assert await mm.app.ledger.inputs(1) == []
            await stream.send(asks)
            await answer.message()
            assert [one.key for one in await mm.app.ledger.inputs(1)] == ["k"]
    assert len(mm.events("input.withdrawn")) == 1


@pytest.mark.rule("OWN-CHECK")
async def test_not_ones_own_and_not_there_are_left_out_alike(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        stream = mm.upstream.stream(LISTEN)
        async with (
            ModernClient(mm.app.url, headers=BOB) as bob,
            bob.stream(LISTEN, wanted(TASK, "nothing", toolsListChanged=True), id="L1") as answer,
        ):
            assert sent(await stream.opened()) == {"notifications": {"toolsListChanged": True}}
            await stream.send(acknowledged(TASK))  # a server that names what nobody asked for
            assert (await answer.message())["params"]["notifications"] == {"taskIds": []}
            await stream.send(told(TOLD, **task()))
            await stream.send(told("notifications/tools/list_changed"))
            assert (await answer.message())["method"] == "notifications/tools/list_changed"
    assert sorted(event["reason"] for event in mm.events("denied")) == ["not_owner", "unknown_task"]
    assert [event["rule"] for event in mm.events("upstream.invalid")] == ["MM-1"]


@pytest.mark.rule("OWN-ID-MAP")
async def test_ids_on_the_stream_are_the_ones_their_owner_knows(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await mm.create("task-1")
        own_id = await mm.create("task-1")
        stream = mm.upstream.stream(LISTEN)
        async with mm.client.stream(LISTEN, wanted(own_id)) as answer:
            assert sent(await stream.opened()) == wanted("task-1")
            await stream.send(acknowledged("task-1"))
            assert await answer.message() == acknowledged(own_id)
            await stream.send(told(TOLD, **task("task-1")))
            assert await answer.message() == told(TOLD, **task(own_id))
            for told_so in (told(TOLD, task=task("task-1")), told(UPDATED, **task("task-1"))):
                await stream.send(told_so)
                assert await answer.message() == told(TOLD, **task(own_id))
    details = [event["detail"] for event in mm.events("lenient") if event["rule"] == "section-1"]
    assert details == ["nested task", UPDATED]


@pytest.mark.rule("HUB-1")
async def test_an_end_that_was_shown_stays_on_the_stream_too(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        stream = mm.upstream.stream(LISTEN)
        async with mm.client.stream(LISTEN, wanted(TASK)) as answer:
            await opened(stream, answer)
            await mm.app.tasks.observer.end(await mm.row(), End(Status.CANCELLED))
            await stream.send(told(TOLD, **task()))
            message = await answer.message()
            assert (message["params"]["taskId"], message["params"]["status"]) == (TASK, "cancelled")
            assert message["params"]["_meta"] == told(TOLD)["params"]["_meta"]
    assert [event["rule"] for event in mm.events("hub.illegal_transition")] == ["HUB-1"]


@pytest.mark.rule("HUB-4")
async def test_a_state_that_nobody_knows_is_kept_back(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        stream = mm.upstream.stream(LISTEN)
        async with mm.client.stream(LISTEN, wanted(TASK)) as answer:
            await opened(stream, answer)
            await stream.send(told(TOLD, **task(status="sleeping")))
            await stream.send(told(TOLD, **task()))
            assert (await answer.message())["params"]["status"] == "working"


@pytest.mark.rule("ML-LISTEN")
async def test_a_list_that_names_tasks_means_every_open_one_and_later_ones(tmp_path: Path) -> None:
    other, later = "0c8f9a52-30f6-4a53-9d3f-91b0f4f4c001", "0c8f9a52-30f6-4a53-9d3f-91b0f4f4c002"
    async with corner(tmp_path) as mm:
        await mm.create()
        mm.upstream.once("tasks/get", {"resultType": "complete", **task(status="cancelled")})
        await mm.client.tasks("get", TASK)
        await mm.create(other)
        async with mm.client.stream(LISTEN, {"notifications": [TOLD]}, id="L1") as answer:
            assert await answer.message() == acknowledged(other)
            assert await answer.message() == told(TOLD, **task(other))
            await mm.create(later)
            assert await answer.message() == told(TOLD, **task(later))
            mm.upstream.on("tasks/get", shown(other, "completed", result=result()))
            await mm.client.tasks("get", other)
            ended = (await answer.message())["params"]
            assert (ended["taskId"], ended["status"]) == (other, "completed")
            assert ended["result"]["content"] == result()["content"]
        assert mm.upstream.seen(LISTEN) == []
    assert [event["rule"] for event in mm.events("lenient")] == ["section-1"]


@pytest.mark.rule("OWN-NONE")
async def test_a_list_that_names_tasks_means_none_of_nobodys(tmp_path: Path) -> None:
    async with corner(tmp_path, client={"headers": {}}) as mm:
        await mm.create()
        stream = mm.upstream.stream(LISTEN)
        names = [TOLD, "notifications/tools/list_changed"]
        async with mm.client.stream(LISTEN, {"notifications": names}):
            assert sent(await stream.opened()) == {"notifications": {"toolsListChanged": True}}


REFUSED: dict[str, tuple[Any, int]] = {
    "no list": ({"taskIds": TASK}, -32602),
    "no strings": ({"taskIds": [7]}, -32602),
    "another case": ({"TaskIds": [TASK]}, -32602),
}


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize("case", REFUSED)
async def test_a_filter_that_cannot_be_judged_goes_nowhere(tmp_path: Path, case: str) -> None:
    notifications, code = REFUSED[case]
    async with corner(tmp_path) as mm:
        reply = await mm.client.request(LISTEN, {"notifications": notifications})
        assert reply.error["code"] == code
        assert mm.upstream.seen(LISTEN) == []


@pytest.mark.rule("ML-UNDECLARED")
@pytest.mark.parametrize("notifications", [{"taskIds": [TASK]}, [TOLD]])
async def test_tasks_are_for_those_who_declared_them(tmp_path: Path, notifications: Any) -> None:
    async with corner(tmp_path, client={"tasks": False}) as mm:
        reply = await mm.client.request(LISTEN, {"notifications": notifications})
        assert (reply.status, reply.error["code"]) == (400, -32021)
        assert mm.upstream.seen(LISTEN) == []


async def test_a_server_without_subscriptions_says_so_itself(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        mm.upstream.on(LISTEN, Error(-32601, "Method not found", status=404))
        reply = await mm.client.request(LISTEN, {"notifications": {"toolsListChanged": True}})
        assert (reply.status, reply.error) == (404, {"code": -32601, "message": "Method not found"})


async def test_a_client_that_leaves_closes_the_stream(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        stream = mm.upstream.stream(LISTEN)
        async with mm.client.stream(LISTEN, wanted()) as answer:
            await opened(stream, answer)
            answer.close()
        await stream.left()


@pytest.mark.rule("OWN-VOUCH")
async def test_a_credential_is_judged_before_the_ledger_is_asked(tmp_path: Path) -> None:
    async with corner(tmp_path) as mm:
        await mm.create()
        mm.upstream.on("server/discover", Raw(b"", 401, {"WWW-Authenticate": "Bearer"}))
        async with ModernClient(mm.app.url, headers=BOB) as bob:
            reply = await bob.request(LISTEN, wanted(TASK))
        assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")
        assert mm.upstream.seen(LISTEN) == []


@pytest.mark.rule("ML-LISTEN")
async def test_a_shim_that_stops_says_so(tmp_path: Path) -> None:
    async with AsyncExitStack() as outlives:
        async with corner(tmp_path) as mm:
            client = await outlives.enter_async_context(ModernClient(mm.app.url, headers=BOB))
            stream = mm.upstream.stream(LISTEN)
            params = {"notifications": {"toolsListChanged": True}}
            answer = await outlives.enter_async_context(client.stream(LISTEN, params, id="L1"))
            await opened(stream, answer)
        cancelled, over = await answer.rest()
        assert cancelled == told("notifications/cancelled", requestId="L1", reason="the server is stopping")
        meta = {"io.modelcontextprotocol/subscriptionId": "L1"}
        assert over == {"jsonrpc": "2.0", "id": "L1", "result": {"resultType": "complete", "_meta": meta}}
        await stream.left()
