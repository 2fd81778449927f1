"""Tools that the operator names run as tasks in the shim, where the server has none (PROMOTE-1 to -3)."""

import asyncio
from pathlib import Path

import pytest

from tests.client import TASKS_EXTENSION
from tests.corners.lm import DISCOVER, more
from tests.corners.ml import accept, elicit
from tests.corners.mm import until
from tests.corners.promote import ERAS, NAMED, options, standing, text, world
from tests.planted import arguments
from tests.scripted import EXPERIMENTAL, Error, Stream, scripted, tool


@pytest.mark.rule("PROMOTE-1")
@pytest.mark.parametrize("era", ERAS)
async def test_a_modern_client_gets_a_handle_at_once_and_the_result_when_it_is_there(
    tmp_path: Path, era: str
) -> None:
    async with world(tmp_path, era) as one:
        call = one.upstream.stream("tools/call")
        discovered = (await one.modern.request("server/discover")).result
        task_id = await one.made()
        assert (await one.modern.tasks("get", task_id)).result["status"] == "working"
        sent = await call.opened()
        await call.result(text("done", structuredContent={"big": 9007199254740993}))
        ended = await one.shown(task_id, "completed")
    assert discovered["capabilities"]["extensions"]["io.modelcontextprotocol/tasks"] == {}
    assert "task" not in sent.params
    assert sent.params["arguments"] == arguments({"n": 1})
    assert ended["result"]["content"] == text("done")["content"]
    assert ended["result"]["structuredContent"] == {"big": 9007199254740993}


@pytest.mark.rule("PROMOTE-1")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("name", "declares"), [("other", True), ("slow", False)])
async def test_who_may_not_have_a_task_waits_for_the_answer(
    tmp_path: Path, era: str, name: str, *, declares: bool
) -> None:
    async with world(tmp_path, era) as one:
        one.modern.declares_tasks = declares
        one.upstream.on("tools/call", text("done"))
        reply = await one.modern.call(name)
    assert reply.result["content"] == text("done")["content"]


@pytest.mark.rule("PROMOTE-1")
async def test_a_tool_with_task_support_of_its_own_is_left_to_its_server(tmp_path: Path) -> None:
    async with world(tmp_path, "legacy", capabilities=EXPERIMENTAL) as one:
        one.upstream.on("tools/list", {"tools": [tool("slow", "optional")]})
        one.upstream.on("tools/call", {"task": {"taskId": "own", "status": "working"}})
        assert await one.made() == "own"


@pytest.mark.rule("PROMOTE-1")
@pytest.mark.parametrize("era", ERAS)
async def test_the_operator_says_that_a_tool_has_no_task_at_its_server(tmp_path: Path, era: str) -> None:
    upstream = {"tool_support": {"slow": "forbidden"}}
    async with world(tmp_path, era, capabilities=EXPERIMENTAL, upstream=upstream) as one:
        one.upstream.on("server/discover", DISCOVER)
        one.upstream.on("tools/list", {"tools": [tool("slow", "optional")]})
        one.upstream.on("tools/call", text("done"))
        ended = await one.shown(await one.made(), "completed")
        [sent] = one.upstream.seen("tools/call")
    assert ended["result"]["content"] == text("done")["content"]
    assert "task" not in sent.params
    assert TASKS_EXTENSION not in str(sent.params)


@pytest.mark.rule("PROMOTE-1")
@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_that_comes_in_time_needs_no_handle(tmp_path: Path, era: str) -> None:
    async with world(tmp_path, era, {**NAMED, "promote_after_ms": 700}) as one:
        one.upstream.once("tools/call", text("quick"))
        quick = await one.modern.call("slow")
        slow = one.upstream.stream("tools/call")
        waiting = asyncio.create_task(one.modern.call("slow"))
        await slow.opened()
        await one.clock.slept(700)
        one.clock.advance(700)
        handle = await waiting
        await slow.result(text("late"))
        ended = await one.shown(handle.result["taskId"], "completed")
    assert quick.result["content"] == text("quick")["content"]
    assert handle.result["resultType"] == "task"
    assert ended["result"]["content"] == text("late")["content"]


@pytest.mark.rule("PROMOTE-1")
@pytest.mark.parametrize("era", ERAS)
async def test_a_credential_that_the_server_refuses_makes_no_task(tmp_path: Path, era: str) -> None:
    async with world(tmp_path, era) as one:
        for method in ("initialize", "server/discover"):
            one.upstream.on(method, Error(-32001, "who are you?", status=401))
        reply = await one.modern.call("slow")
    assert reply.status == 401
    assert not one.upstream.seen("tools/call")


