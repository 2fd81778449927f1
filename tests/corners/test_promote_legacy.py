"""Clients of the old APIs run tools as tasks that the shim has made such (PROMOTE-1 to -3)."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.corners.lm import VISIT, more
from tests.corners.ml import about, accept, elicit
from tests.corners.mm import until
from tests.corners.promote import ERAS, World, text, world
from tests.models import check_legacy
from tests.scripted import EXPERIMENTAL, Raw, Stream


@pytest.mark.rule("PROMOTE-1")
@pytest.mark.parametrize("era", ERAS)
async def test_a_legacy_client_is_told_of_the_tool_and_of_tasks(tmp_path: Path, era: str) -> None:
    async with world(tmp_path, era) as one:
        init = (await one.legacy.initialize()).result
        listed = (await one.legacy.request("tools/list")).result["tools"]
    assert init["capabilities"]["tasks"] == EXPERIMENTAL["tasks"]
    support = {each["name"]: each.get("execution", {}).get("taskSupport", "forbidden") for each in listed}
    assert support == {"slow": "optional", "other": "forbidden"}
    assert [each["inputSchema"] for each in listed] == [{"type": "object"}, {"type": "object"}]


@pytest.mark.rule("PROMOTE-1", "PROMOTE-2")
@pytest.mark.parametrize("era", ERAS)
async def test_a_legacy_client_runs_it_as_a_task_answers_and_comes_back(tmp_path: Path, era: str) -> None:
    async with world(tmp_path, era) as one:
        await one.legacy.initialize()
        call = one.upstream.stream("tools/call")
        created = (await one.legacy.call("slow", {"n": 1}, task={"ttl": 60_000})).result["task"]
        sent = await call.opened()
        if era == "legacy":
            await call.send(elicit("q1"))
        else:
            await call.result(more("sure"))
            one.upstream.once("tools/call", text("done"))
        named = {"taskId": created["taskId"]}
        async with one.legacy.stream("tasks/result", named) as stream:
            question = await stream.message()
        shown = (await one.legacy.tasks("get", created["taskId"])).result
        await one.legacy.respond(question["id"], accept(ok=True))
        if era == "legacy":
            answered = (await one.upstream.response_to("q1")).message["result"]
            await call.result(text("done"))
        else:
            answered = (await one.upstream.wait("tools/call", 2)).params["inputResponses"]["sure"]
        result = (await one.legacy.request("tasks/result", named)).result
        listed = (await one.legacy.request("tasks/list")).result["tasks"]
    related = {"io.modelcontextprotocol/related-task": named}
    assert (created["status"], created["ttl"]) == ("working", 60_000)
    assert "task" not in sent.params
    assert question["params"]["_meta"] == related
    assert shown["status"] == "input_required"
    assert answered == accept(ok=True)
    assert result == {**text("done"), "_meta": related}
    assert [(each["taskId"], each["status"]) for each in listed] == [(created["taskId"], "completed")]


@pytest.mark.rule("PROMOTE-2", "LM-INPUT")
@pytest.mark.parametrize("era", ERAS)
async def test_a_legacy_client_is_asked_to_visit_a_url_with_an_id(tmp_path: Path, era: str) -> None:
    async with world(tmp_path, era) as one:
        await one.legacy.initialize()
        call = one.upstream.stream("tools/call")
        created = (await one.legacy.call("slow", {"n": 1}, task={})).result["task"]
        await call.opened()
        if era == "legacy":
            params = {**VISIT["params"], "elicitationId": "its own"}
            await call.send({"jsonrpc": "2.0", "id": 7, **VISIT, "params": params})
        else:
            await call.result({**more(), "inputRequests": {"k": VISIT}})
        async with one.legacy.stream("tasks/result", {"taskId": created["taskId"]}) as stream:
            question = await stream.message()
        await one.legacy.tasks("cancel", created["taskId"])
    check_legacy("ElicitRequest", question)
    assert question["params"]["url"] == VISIT["params"]["url"]


async def own_get(one: World) -> Stream:
    """The server's end of the GET stream that the legacy client itself has open."""
    while (get := await one.upstream.get_stream()).session != one.legacy.session:
        pass
    return get


