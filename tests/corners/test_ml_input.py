"""ML-INPUT: questions are found on every stream, matched to their task, stored, and shown under a key."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.client import RELATED_TASK
from tests.corners.ml import accept, corner, elicit
from tests.scripted import Scripted, Stream, task, text


def status_of(task_id: str, **meta: Any) -> dict[str, Any]:
    """A status notification, naming a request in its `_meta` if one is given."""
    params = {**task(task_id), **({"_meta": meta} if meta else {})}
    return {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params}


@pytest.mark.rule("ML-INPUT", "ML-UPDATE", "HUB-3")
@pytest.mark.parametrize("request_id", ["task-1-q", 0, 7])
@pytest.mark.parametrize("where", ["result", "get", "get while working"])
@pytest.mark.parametrize("match", ["related", "announced", "only"])
async def test_a_question_is_shown_and_answered(
    upstream: Scripted, tmp_path: Path, where: str, match: str, request_id: Any
) -> None:
    state = "working" if where.endswith("working") else "input_required"
    upstream.on("tasks/get", lambda _: task(status=state))
    result = upstream.stream("tasks/result")
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        get = await upstream.get_stream()
        if where == "result":
            assert (await ml.get())["status"] == "working"
        stream: Stream = result if where == "result" else get
        if match == "announced":
            await stream.send(status_of("task-1", **{RELATED_TASK: {"requestId": request_id}}))
        await stream.send(elicit(request_id, "task-1" if match == "related" else None))
        shown = await ml.until("task-1", "input_required")
        assert list(shown["inputRequests"]) == ["elicitation-1"]
        [asked] = shown["inputRequests"].values()
        assert asked["method"] == "elicitation/create"
        assert "_meta" not in asked["params"]
        assert (await ml.get())["inputRequests"] == shown["inputRequests"]

        reply = await ml.client.tasks("update", "task-1", inputResponses={"elicitation-1": accept(ok=True)})
        answer = await upstream.response_to(request_id)
    assert reply.result == {"resultType": "complete"}
    assert answer.message["result"] == {
        **accept(ok=True),
        "_meta": {RELATED_TASK: {"taskId": "task-1"}},
    }
    assert answer.session == upstream.seen("tools/call")[0].session
    assert len(upstream.seen("tasks/result")) <= 1
    assert ml.events("input.asked")
    assert ml.events("input.answered")


@pytest.mark.rule("ML-INPUT")
async def test_params_lose_the_upstreams_own_keys(upstream: Scripted, tmp_path: Path) -> None:
    question = elicit(1, "task-1")
    question["params"] |= {"elicitationId": "e1", "new": {"elicitationId": "kept"}}
    question["params"]["_meta"]["x.example/y"] = 1
    upstream.on("tasks/get", task(status="input_required"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        await (await upstream.get_stream()).send(question)
        shown = await ml.until("task-1", "input_required")
    params = shown["inputRequests"]["elicitation-1"]["params"]
    assert params["_meta"] == {"x.example/y": 1}
    assert params["new"] == {"elicitationId": "kept"}
    assert "elicitationId" not in params


@pytest.mark.rule("ML-INPUT")
async def test_two_questions_are_told_apart(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        get = await upstream.get_stream()
        await get.send(elicit(1, "task-1", "one?"))
        await get.send(elicit("1", "task-1", "two?"))
        while len(shown := (await ml.get()).get("inputRequests", {})) < 2:
            pass
        messages = {key: asked["params"]["message"] for key, asked in shown.items()}
        assert messages == {"elicitation-1": "one?", "elicitation-2": "two?"}

        await ml.client.tasks("update", "task-1", inputResponses={"elicitation-1": accept(n=1)})
        assert (await upstream.response_to(1)).message["result"]["content"] == accept(n=1)["content"]
        assert list((await ml.get())["inputRequests"]) == ["elicitation-2"]
        await ml.client.tasks("update", "task-1", inputResponses={"elicitation-2": {"action": "decline"}})
        assert (await upstream.response_to("1")).message["result"]["action"] == "decline"
        await get.send(elicit(2, "task-1", "three?"))
        shown = await ml.until("task-1", "input_required")
        assert list(shown["inputRequests"]) == ["elicitation-3"]
    assert ml.events("input.declined")


@pytest.mark.rule("ML-INPUT", "ML-UPDATE")
@pytest.mark.parametrize("second", ["one?", "two?"])
async def test_an_id_that_comes_again_is_another_question(
    upstream: Scripted, tmp_path: Path, second: str
) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        get = await upstream.get_stream()
        for n, message in enumerate(("one?", second), 1):
            await get.send(elicit("q", "task-1", message))
            while not (shown := (await ml.get()).get("inputRequests", {})):
                pass
            assert {key: one["params"]["message"] for key, one in shown.items()} == {
                f"elicitation-{n}": message
            }
            await ml.client.tasks("update", "task-1", inputResponses={f"elicitation-{n}": accept(n=n)})
            while len(answers := [one for one in upstream.requests if one.is_response]) < n:
                await ml.get()
            assert answers[-1].message["result"]["content"] == accept(n=n)["content"]
    assert ml.events("upstream.invalid") == []


@pytest.mark.rule("ML-INPUT")
async def test_two_questions_under_one_id_leave_the_one_that_can_be_answered(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        get = await upstream.get_stream()
        await get.send(elicit("q", "task-1", "one?"))
        await get.send(elicit("q", "task-1", "two?"))
        await get.send(elicit("q", "task-1", "two?"))
        while "elicitation-2" not in (shown := (await ml.get()).get("inputRequests", {})):
            pass
        assert [one["params"]["message"] for one in shown.values()] == ["two?"]
        await ml.client.tasks("update", "task-1", inputResponses={"elicitation-1": accept(n=1)})
        await ml.client.tasks("update", "task-1", inputResponses={"elicitation-2": accept(n=2)})
        assert (await upstream.response_to("q")).message["result"]["content"] == accept(n=2)["content"]
    assert [event["rule"] for event in ml.events("upstream.invalid")] == ["ML-INPUT"]


@pytest.mark.rule("ML-INPUT")
@pytest.mark.parametrize("named", ["nobody", None])
async def test_what_belongs_to_no_task_is_refused(
    upstream: Scripted, tmp_path: Path, named: str | None
) -> None:
    async with corner(upstream, tmp_path, tasks={"tasks_per_session": 2}) as ml:
        await ml.create("task-1")
        await ml.create("task-2")
        get = await upstream.get_stream()
        await get.send(elicit(5, named))
        refused = await upstream.response_to(5)
    assert refused.message["error"]["code"] == -32601
    assert [event["rule"] for event in ml.events("loss")] == ["ML-INPUT"]


@pytest.mark.rule("ML-INPUT")
async def test_a_question_before_the_handle_waits_for_the_commit(upstream: Scripted, tmp_path: Path) -> None:
    create = upstream.stream("tools/call")
    upstream.on("tasks/get", task(status="input_required"))
    async with corner(upstream, tmp_path) as ml:
        calling = asyncio.create_task(ml.client.call("run"))
        await create.opened()
        get = await upstream.get_stream()
        await get.send(elicit(3))
        await get.send({"jsonrpc": "2.0", "id": "heard", "method": "ping"})
        await upstream.response_to("heard")
        assert [seen.id for seen in upstream.requests if seen.is_response] == ["heard"]
        await create.result({"task": task()})
        await calling
        await ml.until("task-1", "input_required")


@pytest.mark.rule("ML-INPUT")
async def test_a_question_held_for_a_create_that_made_no_task_is_refused(
    upstream: Scripted, tmp_path: Path
) -> None:
    create = upstream.stream("tools/call")
    async with corner(upstream, tmp_path) as ml:
        calling = asyncio.create_task(ml.client.call("run"))
        await create.opened()
        await (await upstream.get_stream()).send(elicit(3, "task-9"))
        await create.result(text("done"))
        assert (await calling).result["resultType"] == "complete"
        assert (await upstream.response_to(3)).message["error"]["code"] == -32601


@pytest.mark.rule("ML-INPUT")
async def test_one_result_stream_and_the_old_one_called_off_before_a_new(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    first, second = upstream.stream("tasks/result"), upstream.stream("tasks/result")
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        await asyncio.gather(ml.get(), ml.get(), ml.get())
        old = await first.opened()
        assert len(upstream.seen("tasks/result")) == 1
        await first.abort()
        off = await upstream.wait("notifications/cancelled")
        assert off.params["requestId"] == old.id
        while not second.is_open:
            await ml.get()
        new = await second.opened()
        assert new.id != old.id
        assert upstream.requests.index(off) < upstream.requests.index(new)
        await second.send(elicit("q", "task-1"))
        await ml.until("task-1", "input_required")
    assert upstream.seen("notifications/cancelled")[-1].params["requestId"] == new.id


@pytest.mark.rule("ML-INPUT")
@pytest.mark.parametrize(("policy", "status"), [("wait", "working"), ("fail", "failed")])
async def test_a_question_that_never_comes(
    upstream: Scripted, tmp_path: Path, policy: str, status: str
) -> None:
    upstream.on("tasks/get", task(status="input_required"))
    upstream.stream("tasks/result")
    async with corner(upstream, tmp_path, tasks={"lost_input": policy, "question_wait_ms": 5_000}) as ml:
        await ml.create()
        assert (await ml.get())["status"] == "working"
        ml.clock.advance(5_000)
        ended = await ml.get()
        assert ended["status"] == status
        said = ended["statusMessage"] if policy == "wait" else ended["error"]["message"]
        assert "question was lost" in said
        await ml.get()
    assert len(ml.events("input.lost")) == 1


@pytest.mark.rule("HUB-3", "ML-INPUT")
async def test_no_question_yet_is_working_with_the_upstreams_words(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task(status="input_required", statusMessage="need a name"))
    upstream.stream("tasks/result")
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        seen = await ml.get()
    assert (seen["status"], seen["statusMessage"]) == ("working", "need a name")
    assert "inputRequests" not in seen


@pytest.mark.rule("ML-INPUT")
@pytest.mark.parametrize("answered", [False, True])
async def test_a_question_that_the_server_calls_off_is_closed(
    upstream: Scripted, tmp_path: Path, *, answered: bool
) -> None:
    upstream.on("tasks/get", task(status="working"))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        get = await upstream.get_stream()
        await get.send(elicit("q", "task-1"))
        await ml.until("task-1", "input_required")
        if answered:
            await ml.client.tasks("update", "task-1", inputResponses={"elicitation-1": accept(ok=True)})
            await upstream.response_to("q")
        off = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "q"}}
        for message in (off, {**off, "params": {"requestId": "unheard of"}}, {**off, "params": {}}):
            await get.send(message)
        assert "inputRequests" not in await ml.until("task-1", "working")
        late = await ml.client.tasks("update", "task-1", inputResponses={"elicitation-1": accept(ok=True)})
        assert late.result == {"resultType": "complete"}
        await get.send(elicit("q", "task-1"))
        assert list((await ml.until("task-1", "input_required"))["inputRequests"]) == ["elicitation-2"]
    assert len([seen for seen in upstream.requests if seen.is_response and seen.id == "q"]) == int(answered)
    assert len(ml.events("input.withdrawn")) == int(not answered)