@pytest.mark.rule("PROMOTE-2")
@pytest.mark.parametrize("way", ["the call's stream", "the session's own"])
@pytest.mark.parametrize("after_ms", [0, 60_000])
async def test_what_a_legacy_server_asks_in_the_middle_is_the_tasks_question(
    tmp_path: Path, way: str, after_ms: int
) -> None:
    async with world(tmp_path, "legacy", {**NAMED, "promote_after_ms": after_ms}) as one:
        call = one.upstream.stream("tools/call")
        making = asyncio.create_task(one.made())
        sent = await call.opened()
        stream: Stream = call
        while way != "the call's stream" and stream.session != sent.session:
            stream = await one.upstream.get_stream()
            await stream.opened()
        await stream.send(elicit("q1"))
        asked = await one.shown(await making, "input_required")
        [(key, question)] = asked["inputRequests"].items()
        await one.modern.tasks("update", asked["taskId"], inputResponses={key: accept(ok=True)})
        answer = await one.upstream.response_to("q1")
        await stream.send(elicit("q1", message="really?"))  # some servers take the id again
        again = await one.shown(asked["taskId"], "input_required")
        [second] = again["inputRequests"]
        await one.modern.tasks("update", asked["taskId"], inputResponses={second: accept(ok=False)})

        async def answered_twice() -> bool:
            answers = [seen.message["result"] for seen in one.upstream.requests if seen.is_response]
            return answers[1:] == [accept(ok=False)]

        await until(answered_twice)
        await call.result(text("done"))
        ended = await one.shown(asked["taskId"], "completed")
    assert question["params"]["message"] == "sure?"
    assert (answer.session, answer.message["result"]) == (sent.session, accept(ok=True))
    assert second != key
    assert ended["result"]["content"] == text("done")["content"]


@pytest.mark.rule("PROMOTE-2")
async def test_what_a_client_did_not_declare_is_refused_to_the_server(tmp_path: Path) -> None:
    async with world(tmp_path, "legacy") as one:
        one.modern.capabilities = {"roots": {}}
        call = one.upstream.stream("tools/call")
        task_id = await one.made()
        await call.send(elicit(7))
        refused = await one.upstream.response_to(7)
        await call.result(text("without"))
        await one.shown(task_id, "completed")
    assert refused.message["error"]["code"] == -32601


@pytest.mark.rule("PROMOTE-2")
@pytest.mark.parametrize("after_ms", [0, 60_000])
async def test_rounds_of_a_modern_server_are_the_tasks_questions(tmp_path: Path, after_ms: int) -> None:
    async with world(tmp_path, "modern", {**NAMED, "promote_after_ms": after_ms}) as one:
        one.upstream.once("tools/call", more("sure", state="s1"), more("sure", state="s2"), text("done"))
        task_id = await one.made()
        keys = []
        for _ in range(2):
            [key] = (await one.shown(task_id, "input_required"))["inputRequests"]
            keys.append(key)
            await one.modern.tasks("update", task_id, inputResponses={key: accept(ok=True)})
        ended = await one.shown(task_id, "completed")
        first, second, third = one.upstream.seen("tools/call")
    assert len(set(keys)) == 2
    assert "inputResponses" not in first.params
    assert [seen.params["requestState"] for seen in (second, third)] == ["s1", "s2"]
    assert second.params["inputResponses"] == {"sure": accept(ok=True)}
    assert ended["result"]["content"] == text("done")["content"]


@pytest.mark.rule("PROMOTE-2")
@pytest.mark.parametrize("era", ERAS)
async def test_progress_is_the_tasks_status_message(tmp_path: Path, era: str) -> None:
    async with world(tmp_path, era) as one:
        call = one.upstream.stream("tools/call")
        task_id = await one.made()
        token = (await call.opened()).params["_meta"]["progressToken"]
        params = {"progressToken": token, "progress": 1, "message": "halfway"}
        await call.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})

        async def reported() -> bool:
            return bool((await one.shown(task_id, "working")).get("statusMessage") == "halfway")

        await until(reported)
        await call.result(text("done"))
        await one.shown(task_id, "completed")


@pytest.mark.rule("PROMOTE-2")
@pytest.mark.parametrize("era", ERAS)
async def test_progress_before_the_handle_goes_to_the_call_and_stays_in_the_task(
    tmp_path: Path, era: str
) -> None:
    async with world(tmp_path, era, {**NAMED, "promote_after_ms": 700}) as one:
        call = one.upstream.stream("tools/call")
        params = {"name": "slow", "_meta": {"progressToken": "mine"}}
        said = {"progress": 1, "message": "halfway"}

        async def report() -> None:
            said["progressToken"] = (await call.opened()).params["_meta"]["progressToken"]
            await call.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": said})

        reporting = asyncio.create_task(report())
        async with one.modern.stream("tools/call", params) as stream:
            told = await stream.message()
            await reporting
            await one.clock.slept(700)
            one.clock.advance(700)
            handle = (await stream.message())["result"]
        shown = await one.shown(handle["taskId"], "working")
        await call.result(text("done"))
    assert told["params"] == {**said, "progressToken": "mine"}
    assert shown["statusMessage"] == "halfway"


