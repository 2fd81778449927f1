"""ERRORS: what a legacy server's errors are to a modern client: codes, HTTP statuses, URLs to visit."""

from pathlib import Path
from typing import Any

import pytest

from tests.client import TASKS_EXTENSION
from tests.corners.ml import corner
from tests.scripted import Error, Scripted, task, text

URL = {"mode": "url", "elicitationId": "e-1", "url": "https://auth.example/1", "message": "log in"}
SHOWN = {key: value for key, value in URL.items() if key != "elicitationId"}
NEEDED = Error(-32042, "log in first", {"elicitations": [URL, {**URL, "url": "https://auth.example/2"}]})
KINDS: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}}


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize(
    ("code", "shown", "status"),
    [
        (-32700, -32700, 400),
        (-32600, -32600, 400),
        (-32601, -32601, 404),
        (-32602, -32602, 400),
        (-32603, -32603, 200),
        (-32002, -32602, 400),
        (-32042, -32603, 200),
        (-32021, -32021, 400),
        (-32000, -32000, 200),
        (7, 7, 200),
    ],
)
async def test_each_code_has_its_status(
    upstream: Scripted, tmp_path: Path, code: int, shown: int, status: int
) -> None:
    upstream.on("resources/list", Error(code, "why", {"uri": "a:b", "n": 1}))
    async with corner(upstream, tmp_path) as ml:
        reply = await ml.client.request("resources/list")
    assert reply.error == {"code": shown, "message": "why", "data": {"uri": "a:b", "n": 1}}
    assert reply.status == status


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize("code", [-32000, -32042, -32002])
async def test_a_failed_tasks_error_has_a_code_of_this_era(
    upstream: Scripted, tmp_path: Path, code: int
) -> None:
    upstream.on("tasks/get", task(status="failed"))
    upstream.on("tasks/result", Error(code, "why", {"n": 1}))
    async with corner(upstream, tmp_path) as ml:
        await ml.create()
        error = (await ml.get())["error"]
    shown = {-32042: -32603, -32002: -32602}.get(code, code)
    assert error == {"code": shown, "message": "why", "data": {"n": 1}}


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "plain", "arguments": {"a": 1}}),
        ("tools/call", {"name": "run", "arguments": {}}),
        ("prompts/get", {"name": "p"}),
        ("resources/read", {"uri": "a:b"}),
    ],
)
async def test_a_url_to_visit_is_asked_for_and_the_retry_is_the_call_again(
    upstream: Scripted, tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    upstream.once(method, NEEDED, NEEDED)
    upstream.on(method, text("in"))
    async with corner(upstream, tmp_path, client={"capabilities": KINDS}) as ml:
        states = []
        for _ in range(2):
            asked = (await ml.client.request(method, params)).result
            assert asked["resultType"] == "input_required"
            assert asked["inputRequests"] == {
                "elicitation-1": {"method": "elicitation/create", "params": SHOWN},
                "elicitation-2": {
                    "method": "elicitation/create",
                    "params": {**SHOWN, "url": "https://auth.example/2"},
                },
            }
            states.append(asked["requestState"])
            answers = {key: {"action": "accept"} for key in asked["inputRequests"]}
            params = {**params, "inputResponses": answers, "requestState": states[-1]}
        assert (await ml.client.request(method, params)).result["resultType"] == "complete"
    assert len(set(states)) == 2
    for seen in upstream.seen(method):
        assert not {"inputResponses", "requestState"} & set(seen.params)


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_a_url_that_is_not_visited_ends_the_call(
    upstream: Scripted, tmp_path: Path, action: str
) -> None:
    upstream.on("tools/call", NEEDED)
    async with corner(upstream, tmp_path, client={"capabilities": KINDS}) as ml:
        state = (await ml.client.call("plain")).result["requestState"]
        answers = {"elicitation-1": {"action": "accept"}, "elicitation-2": {"action": action}}
        reply = await ml.client.call("plain", inputResponses=answers, requestState=state)
    assert (reply.status, reply.error["code"]) == (400, -32602)
    assert len(upstream.seen("tools/call")) == 1


@pytest.mark.rule("ERRORS", "DUR-3")
async def test_the_retry_of_a_keyed_call_is_a_call_of_its_own(upstream: Scripted, tmp_path: Path) -> None:
    upstream.once("tools/call", NEEDED)
    upstream.on("tools/call", text("in"))
    key = {"headers": {"Idempotency-Key": "k"}}
    async with corner(upstream, tmp_path, client={"capabilities": KINDS}) as ml:
        state = (await ml.client.call("plain", **key)).result["requestState"]
        retry = {"inputResponses": {"elicitation-1": {"action": "accept"}}, "requestState": state}
        for _ in range(2):
            assert (await ml.client.call("plain", **retry, **key)).result["resultType"] == "complete"
    assert len(upstream.seen("tools/call")) == 2


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize("kinds", [{}, {"elicitation": {}}, {"elicitation": {"form": {}}}])
async def test_who_cannot_visit_a_url_is_told_what_is_missing(
    upstream: Scripted, tmp_path: Path, kinds: dict[str, Any]
) -> None:
    upstream.on("tools/call", NEEDED)
    async with corner(upstream, tmp_path, client={"capabilities": kinds}) as ml:
        reply = await ml.client.call("plain")
    assert (reply.status, reply.error["code"]) == (400, -32021)
    assert reply.error["data"] == {"requiredCapabilities": {"elicitation": {"url": {}}}}
    assert TASKS_EXTENSION not in str(reply.error)


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize("data", [None, [], {"elicitations": []}, {"elicitations": [{"url": 7}, "x"]}])
async def test_an_error_that_names_no_url_is_an_internal_one(
    upstream: Scripted, tmp_path: Path, data: Any
) -> None:
    upstream.on("tools/call", Error(-32042, "log in", data))
    async with corner(upstream, tmp_path, client={"capabilities": KINDS}) as ml:
        reply = await ml.client.call("plain")
    assert (reply.status, reply.error["code"], reply.error["message"]) == (200, -32603, "log in")