@pytest.mark.rule("PROMOTE-2", "LL-1")
@pytest.mark.parametrize("first", ["the stream", "the task"])
async def test_a_legacy_client_hears_of_it_on_the_stream_that_it_has_open(tmp_path: Path, first: str) -> None:
    """Between what its server says there, which passes with its event ids as it came."""
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    async with world(tmp_path, "legacy") as one, AsyncExitStack() as stack:
        await one.legacy.initialize()
        call = one.upstream.stream("tools/call")
        if first == "the task":
            task_id = (await one.legacy.call("slow", task={})).result["task"]["taskId"]
            await call.send(elicit("q1"))
            await one.shown(task_id, "input_required")
        stream = await stack.enter_async_context(one.legacy.get())
        get = await own_get(one)
        if first == "the stream":
            task_id = (await one.legacy.call("slow", task={})).result["task"]["taskId"]
            await call.send(elicit("q1"))
        question = await stream.next()
        assert (question.id, question.json["method"]) == (None, "elicitation/create")
        assert question.json["params"]["_meta"] == about(task_id)["_meta"]
        waiting = await stack.enter_async_context(one.legacy.stream("tasks/result", {"taskId": task_id}))
        states = ["input_required"] if first == "the stream" else []
        await one.legacy.respond(question.json["id"], accept(ok=True))
        assert (await one.upstream.response_to("q1")).message["result"] == accept(ok=True)
        await one.shown(task_id, "working")
        for state in [*states, "working"]:
            told = (await stream.next()).json
            assert (told["method"], told["params"]["status"]) == ("notifications/tasks/status", state)
        await get.send(changed, event_id="e-7")
        passed = await stream.next()
        assert (passed.json, passed.id) == (changed, "e-7")
        await call.result(text("done"))
        told = (await stream.next()).json
        assert (told["params"]["taskId"], told["params"]["status"]) == (task_id, "completed")
        assert [one.get("method") for one in await waiting.rest()] == [None]  # it was asked elsewhere


@pytest.mark.rule("PROMOTE-2", "LL-1")
async def test_a_server_without_a_get_stream_leaves_it_to_the_result(tmp_path: Path) -> None:
    async with world(tmp_path, "legacy") as one:
        await one.legacy.initialize()
        one.upstream.get_answer = Raw(b"", 405)
        async with one.legacy.get() as refused:
            assert refused.status == 405
        call = one.upstream.stream("tools/call")
        task_id = (await one.legacy.call("slow", task={})).result["task"]["taskId"]
        await call.send(elicit("q1"))
        async with one.legacy.stream("tasks/result", {"taskId": task_id}) as stream:
            assert (await stream.message())["method"] == "elicitation/create"


@pytest.mark.rule("PROMOTE-2", "ML-INPUT")
async def test_a_question_that_the_server_calls_off_is_called_off_for_the_client(tmp_path: Path) -> None:
    off = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q1"}}
    async with world(tmp_path, "legacy") as one:
        await one.legacy.initialize()
        call = one.upstream.stream("tools/call")
        task_id = (await one.legacy.call("slow", task={})).result["task"]["taskId"]
        await call.send(elicit("q1"))
        async with one.legacy.stream("tasks/result", {"taskId": task_id}) as stream:
            question = await stream.message()
            await call.send(off)
            called_off = await stream.message()
            assert (await one.legacy.tasks("get", task_id)).result["status"] == "working"
            await one.legacy.respond(question["id"], accept(ok=True))
            await call.result(text("without"))
            assert (await stream.message())["result"]["content"] == text("without")["content"]
    assert called_off["params"] == {"requestId": question["id"]}
    assert not [seen for seen in one.upstream.requests if seen.is_response and seen.id == "q1"]


