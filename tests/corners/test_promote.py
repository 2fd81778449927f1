"""Tools that the operator names run as tasks in the shim, where the server has none (PROMOTE-1 to -3)."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import TASKS_EXTENSION, LegacyClient, ModernClient
from tests.corners.lm import DISCOVER, VISIT, WITHOUT_TASKS, more
from tests.corners.ml import ALICE, HandClock, about, accept, elicit
from tests.corners.mm import until
from tests.models import check_legacy
from tests.planted import arguments
from tests.scripted import EXPERIMENTAL, Error, Raw, Scripted, Stream, scripted, tool
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


LISTEN, TOLD = "subscriptions/listen", "notifications/tasks"


@pytest.mark.rule("PROMOTE-1", "ML-LISTEN")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("named", [True, False])
async def test_its_life_is_heard_on_a_subscription(tmp_path: Path, era: str, *, named: bool) -> None:
    async with world(tmp_path, era) as one:
        call = one.upstream.stream("tools/call")
        task_id = await one.made()
        wanted = {"taskIds": [task_id]} if named else [TOLD]
        async with one.modern.stream(LISTEN, {"notifications": wanted}, id="L") as stream:
            assert (await stream.message())["params"]["notifications"] == {"taskIds": [task_id]}
            assert (await stream.message())["params"]["status"] == "working"
            await call.result(text("done"))
            ended = (await stream.message())["params"]
            assert (ended["status"], ended["result"]["content"]) == ("completed", text("done")["content"])


@pytest.mark.rule("PROMOTE-1", "MM-1")
async def test_a_subscription_has_what_the_shim_and_what_the_server_say(tmp_path: Path) -> None:
    changed = "notifications/tools/list_changed"
    async with world(tmp_path, "modern") as one:
        one.upstream.stream("tools/call")
        task_id = await one.made()
        feed = one.upstream.stream(LISTEN)

        async def acknowledge() -> None:
            asked = (await feed.opened()).params["notifications"]
            assert asked == {"toolsListChanged": True, "promptsListChanged": True}
            params = {"notifications": {"toolsListChanged": True}}
            await feed.send(
                {"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": params}
            )

        lists = {"toolsListChanged": True, "promptsListChanged": True}
        async with asyncio.TaskGroup() as group:
            group.create_task(acknowledge())
            wanted = {"taskIds": [task_id, "nothing"], **lists}
            async with one.modern.stream(LISTEN, {"notifications": wanted}, id="L") as stream:
                honoured = {"toolsListChanged": True, "taskIds": [task_id]}
                assert (await stream.message())["params"]["notifications"] == honoured
                assert (await stream.message())["params"]["taskId"] == task_id
                meta = {"io.modelcontextprotocol/subscriptionId": "ts-1"}
                await feed.send({"jsonrpc": "2.0", "method": changed, "params": {"_meta": meta}})
                told = await stream.message()
                assert told["params"] == {"_meta": {"io.modelcontextprotocol/subscriptionId": "L"}}
                await feed.result({"resultType": "complete"})
                [over] = await stream.rest()
                assert (over["id"], over["result"]["resultType"]) == ("L", "complete")


@pytest.mark.rule("PROMOTE-1", "ML-LISTEN", "MM-1")
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tasks", [NAMED, {**NAMED, "promote_after_ms": 500}], ids=["at once", "in a while"])
async def test_one_that_is_promoted_later_is_heard_too(
    tmp_path: Path, era: str, tasks: Mapping[str, Any]
) -> None:
    async with world(tmp_path, era, tasks) as one:
        call = one.upstream.stream("tools/call")
        async with one.modern.stream(LISTEN, {"notifications": [TOLD]}, id="L") as stream:
            assert (await stream.message())["params"]["notifications"] == {"taskIds": []}
            made = asyncio.create_task(one.made())
            await call.opened()
            one.clock.advance(500)
            task_id = await made
            first = (await stream.message())["params"]
            assert (first["taskId"], first["status"]) == (task_id, "working")
            await call.result(text("done"))
            ended = (await stream.message())["params"]
            assert (ended["taskId"], ended["status"]) == (task_id, "completed")
