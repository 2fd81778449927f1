"""ML-MRTR: a legacy server asks in the middle of a call; the modern client answers by a retry."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from shim.tasks.parked_call import GATHER_MS
from shim.upstreams.legacy.hearing import CREATE_MS
from tests.corners.ml import ALICE, Corner, accept, corner, elicit
from tests.corners.mrtr import PLAIN, Conversation
from tests.scripted import Error, Raw, Scripted, task, text

pytestmark = pytest.mark.rule("ML-MRTR")

REQUESTS = [
    ("tools/call", PLAIN, text("done")),
    ("tools/call", {"name": "run", "arguments": {}}, text("done")),
    ("prompts/get", {"name": "greeting", "arguments": {}}, {"messages": []}),
    ("resources/read", {"uri": "test://x"}, {"contents": []}),
]


def ask(request_id: Any, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}


@pytest.mark.parametrize(("method", "params", "result"), REQUESTS)
@pytest.mark.parametrize("where", ["call", "get"])
@pytest.mark.parametrize("request_id", ["q", 0])
async def test_a_question_comes_as_the_answer_and_the_retry_brings_its(
    upstream: Scripted, tmp_path: Path, method: str, params: Any, result: Any, where: str, request_id: Any
) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml, method, params)
        sent = call.start()
        await call.stream.opened()
        get = await upstream.get_stream()
        while get.session != call.stream.session:
            get = await upstream.get_stream()
        question = elicit(request_id)
        if where == "get" and params.get("name") == "run":  # it may be one of the task that is being made
            await get.send(question)
            await ml.clock.slept(CREATE_MS)
            ml.clock.advance(CREATE_MS)
            asked = await call.asked(sent)
        else:
            asked = await call.asked(sent, question, on=get if where == "get" else None)
        assert asked["inputRequests"] == {
            "elicitation-1": {"method": "elicitation/create", "params": question["params"]}
        }
        retry = call.retry(asked)
        answer = await upstream.response_to(request_id)
        await call.stream.result(result)
        reply = await retry
    assert answer.message["result"] == accept(ok=True)
    assert answer.session == call.stream.session
    assert {key: reply.result[key] for key in ("resultType", *result)} == {"resultType": "complete", **result}
    assert len(upstream.seen(method)) == 1
    assert not upstream.seen("notifications/cancelled")
    [event] = ml.events("input.answered")
    assert (event["key"], event["kind"]) == ("elicitation-1", "elicitation")


async def test_the_operator_sees_how_many_wait(upstream: Scripted, tmp_path: Path) -> None:
    async def waiting(ml: Corner) -> str:
        admin = f"{ml.app.admin_url}/metrics"
        text = (await ml.client.send(None, http_method="GET", url=admin)).body.decode()
        return next(line for line in text.splitlines() if line.startswith("taskshim_parked_calls "))

    async with corner(upstream, tmp_path) as ml:
        assert await waiting(ml) == "taskshim_parked_calls 0.0"
        call = Conversation(ml)
        first = await call.parked()
        assert await waiting(ml) == "taskshim_parked_calls 1.0"
        await call.stream.result(text("done"))
        await call.retry(first)
        assert await waiting(ml) == "taskshim_parked_calls 0.0"


async def test_several_at_once_and_several_rounds(upstream: Scripted, tmp_path: Path) -> None:
    questions = [
        ask(1, "roots/list"),
        ask("1", "sampling/createMessage", messages=[], maxTokens=5),
        elicit(2),
    ]
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.asked(call.start(), *questions)
        assert {key: one["method"] for key, one in first["inputRequests"].items()} == {
            "roots-1": "roots/list",
            "sampling-2": "sampling/createMessage",
            "elicitation-3": "elicitation/create",
        }
        # a part of the answers: the rest is asked again, and no answer is asked for twice
        second = await call.asked(call.retry(first, **{"roots-1": {"roots": []}, "stray": {}}))
        assert list(second["inputRequests"]) == ["sampling-2", "elicitation-3"]
        assert second["requestState"] != first["requestState"]
        said = {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}
        retry = call.retry(second, **{"sampling-2": said, "elicitation-3": {"action": "decline"}})
        assert (await upstream.response_to("1")).message["result"] == said
        assert (await upstream.response_to(2)).message["result"] == {"action": "decline"}
        third = await call.asked(retry, elicit(3))
        assert list(third["inputRequests"]) == ["elicitation-4"]
        last = call.retry(third)
        await upstream.response_to(3)
        await call.stream.result(text("done"))
        assert (await last).result["content"] == text("done")["content"]
    assert [seen.id for seen in upstream.requests if seen.is_response and "heard" not in str(seen.id)] == [
        1, "1", 2, 3,
    ]  # fmt: skip
    assert len(ml.events("input.declined")) == 1


async def test_no_answer_at_all_is_asked_again(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.parked()
        again = await call.asked(call.start(requestState=first["requestState"]))
        assert again["inputRequests"] == first["inputRequests"]
        retry = call.retry(again)
        await upstream.response_to("q")
        await call.stream.result(text("done"))
        assert (await retry).result["content"]


async def test_the_same_retry_gets_the_same_answer(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.parked()
        both = [call.retry(first), call.retry(first)]
        await upstream.response_to("q")
        second = await call.asked(both[0], elicit("q2"))
        assert (await both[1]).result == second
        assert (await call.retry(first, **{"elicitation-1": accept(ok=False)})).result == second
        retry = call.retry(second)
        await upstream.response_to("q2")
        await call.stream.result(text("done"))
        done = (await retry).result
        assert (await call.retry(second)).result == done
        assert (await call.retry(first)).result == second
    assert len([seen for seen in upstream.requests if seen.is_response and seen.id == "q"]) == 1


async def test_a_task_may_be_made_after_the_answers(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml, params={"name": "run", "arguments": {}})
        first = await call.parked()
        assert "taskId" not in first
        retry = call.retry(first)
        await upstream.response_to("q")
        await call.stream.result({"task": task("task-1")})
        made = (await retry).result
        assert (made["resultType"], made["taskId"]) == ("task", "task-1")
        assert not {"requestState", "inputRequests"} & set(made)
        upstream.on("tasks/get", task("task-1"))
        assert (await ml.get("task-1"))["status"] == "working"


async def test_the_error_of_a_parked_call_is_the_retrys(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.parked()
        await call.stream.error(-32050, "gave up", {"x": 1.10})
        for _ in range(2):
            assert (await call.retry(first)).error == {
                "code": -32050,
                "message": "gave up",
                "data": {"x": 1.1},
            }


@pytest.mark.parametrize("altered", ["state", "caller", "arguments", "tool", "method", "no string"])
async def test_a_state_counts_for_its_caller_and_its_request_only(
    upstream: Scripted, tmp_path: Path, altered: str
) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.parked()
        method, params = call.method, dict(call.params)
        state = first["requestState"]
        match altered:
            case "state":
                state = f"{state}-ALTERED"
            case "caller":
                ml.client.headers = {"Authorization": "Bearer bob"}
            case "arguments":
                params["arguments"] = {**params["arguments"], "b": 2}
            case "tool":
                params["name"] = "other"
            case "method":
                method = "prompts/get"
            case _:
                state = {"not": "a string"}
        upstream.on(method, text("the call was made anew"))
        more = {"inputResponses": {"elicitation-1": accept(ok=True)}, "requestState": state}
        reply = await ml.client.request(method, {**params, **more})
        assert (reply.status, reply.error["code"]) == (400, -32602)
        assert reply.error["message"].startswith("params.requestState: ")

        ml.client.headers = ALICE
        call.params = {"arguments": {"a": [1.5, "x"], "b": 1}, "name": "plain"}  # in another order
        retry = call.retry(first)
        await upstream.response_to("q")
        await call.stream.result(text("done"))
        assert (await retry).result["content"] == text("done")["content"]


async def test_answers_that_are_no_object_are_refused_and_may_be_sent_again(
    upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.parked()
        for wrong in (None, 5, {"elicitation-1": 5}):
            reply = await call.start(inputResponses=wrong, requestState=first["requestState"])
            assert reply.error["code"] == -32602
        retry = call.retry(first)
        await upstream.response_to("q")
        await call.stream.result(text("done"))
        assert (await retry).result["content"]


@pytest.mark.parametrize("params", [PLAIN, {"name": "run", "arguments": {}}], ids=["plain", "before a task"])
async def test_a_call_whose_client_does_not_come_back_is_ended(
    upstream: Scripted, tmp_path: Path, params: Any
) -> None:
    async with corner(upstream, tmp_path, limits={"parked_ms": 5_000}) as ml:
        call = Conversation(ml, params=params)
        first = await call.parked()
        await ml.clock.slept(5_000)
        ml.clock.advance(4_999)
        assert not upstream.seen("notifications/cancelled")
        ml.clock.advance(1)
        off = await upstream.wait("notifications/cancelled")
        assert (off.params["requestId"], off.session) == (
            (await call.stream.opened()).id,
            call.stream.session,
        )
        await call.stream.left()
        reply = await call.retry(first)
        assert (reply.status, reply.error["code"]) == (400, -32602)
        assert "expired" in reply.error["message"]
    assert [event["rule"] for event in ml.events("loss")] == ["ML-MRTR"]


async def test_the_time_runs_anew_with_each_round_and_not_while_the_server_works(
    upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(upstream, tmp_path, limits={"parked_ms": 5_000}) as ml:
        call = Conversation(ml)
        first = await call.parked()
        ml.clock.advance(4_000)
        retry = call.retry(first)
        await upstream.response_to("q")
        await call.heard()
        ml.clock.advance(60_000)  # the tool takes its time
        second = await call.asked(retry, elicit("q2"))
        ml.clock.advance(4_000)
        assert (await call.retry(first)).error["code"] == -32602
        retry = call.retry(second)
        await upstream.response_to("q2")
        await call.stream.result(text("done"))
        assert (await retry).result["content"]
    assert not upstream.seen("notifications/cancelled")


@pytest.mark.parametrize("params", [PLAIN, {"name": "run", "arguments": {}}], ids=["plain", "before a task"])
async def test_a_restart_ends_the_call_and_says_so(upstream: Scripted, tmp_path: Path, params: Any) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml, params=params)
        first = await call.parked()
        began = await call.stream.opened()
    [off] = upstream.seen("notifications/cancelled")
    assert (off.params["requestId"], off.session) == (began.id, began.session)
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml, params=params)
        reply = await call.retry(first)
        assert reply.error["code"] == -32603
        assert "restarted; call again" in reply.error["message"]
    assert len(upstream.seen("tools/call")) == 1


@pytest.mark.parametrize("declared", [{}, {"sampling": {}}])
async def test_what_the_client_does_not_declare_is_refused_upstream(
    upstream: Scripted, tmp_path: Path, declared: Any
) -> None:
    async with corner(upstream, tmp_path, client={"capabilities": declared}) as ml:
        call = Conversation(ml)
        sent = call.start()
        await call.stream.send(elicit("q"))
        assert (await upstream.response_to("q")).message["error"]["code"] == -32601
        await call.stream.result(text("done"))
        assert (await sent).result["resultType"] == "complete"
    assert ml.events("loss")


async def test_a_later_request_may_declare_less(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.parked()
        ml.client.capabilities = {"sampling": {}}
        retry = call.retry(first)
        await upstream.response_to("q")
        await call.stream.send(elicit("q2"))
        assert (await upstream.response_to("q2")).message["error"]["code"] == -32601
        await call.stream.result(text("done"))
        assert (await retry).result["content"]


@pytest.mark.parametrize(
    ("limit", "status", "other"),
    [("parked_calls_per_caller", 429, ALICE), ("parked_calls", 503, {"Authorization": "Bearer bob"})],
)
async def test_at_the_bound_a_call_that_asks_is_ended(
    upstream: Scripted, tmp_path: Path, limit: str, status: int, other: Any
) -> None:
    async with corner(upstream, tmp_path, limits={limit: 1}) as ml:
        kept = Conversation(ml)
        first = await kept.parked()
        ml.client.headers = other
        over = Conversation(ml)
        sent = over.start()
        await over.stream.send(elicit("over"))
        await ml.clock.slept(GATHER_MS)
        ml.clock.advance(GATHER_MS)
        reply = await sent
        assert (reply.status, reply.error["code"]) == (status, -32603)
        assert limit in reply.error["message"]
        assert reply.headers["Retry-After"]
        off = await upstream.wait("notifications/cancelled")
        assert off.params["requestId"] == (await over.stream.opened()).id

        ml.client.headers = ALICE
        retry = kept.retry(first)
        await upstream.response_to("q")
        await kept.stream.result(text("done"))
        assert (await retry).result["content"]
        await Conversation(ml).parked()  # one that has its answer makes way
        gone = await kept.retry(first)
        assert gone.error["code"] == -32603
        assert "no longer kept; call again" in gone.error["message"]
    assert [event["reason"] for event in ml.events("denied")] == ["limit"]


async def test_too_many_questions_are_refused(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path, limits={"questions_per_task": 2}) as ml:
        call = Conversation(ml)
        first = await call.asked(call.start(), elicit(1), elicit(2), elicit(3))
        assert len(first["inputRequests"]) == 2
        assert (await upstream.response_to(3)).message["error"]["code"] == -32601


@pytest.mark.rule("ML-CLOSE")
async def test_the_client_that_leaves_cancels_the_call(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.parked()
        retry = call.retry(first)
        await upstream.response_to("q")
        await call.heard()
        retry.cancel()
        off = await upstream.wait("notifications/cancelled")
        assert off.params["requestId"] == (await call.stream.opened()).id
        reply = await call.retry(first)
        assert reply.error["code"] == -32603
        assert "its client closed the response stream; call again" in reply.error["message"]


@pytest.mark.rule("ML-PROGRESS")
async def test_progress_goes_to_the_request_that_waits(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        params = {**call.params, "_meta": {"progressToken": 7}}
        first = await call.asked(asyncio.create_task(ml.client.request(call.method, params)), elicit("q"))
        began = await call.stream.opened()
        more = {"inputResponses": {"elicitation-1": accept(ok=True)}, "requestState": first["requestState"]}
        params = {**call.params, **more, "_meta": {"progressToken": "mine"}}
        retry = asyncio.create_task(ml.client.request(call.method, params))
        await upstream.response_to("q")
        progress = {"progressToken": began.params["_meta"]["progressToken"], "progress": 1}
        await call.stream.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        await call.stream.result(text("done"))
        messages = (await retry).messages
    assert messages[0]["params"] == {"progressToken": "mine", "progress": 1}
    assert messages[-1]["result"]["resultType"] == "complete"


async def test_an_answer_is_brought_until_the_server_takes_it(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.parked()
        upstream.response_answer = Raw(b"", 503)
        retry = call.retry(first)
        await upstream.response_to("q")
        await ml.clock.slept(200)
        upstream.response_answer = None
        ml.clock.advance(200)
        await call.heard()
        await call.stream.result(text("done"))
        assert (await retry).result["content"]
    assert len([seen for seen in upstream.requests if seen.is_response and seen.id == "q"]) == 2


async def test_a_session_that_is_lost_takes_the_call_along(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.parked()
        upstream.forget()
        for _ in range(2):
            reply = await call.retry(first)
            assert reply.error["code"] == -32603
        await call.stream.left()


async def test_a_refused_answer_is_told(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.parked()
        upstream.response_answer = Raw(b"", 422)
        retry = call.retry(first)
        await upstream.response_to("q")
        upstream.response_answer = None
        await call.stream.result(text("done"))
        assert (await retry).result["content"]
    assert [event["rule"] for event in ml.events("upstream.invalid")] == ["ML-MRTR"]


@pytest.mark.rule("ERRORS")
async def test_a_url_to_visit_ends_a_parked_call_as_any_other(upstream: Scripted, tmp_path: Path) -> None:
    url = {"mode": "url", "message": "sign in", "url": "https://example.org", "elicitationId": "e"}
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.parked()
        retry = call.retry(first)
        await upstream.response_to("q")
        await call.stream.error(-32042, "visit", {"elicitations": [url]})
        asked = (await retry).result
        assert asked["inputRequests"]["elicitation-1"]["params"]["url"] == "https://example.org"
        upstream.once("tools/call", text("done"))
        done = await call.start(
            inputResponses={"elicitation-1": {"action": "accept"}}, requestState=asked["requestState"]
        )
        assert done.result["content"] == text("done")["content"]
    assert len(upstream.seen("tools/call")) == 2


@pytest.mark.rule("DUR-3")
async def test_each_round_under_a_key_is_answered_once(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        ml.client.headers = {**ALICE, "Idempotency-Key": "k"}
        call = Conversation(ml)
        first = await call.parked()
        assert (await call.start()).result == first
        retry = call.retry(first)
        await upstream.response_to("q")
        await call.stream.result(text("done"))
        done = (await retry).result
    async with corner(upstream, tmp_path) as ml:
        ml.client.headers = {**ALICE, "Idempotency-Key": "k"}
        again = Conversation(ml)
        assert (await again.retry(first)).result == done
        assert (await again.start()).result == first
    assert len(upstream.seen("tools/call")) == 1


async def test_nothing_is_logged_of_what_was_said(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        call = Conversation(ml)
        first = await call.asked(call.start(), elicit("q", message="SECRET?"))
        retry = call.retry(first, **{"elicitation-1": accept(word="SECRET!")})
        await upstream.response_to("q")
        await call.stream.result(text("done"))
        await retry
    written = (tmp_path / "audit.jsonl").read_text()
    assert "SECRET" not in written
    assert first["requestState"] not in written
    rules = [json.loads(line)["rules"] for line in written.splitlines() if '"event":"request"' in line]
    assert all("ML-MRTR" in one for one in rules)


async def test_what_is_asked_of_no_call_is_refused(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tools/call", Error(-32000))
    async with corner(upstream, tmp_path) as ml:
        await ml.client.call("plain")
        get = await upstream.get_stream()
        await get.send(elicit("late"))
        assert (await upstream.response_to("late")).message["error"]["code"] == -32601