@pytest.mark.rule("PROMOTE-2")
@pytest.mark.parametrize("era", ERAS)
async def test_cancel_is_the_eras_own_cancellation_of_the_call(tmp_path: Path, era: str) -> None:
    async with world(tmp_path, era) as one:
        call = one.upstream.stream("tools/call")
        task_id = await one.made()
        sent = await call.opened()
        await one.modern.tasks("cancel", task_id)
        ended = await one.shown(task_id, "cancelled")
        if era == "legacy":
            told = await one.upstream.wait("notifications/cancelled")
            assert (told.session, told.params["requestId"]) == (sent.session, sent.id)
        await call.left()
        again = await one.modern.tasks("cancel", task_id)
    assert ended["status"] == "cancelled"
    assert again.result["resultType"] == "complete"


@pytest.mark.rule("PROMOTE-1", "PROMOTE-3")
@pytest.mark.parametrize("era", ERAS)
async def test_a_client_that_leaves_ends_nothing(tmp_path: Path, era: str) -> None:
    async with world(tmp_path, era, {**NAMED, "promote_after_ms": 700}) as one:
        call = one.upstream.stream("tools/call")
        leaving = asyncio.create_task(one.modern.call("slow"))
        await call.opened()
        await one.clock.slept(700)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
        one.clock.advance(700)

        async def kept() -> bool:
            return bool(await one.app.ledger.open_local_tasks(limit=1))

        await until(kept)
        [row] = await one.app.ledger.open_local_tasks(limit=2)
        await call.result(text("done"))
        ended = await one.shown(row.task_id, "completed")
    assert ended["result"]["content"] == text("done")["content"]
    assert not one.upstream.seen("notifications/cancelled")


@pytest.mark.rule("PROMOTE-3")
@pytest.mark.parametrize("era", ERAS)
async def test_an_error_of_the_call_is_the_tasks(tmp_path: Path, era: str) -> None:
    async with world(tmp_path, era) as one:
        one.upstream.on("tools/call", Error(-32050, "no paper"))
        ended = await one.shown(await one.made(), "failed")
    assert (ended["error"]["code"], ended["error"]["message"]) == (-32050, "no paper")


@pytest.mark.rule("PROMOTE-3")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(
    ("allowed", "hint", "again"),
    [(True, True, True), (True, False, False), (False, True, False)],
)
async def test_what_becomes_of_a_call_whose_shim_died(
    tmp_path: Path, era: str, *, allowed: bool, hint: bool, again: bool
) -> None:
    tasks = {**NAMED, "promote_rerun": allowed}
    async with scripted(**options(era)) as upstream:
        upstream.on("tools/list", {"tools": [tool("slow", annotations={"idempotentHint": hint})]})
        upstream.once("tools/call", more("sure")) if era == "modern" else upstream.stream("tools/call")
        async with standing(upstream, tmp_path, era, tasks) as one:
            task_id = await one.made()
            if era == "modern":
                await one.shown(task_id, "input_required")
            first = await upstream.wait("tools/call")
        if era == "legacy":  # a shim that stops in order says so
            [told] = upstream.seen("notifications/cancelled")
            assert told.params["requestId"] == first.id
        upstream.once("tools/call", text("second"))
        async with standing(upstream, tmp_path, era, tasks) as one:
            ended = await one.shown(task_id, "completed", "failed")
    assert len(upstream.seen("tools/call")) == (2 if again else 1)
    if again:
        first, second = upstream.seen("tools/call")
        assert first.params["arguments"] == second.params["arguments"]
        assert ended["result"]["content"] == text("second")["content"]
    else:
        assert ended["error"]["code"] == -32603
        assert ended["error"]["message"].startswith("outcome unknown")


@pytest.mark.rule("PROMOTE-3")
async def test_a_second_death_of_the_shim_is_the_end_of_the_call(tmp_path: Path) -> None:
    tasks = {**NAMED, "promote_rerun": True}
    async with scripted(capabilities={"tools": {}}) as upstream:
        upstream.on("tools/call", lambda _: Stream())
        async with standing(upstream, tmp_path, "legacy", tasks) as one:
            task_id = await one.made()
        async with standing(upstream, tmp_path, "legacy", tasks) as one:
            await one.modern.request("server/discover")  # the credential is back
            await upstream.wait("tools/call", 2)
        async with standing(upstream, tmp_path, "legacy", tasks) as one:
            ended = await one.shown(task_id, "failed")
    assert ended["error"]["message"].startswith("outcome unknown")
    assert len(upstream.seen("tools/call")) == 2