@pytest.mark.rule("PROMOTE-2", "LM-INPUT")
async def test_a_legacy_server_is_told_that_its_client_refused(tmp_path: Path) -> None:
    asks = {"jsonrpc": "2.0", "id": "q1", "method": "sampling/createMessage", "params": {"messages": []}}
    async with world(tmp_path, "legacy") as one:
        one.legacy.capabilities = {"sampling": {}}
        await one.legacy.initialize()
        call = one.upstream.stream("tools/call")
        task_id = (await one.legacy.call("slow", task={})).result["task"]["taskId"]
        await call.send(asks)
        async with one.legacy.stream("tasks/result", {"taskId": task_id}) as stream:
            question = await stream.message()
            for _ in range(2):  # only the first is told
                await one.legacy.respond_error(question["id"], -1, "no")
            told = (await one.upstream.response_to("q1")).message["error"]
            assert (await one.legacy.tasks("get", task_id)).result["status"] == "working"
            await call.result(text("without"))
            assert (await stream.rest())[-1]["result"]["content"] == text("without")["content"]
    assert (told["code"], told["message"]) == (-1, "no")
    assert (
        len([seen for seen in one.upstream.requests if seen.message and seen.message.get("id") == "q1"]) == 1
    )


@pytest.mark.rule("PROMOTE-2")
@pytest.mark.parametrize("era", ERAS)
async def test_a_legacy_client_cancels_it(tmp_path: Path, era: str) -> None:
    async with world(tmp_path, era) as one:
        await one.legacy.initialize()
        call = one.upstream.stream("tools/call")
        task_id = (await one.legacy.call("slow", task={})).result["task"]["taskId"]
        await call.opened()
        cancelled = (await one.legacy.tasks("cancel", task_id)).result
        await call.left()
    assert cancelled["status"] == "cancelled"


@pytest.mark.rule("PROMOTE-1")
@pytest.mark.parametrize("era", ERAS)
async def test_a_legacy_client_that_asks_for_no_task_waits_for_the_answer(tmp_path: Path, era: str) -> None:
    async with world(tmp_path, era) as one:
        await one.legacy.initialize()
        one.upstream.on("tools/call", text("done"))
        reply = await one.legacy.call("slow")
    assert reply.result == text("done")


@pytest.mark.rule("PROMOTE-1", "PROMOTE-2")
@pytest.mark.parametrize("era", ERAS)
async def test_a_four_state_client_runs_it(tmp_path: Path, era: str) -> None:
    async with world(tmp_path, era, legacy={"sessionless_kinds": ["elicitation"]}) as one:
        url = f"{one.app.url.removesuffix('/mcp')}/create-status"
        call = one.upstream.stream("tools/call")
        created = await one.legacy.request("tasks/create", {"name": "slow", "arguments": {}}, url=url)
        named = {"taskId": created.result["taskId"]}
        await call.opened()
        if era == "legacy":
            await call.send(elicit("q1"))
        else:
            await call.result(more("sure"))
            one.upstream.once("tools/call", text("done"))

        async def status() -> Any:
            return (await one.legacy.request("tasks/status", named, url=url)).result

        async def asks() -> bool:
            return "inputRequests" in await status()

        await until(asks)
        asked = await status()
        [key] = asked["inputRequests"]
        responses = {**named, "inputResponses": {key: {"ok": True}}}
        await one.legacy.request("tasks/inputResponse", responses, url=url)
        if era == "legacy":
            await one.upstream.response_to("q1")
            await call.result(text("done"))
        result = (await one.legacy.request("tasks/result", named, url=url)).result
        ended = await status()
    assert created.result["status"] == "pending"
    assert asked["status"] == "running"
    assert result["content"] == text("done")["content"]
    assert ended["status"] == "done"
