"""LL: whose a task is, which way its verbs take, and what the ledger has of it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import RELATED_TASK, LegacyClient, ModernClient
from tests.scripted import Error, Raw, Scripted, task, text
from tests.shim import config_for

ALICE, BOB = {"Authorization": "Bearer alice"}, {"Authorization": "Bearer bob"}
YES = {"action": "accept", "content": {"ok": True}}


@pytest.fixture
async def app(upstream: Scripted, tmp_path: Path) -> AsyncIterator[App]:
    legacy = {"page_size": 2}
    async with running(
        config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"}, legacy=legacy)
    ) as app:
        yield app


@asynccontextmanager
async def session(app: App, headers: dict[str, str] = ALICE) -> AsyncIterator[LegacyClient]:
    async with LegacyClient(app.url, headers=headers) as client:
        await client.initialize()
        yield client


async def make(upstream: Scripted, client: LegacyClient, task_id: str = "task-1") -> str:
    upstream.once("tools/call", {"task": task(task_id)})
    made = (await client.call("slow", task={})).result["task"]["taskId"]
    assert made == task_id
    return task_id


def question(task_id: str | None = None, **fields: Any) -> dict[str, Any]:
    meta = {} if task_id is None else {"_meta": {RELATED_TASK: {"taskId": task_id}}}
    params = {"message": "Well?", "requestedSchema": {"type": "object", "properties": {}}, **meta}
    return {"jsonrpc": "2.0", "id": "q-1", "method": "elicitation/create", "params": params, **fields}


# LL-RECORD


@pytest.mark.rule("LL-RECORD", "ML-CREATE")
async def test_a_caller_with_too_many_open_tasks_gets_no_more(upstream: Scripted, tmp_path: Path) -> None:
    sections: dict[str, Any] = {
        "upstream": {"dialect": "experimental"},
        "limits": {"open_tasks_per_caller": 1},
    }
    async with running(config_for(upstream.url, tmp_path, **sections)) as app, session(app) as client:
        await make(upstream, client)
        reply = await client.call("slow", task={})
        assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
        upstream.once("tools/call", text("done"))
        assert (await client.call("slow")).result == text("done")
    assert len(upstream.seen("tools/call")) == 2


@pytest.mark.rule("LL-RECORD")
@pytest.mark.parametrize("streamed", [True, False])
async def test_the_row_is_committed_before_the_handle_passes(
    upstream: Scripted, app: App, monkeypatch: pytest.MonkeyPatch, *, streamed: bool
) -> None:
    order: list[str] = []
    create_task = app.ledger.create_task

    async def noted(new: Any) -> Any:
        row = await create_task(new)
        order.append("committed")
        return row

    monkeypatch.setattr(app.ledger, "create_task", noted)
    async with session(app) as client:
        if streamed:
            out = upstream.stream("tools/call")
            async with client.stream("tools/call", {"name": "slow", "task": {}}) as stream:
                await out.result({"task": task()})
                made = (await stream.message())["result"]
                order.append("seen")
        else:
            upstream.once("tools/call", {"task": task()})
            made = (await client.call("slow", task={})).result
            order.append("seen")
    assert made == {"task": task()}
    assert order == ["committed", "seen"]


@pytest.mark.rule("LL-RECORD")
async def test_the_answer_of_a_create_passes_byte_for_byte(upstream: Scripted, app: App) -> None:
    body = (
        b'{ "jsonrpc":"2.0","id":5,  "result":{"task":{"taskId":"t","status":"working","ttl":1.50,'
        b'"createdAt":"x","lastUpdatedAt":"y"},"_meta":{"n":9007199254740993}}}'
    )
    upstream.once("tools/call", Raw(body))
    async with session(app) as client:
        assert (await client.call("slow", task={}, id=5)).body == body


@pytest.mark.rule("LL-RECORD")
@pytest.mark.parametrize("answer", [text("at once"), Error(-32602, "no such tool", {"a": 1.5})])
async def test_a_create_that_makes_no_task_passes(upstream: Scripted, app: App, answer: Any) -> None:
    upstream.once("tools/call", answer)
    async with session(app) as client:
        reply = await client.call("slow", task={})
        assert ("result" in reply.json) == isinstance(answer, dict)
        assert (await client.request("tasks/list")).result == {"tasks": []}


# LL-OWN


@pytest.mark.rule("LL-OWN")
@pytest.mark.parametrize("verb", ["get", "result", "cancel"])
async def test_a_foreign_task_is_an_unknown_one(upstream: Scripted, app: App, verb: str) -> None:
    async with session(app) as alice, session(app, BOB) as bob:
        await make(upstream, alice)
        before = len(upstream.requests)
        told = [await bob.tasks(verb, name, id=1) for name in ("task-1", "nobody's")]
        assert told[0].body == told[1].body
        assert (told[0].status, told[0].error["code"]) == (200, -32602)
        assert len(upstream.requests) == before


# LL-ROUTE


@pytest.mark.rule("LL-ROUTE")
@pytest.mark.parametrize("verb", ["get", "result", "cancel"])
async def test_on_its_own_session_a_verb_passes_as_it_is(upstream: Scripted, app: App, verb: str) -> None:
    body = b'{"jsonrpc":"2.0", "id":9,"result":{"taskId":"task-1","status":"working","x":1.0,"ttl":null}}'
    upstream.once(f"tasks/{verb}", Raw(body))
    async with session(app) as client:
        await make(upstream, client)
        assert (await client.tasks(verb, "task-1", id=9)).body == body
        sent = upstream.seen(f"tasks/{verb}")[0]
        assert (sent.id, sent.session) == (9, client.session)


@pytest.mark.rule("LL-ROUTE")
async def test_another_session_of_the_caller_goes_over_the_tasks_own(upstream: Scripted, app: App) -> None:
    async with session(app) as first, session(app) as second:
        await make(upstream, first)
        upstream.on("tasks/get", task(status="working", statusMessage="half"))
        shown = (await second.tasks("get", "task-1")).result
        assert (shown["status"], shown["statusMessage"]) == ("working", "half")
        assert upstream.seen("tasks/get")[0].session == first.session
        assert not upstream.seen("tasks/result")


@pytest.mark.rule("LL-ROUTE")
async def test_another_session_polls_and_reads_the_result_after_the_end(upstream: Scripted, app: App) -> None:
    async with session(app) as first, session(app) as second:
        await make(upstream, first)
        states = iter(["working", "input_required", "completed"])

        def shown(_: Any) -> dict[str, Any]:
            state = next(states)
            assert not upstream.seen("tasks/result")
            return task(status=state, pollInterval=10)

        upstream.on("tasks/get", shown)
        upstream.on("tasks/result", text("done"))
        done = (await second.tasks("result", "task-1")).result
        assert done == {**text("done"), "_meta": {RELATED_TASK: {"taskId": "task-1"}}}
        assert [seen.session for seen in upstream.seen("tasks/result")] == [first.session]
        assert not upstream.seen("GET")


@pytest.mark.rule("LL-ROUTE")
async def test_a_modern_request_of_the_caller_sees_the_task(upstream: Scripted, app: App) -> None:
    async with session(app) as client, ModernClient(app.url, headers=ALICE) as modern:
        await make(upstream, client)
        upstream.on("tasks/get", task())
        assert (await modern.tasks("get", "task-1")).result["status"] == "working"
        assert upstream.seen("tasks/get")[0].session == client.session
        upstream.on("tasks/cancel", task(status="cancelled"))
        upstream.on("tasks/get", task(status="cancelled"))
        await modern.tasks("cancel", "task-1")
        assert upstream.seen("tasks/cancel")[0].session == client.session
        assert not upstream.seen("tasks/result")
        assert not upstream.seen("GET")


@pytest.mark.rule("LL-ROUTE", "LL-1")
@pytest.mark.parametrize("stream", ["result", "GET"])
@pytest.mark.parametrize("related", [True, False])
async def test_a_passing_question_is_recorded_and_may_be_answered_by_update(
    upstream: Scripted, app: App, *, stream: str, related: bool
) -> None:
    asked = question("task-1" if related else None)
    async with session(app) as client, ModernClient(app.url, headers=ALICE) as modern:
        await make(upstream, client)
        upstream.on("tasks/get", task(status="input_required"))
        result = upstream.stream("tasks/result")
        async with client.get() as inbox, client.stream("tasks/result", {"taskId": "task-1"}) as waiting:
            out, seen = (await upstream.get_stream(), inbox) if stream == "GET" else (result, waiting)
            await out.send(asked)
            assert await seen.message() == asked
            shown = (await modern.tasks("get", "task-1")).result
            assert shown["status"] == "input_required"
            [key] = shown["inputRequests"]
            await modern.tasks("update", "task-1", inputResponses={key: YES})
            sent = await upstream.response_to("q-1")
            assert (sent.session, sent.message["result"]["action"]) == (client.session, "accept")
            late = await client.respond("q-1", {"action": "decline"})
            assert (late.status, late.body) == (202, b"")
            await result.result(text("done"))
            assert (await waiting.message())["result"] == text("done")
    assert len([seen for seen in upstream.requests if seen.is_response]) == 1


@pytest.mark.rule("LL-ROUTE")
async def test_the_session_that_answers_first_wins(upstream: Scripted, app: App) -> None:
    async with session(app) as client, ModernClient(app.url, headers=ALICE) as modern:
        await make(upstream, client)
        upstream.on("tasks/get", task(status="input_required"))
        result = upstream.stream("tasks/result")
        async with client.stream("tasks/result", {"taskId": "task-1"}) as waiting:
            await result.send(question("task-1"))
            await waiting.message()
            [key] = (await modern.tasks("get", "task-1")).result["inputRequests"]
            body = b'{"jsonrpc":"2.0","id":"q-1","result":{"action":"decline","n":1.10}}'
            assert (await client.post(body, headers=client.own_headers(None))).status == 202
            reply = await modern.tasks("update", "task-1", inputResponses={key: YES})
            assert reply.result == {"resultType": "complete"}
            await result.result(text("done"))
            await waiting.message()
    answers = [seen.body for seen in upstream.requests if seen.is_response]
    assert len(answers) == 1
    assert b'"n":1.10' in answers[0]


@pytest.mark.rule("LL-ROUTE", "LL-1")
async def test_the_next_question_may_come_under_the_id_of_the_last(upstream: Scripted, app: App) -> None:
    async with session(app) as client:
        await make(upstream, client)
        result = upstream.stream("tasks/result")
        async with client.stream("tasks/result", {"taskId": "task-1"}) as waiting:
            for n in range(3):
                await result.send(question("task-1"))
                assert (await waiting.message())["id"] == "q-1"
                assert (await client.respond("q-1", {"action": "accept", "content": {"n": n}})).status == 202
            await result.result(text("done"))
            await waiting.message()
    answers = [seen.message["result"]["content"] for seen in upstream.requests if seen.is_response]
    assert answers == [{"n": 0}, {"n": 1}, {"n": 2}]


@pytest.mark.rule("LL-ROUTE")
async def test_an_answer_that_the_server_could_not_take_is_delivered_later(
    upstream: Scripted, app: App
) -> None:
    async with session(app) as client:
        await make(upstream, client)
        result = upstream.stream("tasks/result")
        async with client.stream("tasks/result", {"taskId": "task-1"}) as waiting:
            await result.send(question("task-1"))
            await waiting.message()
            upstream.once(None, Raw(b"busy", 503))
            assert (await client.respond("q-1", YES)).status == 202
            again = await upstream.wait(None, 2)
            assert (again.id, again.message["result"]["action"]) == ("q-1", "accept")
            await result.result(text("done"))


@pytest.mark.rule("LL-ROUTE")
async def test_a_question_of_a_plain_call_is_no_tasks_question(upstream: Scripted, app: App) -> None:
    async with session(app) as client, ModernClient(app.url, headers=ALICE) as modern:
        await make(upstream, client)
        upstream.on("tasks/get", task())
        out = upstream.stream("tools/call")
        async with client.stream("tools/call", {"name": "ask"}) as call:
            await out.send(question())
            assert await call.message() == question()
            assert (await modern.tasks("get", "task-1")).result["status"] == "working"
            await client.respond("q-1", YES)
            await upstream.response_to("q-1")
            await out.result(text("done"))


@pytest.mark.rule("LL-1", "HUB-1")
async def test_a_server_that_leaves_a_terminal_state_is_passed_on_and_the_ledger_keeps_the_first(
    upstream: Scripted, app: App
) -> None:
    async with session(app) as client, ModernClient(app.url, headers=ALICE) as modern:
        await make(upstream, client)
        upstream.once("tasks/result", text("done"))
        await client.tasks("result", "task-1")
        upstream.once("tasks/get", task(status="working"))
        assert (await client.tasks("get", "task-1")).result["status"] == "working"
        assert (await modern.tasks("get", "task-1")).result["status"] == "completed"


# LL-LIST


@pytest.mark.rule("LL-LIST")
async def test_the_list_is_the_callers_newest_first_in_pages(upstream: Scripted, app: App) -> None:
    upstream.on("tasks/get", lambda seen: task(seen.params["taskId"]))
    async with session(app) as first, session(app) as second, session(app, BOB) as bob:
        for n, client in enumerate((first, second, first, bob, first)):
            await make(upstream, client, f"t{n}")
        page = (await second.request("tasks/list")).result
        assert [one["taskId"] for one in page["tasks"]] == ["t4", "t2"]
        page = (await second.request("tasks/list", {"cursor": page["nextCursor"]})).result
        assert [one["taskId"] for one in page["tasks"]] == ["t1", "t0"]
        assert "nextCursor" not in page
        assert [one["taskId"] for one in (await bob.request("tasks/list")).result["tasks"]] == ["t3"]
        assert not upstream.seen("tasks/list")


@pytest.mark.rule("LL-LIST")
@pytest.mark.parametrize("kind", ["foreign", "altered", "empty", "task id", "number", "null"])
async def test_a_cursor_that_is_not_the_callers_is_refused(upstream: Scripted, app: App, kind: str) -> None:
    upstream.on("tasks/get", lambda seen: task(seen.params["taskId"]))
    async with session(app) as alice, session(app, BOB) as bob:
        for n in range(3):
            await make(upstream, alice, f"t{n}")
        cursor = (await alice.request("tasks/list")).result["nextCursor"]
        client = bob if kind == "foreign" else alice
        flipped = ("A" if cursor[-3] != "A" else "B") + cursor[-2:]
        given = {
            "foreign": cursor, "altered": cursor[:-3] + flipped, "empty": "", "task id": "t1", "number": 5,
            "null": None,
        }[kind]  # fmt: skip
        reply = await client.request("tasks/list", {"cursor": given})
        assert (reply.status, reply.error["code"]) == (200, -32602)


@pytest.mark.rule("LL-LIST")
async def test_states_are_refreshed_from_upstream(upstream: Scripted, app: App) -> None:
    upstream.on("tasks/get", task(status="working", statusMessage="half way"))
    async with session(app) as client:
        await make(upstream, client)
        [listed] = (await client.request("tasks/list")).result["tasks"]
        assert listed["statusMessage"] == "half way"


@pytest.mark.rule("LL-LIST", "LL-OWN")
async def test_a_caller_that_is_a_session_lists_only_its_own(upstream: Scripted, app: App) -> None:
    upstream.on("tasks/get", lambda seen: task(seen.params["taskId"]))
    async with session(app, {}) as first, session(app, {}) as second:
        await make(upstream, first, "t1")
        await make(upstream, second, "t2")
        assert [one["taskId"] for one in (await first.request("tasks/list")).result["tasks"]] == ["t1"]
        assert (await first.tasks("get", "t2")).error["code"] == -32602
