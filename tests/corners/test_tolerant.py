"""Section 1 of the rules: what is read besides the published forms, on each corner, each reading audited."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.client import LegacyClient
from tests.corners import lm, ml, mm
from tests.corners.ml import accept
from tests.scripted import Scripted, task, text

Scenario = Callable[[Scripted, Path], Awaitable[Any]]

ARTICLE_QUESTION = {"type": "elicitation", "message": "sure?", "schema": {"type": "object"}}
PUBLISHED_QUESTION = {
    "method": "elicitation/create",
    "params": {"mode": "form", "message": "sure?", "requestedSchema": {"type": "object"}},
}
CALL = {"name": "run", "arguments": {}}
FOUR = {"upstream": {"dialect": "create-status"}}


def job(status: str = "pending", **fields: Any) -> dict[str, Any]:
    """A task as a four-state server shows it."""
    return {"taskId": "task-1", "status": status, "createdAt": task()["createdAt"], "ttl": None, **fields}


# -- a legacy server (ML, LL) --------------------------------------------------------------------


async def ml_flat_create(upstream: Scripted, folder: Path) -> Any:
    upstream.once("tools/call", task())
    async with ml.corner(upstream, folder) as corner:
        reply = (await corner.client.call("run")).result
        assert (reply["resultType"], reply["taskId"], "task" in reply) == ("task", "task-1", False)
    return corner


async def ml_nested_create(upstream: Scripted, folder: Path) -> Any:
    upstream.once("tasks/create", {"task": job()})
    async with ml.corner(upstream, folder, **FOUR) as corner:
        assert (await corner.client.call("run")).result["taskId"] == "task-1"
    return corner


async def ll_flat_create(upstream: Scripted, folder: Path) -> Any:
    upstream.once("tools/call", task())
    async with ml.corner(upstream, folder) as corner, legacy(corner) as client:
        await client.initialize()
        await client.call("run", task={})
        listed = (await client.request("tasks/list")).result["tasks"]
        assert [one["taskId"] for one in listed] == ["task-1"]
    return corner


async def ml_submitted(upstream: Scripted, folder: Path) -> Any:
    async with ml.corner(upstream, folder) as corner:
        await corner.create()
        upstream.on("tasks/get", task(status="submitted"))
        assert (await corner.get())["status"] == "working"
    return corner


async def ll_submitted(upstream: Scripted, folder: Path) -> Any:
    upstream.once("tools/call", {"task": task()})
    upstream.on("tasks/get", task(status="submitted"))
    async with ml.corner(upstream, folder) as corner, legacy(corner) as client:
        await client.initialize()
        await client.call("run", task={})
        assert (await client.tasks("get", "task-1")).result["status"] == "submitted"
    return corner


async def ml_unknown(upstream: Scripted, folder: Path) -> Any:
    async with ml.corner(upstream, folder) as corner:
        await corner.create()
        upstream.on("tasks/get", task(status="unknown"))
        assert (await corner.get())["status"] == "working"
        corner.clock.advance(2_001)
        lost = await corner.get()
        assert (lost["status"], lost["error"]["message"]) == ("failed", "upstream lost the task")
    return corner


async def ll_unknown(upstream: Scripted, folder: Path) -> Any:
    upstream.once("tools/call", {"task": task()})
    upstream.on("tasks/get", task(status="unknown"))
    async with ml.corner(upstream, folder) as corner, legacy(corner) as client:
        await client.initialize()
        await client.call("run", task={})
        assert (await client.tasks("get", "task-1")).result["status"] == "unknown"
    return corner


async def ml_article_question(upstream: Scripted, folder: Path) -> Any:
    upstream.once("tasks/create", job())
    upstream.on("tasks/status", job("running", inputRequests={"q": ARTICLE_QUESTION}))
    upstream.stream("tasks/result")
    async with ml.corner(upstream, folder, **FOUR) as corner:
        await corner.client.call("run")
        assert (await corner.until("task-1", "input_required"))["inputRequests"] == {"q": PUBLISHED_QUESTION}
    return corner


async def ml_bare_response(upstream: Scripted, folder: Path) -> Any:
    upstream.once("tasks/create", job())
    upstream.on("tasks/status", job("running", inputRequests={"q": PUBLISHED_QUESTION}))
    upstream.on("tasks/inputResponse", {})
    upstream.stream("tasks/result")
    async with ml.corner(upstream, folder, **FOUR) as corner:
        await corner.client.call("run")
        await corner.until("task-1", "input_required")
        await corner.client.tasks("update", "task-1", inputResponses={"q": accept(confirm=True)["content"]})
        answer = await upstream.wait("tasks/inputResponse")
        assert answer.params["inputResponses"] == {"q": accept(confirm=True)}
    return corner


async def ll_bare_response(upstream: Scripted, folder: Path) -> Any:
    """A four-state client of an experimental server answers a server request so."""
    upstream.once("tools/call", {"task": task()})
    upstream.on("tasks/get", task())
    stream = upstream.stream("tasks/result")
    async with ml.corner(upstream, folder) as corner, legacy(corner) as client:
        await client.initialize()
        await client.request("tasks/create", CALL)
        async with client.stream("tasks/result", {"taskId": "task-1"}) as waiting:
            await stream.send(ml.elicit(7, "task-1"))
            asked = await waiting.message()
            await client.respond(asked["id"], accept(confirm=True)["content"])
            answer = (await upstream.response_to(7)).message["result"]
            assert {key: answer[key] for key in answer if key != "_meta"} == accept(confirm=True)
    return corner


async def ml_updated(upstream: Scripted, folder: Path) -> Any:
    """The notification names the request by which one of two tasks asks."""
    async with ml.corner(upstream, folder, tasks={"tasks_per_session": 2}) as corner:
        for one in ("task-1", "task-2"):
            await corner.create(one)
        upstream.on("tasks/get", lambda seen: task(seen.params["taskId"]))
        get = await upstream.get_stream()
        said = {**task("task-2"), "_meta": {"requestId": 5}}
        await get.send({"jsonrpc": "2.0", "method": "notifications/tasks/updated", "params": said})
        await get.send(ml.elicit(5))
        await corner.until("task-2", "input_required")
    return corner


async def ll_input_response(upstream: Scripted, folder: Path) -> Any:
    """An experimental session uses the articles' name, and stays experimental."""
    upstream.once("tools/call", {"task": task()})
    async with ml.corner(upstream, folder) as corner, legacy(corner) as client:
        await client.initialize()
        await client.call("run", task={})
        assert (await client.tasks("inputResponse", "task-1", inputResponses={})).result == {}
        [listed] = (await client.request("tasks/list")).result["tasks"]
        assert "lastUpdatedAt" in listed
    return corner


def legacy(corner: Any) -> LegacyClient:
    return LegacyClient(corner.app.url, headers=ml.ALICE)


# -- a modern server, legacy clients (LM) --------------------------------------------------------


async def lm_nested_create(upstream: Scripted, folder: Path) -> Any:
    upstream.once("tools/call", {"resultType": "task", "task": lm.modern_task()})
    async with lm.corner(upstream, folder) as corner:
        assert (await corner.client.call("run", task={})).result["task"]["taskId"] == "task-1"
    return corner


async def lm_submitted(upstream: Scripted, folder: Path) -> Any:
    async with lm.corner(upstream, folder) as corner:
        await corner.create()
        upstream.on("tasks/get", lm.seen_as(status="submitted"))
        assert (await corner.get())["status"] == "working"
    return corner


async def lm_unknown(upstream: Scripted, folder: Path) -> Any:
    async with lm.corner(upstream, folder) as corner:
        await corner.create()
        upstream.on("tasks/get", lm.seen_as(status="unknown"))
        assert (await corner.get())["status"] == "working"
        corner.clock.advance(2_001)
        assert (await corner.get())["status"] == "failed"
    return corner


async def lm_article_question(upstream: Scripted, folder: Path) -> Any:
    asking = lm.seen_as(status="input_required", inputRequests={"q": ARTICLE_QUESTION})
    async with lm.corner(upstream, folder, session=False) as corner:
        upstream.on("tasks/get", asking)
        upstream.once("tools/call", lm.made())
        await corner.client.request("tasks/create", CALL)
        corner.clock.advance(1_001)
        shown = (await corner.client.tasks("status", "task-1")).result
        assert shown["inputRequests"] == {"q": PUBLISHED_QUESTION}
    return corner


async def _asked_by_a_call(upstream: Scripted, folder: Path, question: Any, answer: Any) -> Any:
    """A plain call that asks in its middle; `answer` is the client's."""
    asking = {"resultType": "input_required", "inputRequests": {"q": question}, "requestState": "s"}
    upstream.once("tools/call", asking, text("ran"))
    async with lm.corner(upstream, folder) as corner:
        async with corner.client.stream("tools/call", CALL) as stream:
            asked = await stream.message()
            assert (asked["method"], asked["params"]["message"]) == ("elicitation/create", "sure?")
            await corner.client.respond(asked["id"], answer)
            assert (await stream.message())["result"] == text("ran")
        retry = (await upstream.wait("tools/call", 2)).params
        assert retry["inputResponses"] == {"q": accept(confirm=True)}
    return corner


async def lm_article_question_of_a_call(upstream: Scripted, folder: Path) -> Any:
    return await _asked_by_a_call(upstream, folder, ARTICLE_QUESTION, accept(confirm=True))


async def lm_bare_response_to_a_call(upstream: Scripted, folder: Path) -> Any:
    return await _asked_by_a_call(upstream, folder, PUBLISHED_QUESTION, accept(confirm=True)["content"])


async def lm_article_question_before_a_task(upstream: Scripted, folder: Path) -> Any:
    asking = {"resultType": "input_required", "inputRequests": {"q": ARTICLE_QUESTION}}
    upstream.once("tools/call", asking, text("ran"))
    async with lm.corner(upstream, folder) as corner:
        task_id = (await corner.client.call("run", task={})).result["task"]["taskId"]
        async with corner.client.stream("tasks/result", {"taskId": task_id}) as stream:
            asked = await stream.message()
            assert asked["params"]["message"] == "sure?"
            await corner.client.respond(asked["id"], accept(confirm=True))
            await corner.ticking(asyncio.ensure_future(stream.message()))
    return corner


async def lm_input_response(upstream: Scripted, folder: Path, given: Any = None) -> Any:
    """By the articles' name, and with an answer as they have it."""
    async with lm.corner(upstream, folder) as corner:
        await corner.create()
        upstream.on("tasks/get", lm.asks("q"))
        await corner.get()
        answers = {"q": accept(confirm=True) if given is None else given}
        assert (await corner.client.tasks("inputResponse", "task-1", inputResponses=answers)).result == {}
        update = await upstream.wait("tasks/update")
        assert update.params["inputResponses"] == {"q": accept(confirm=True)}
    return corner


async def lm_bare_response(upstream: Scripted, folder: Path) -> Any:
    return await lm_input_response(upstream, folder, accept(confirm=True)["content"])


# -- modern on both sides (MM) -------------------------------------------------------------------


async def mm_nested_create(upstream: Scripted, folder: Path) -> Any:
    del upstream
    async with mm.corner(folder) as corner:
        corner.upstream.once("tools/call", {"resultType": "task", "task": mm.task()})
        reply = (await corner.client.call("run")).result
        assert (reply["taskId"], "task" in reply) == (mm.TASK, False)
    return corner


async def _shown(folder: Path, answer: dict[str, Any], check: Callable[[Any], bool]) -> Any:
    async with mm.corner(folder) as corner:
        task_id = await corner.create()
        corner.upstream.on("tasks/get", answer)
        assert check((await corner.client.tasks("get", task_id)).result)
    return corner


async def mm_nested_get(upstream: Scripted, folder: Path) -> Any:
    del upstream
    nested = {"resultType": "complete", "task": mm.task()}
    return await _shown(folder, nested, lambda shown: shown["taskId"] == mm.TASK and "task" not in shown)


async def mm_submitted(upstream: Scripted, folder: Path) -> Any:
    del upstream
    return await _shown(folder, mm.shown(status="submitted"), lambda shown: shown["status"] == "working")


async def mm_unknown(upstream: Scripted, folder: Path) -> Any:
    del upstream
    return await _shown(folder, mm.shown(status="unknown"), lambda shown: shown["status"] == "working")


async def mm_article_question(upstream: Scripted, folder: Path) -> Any:
    del upstream
    asking = mm.shown(status="input_required", inputRequests={"q": ARTICLE_QUESTION})
    return await _shown(folder, asking, lambda shown: shown["inputRequests"] == {"q": PUBLISHED_QUESTION})


async def mm_listen_to_names(upstream: Scripted, folder: Path) -> Any:
    del upstream
    async with mm.corner(folder) as corner:
        await corner.create()
        names = {"notifications": ["notifications/tasks"]}
        async with corner.client.stream("subscriptions/listen", names) as stream:
            assert (await stream.message())["params"]["notifications"] == {"taskIds": [mm.TASK]}
    return corner


SECTION_1 = "section-1"
NESTED = (SECTION_1, "create reply: nested task")
FLAT = (SECTION_1, "create reply: flat task")
SUBMITTED = (SECTION_1, "status: submitted")
UNKNOWN = (SECTION_1, "status: 'unknown'")
QUESTION = (SECTION_1, "inputRequests: {type, message, schema}")
RESPONSE = ("ML-UPDATE", "inputResponses: object without action")
INPUT_RESPONSE = (SECTION_1, "tasks/inputResponse")
UPDATED = (SECTION_1, "notifications/tasks/updated")
TABLE: list[tuple[Scenario, tuple[str, str]]] = [
    (ml_flat_create, FLAT), (ml_nested_create, NESTED), (ll_flat_create, FLAT), (lm_nested_create, NESTED),
    (mm_nested_create, NESTED), (mm_nested_get, (SECTION_1, "nested task")),
    (ml_submitted, SUBMITTED), (ll_submitted, SUBMITTED), (lm_submitted, SUBMITTED),
    (mm_submitted, SUBMITTED), (mm_listen_to_names, (SECTION_1, "subscriptions/listen: a list of names")),
    (ml_unknown, UNKNOWN), (ll_unknown, UNKNOWN), (lm_unknown, UNKNOWN), (mm_unknown, UNKNOWN),
    (ml_article_question, QUESTION), (lm_article_question, QUESTION), (mm_article_question, QUESTION),
    (lm_article_question_of_a_call, QUESTION), (lm_article_question_before_a_task, QUESTION),
    (ml_bare_response, RESPONSE), (ll_bare_response, RESPONSE), (lm_bare_response, RESPONSE),
    (lm_bare_response_to_a_call, RESPONSE),
    (ll_input_response, INPUT_RESPONSE), (lm_input_response, INPUT_RESPONSE), (ml_updated, UPDATED),
]  # fmt: skip


@pytest.mark.rule("CS-INPUT", "ML-UPDATE", "KEYS")
@pytest.mark.parametrize(("scenario", "told"), TABLE, ids=[scenario.__name__ for scenario, _ in TABLE])
async def test_a_tolerant_reading_is_audited(
    upstream: Scripted, modern_upstream: Scripted, tmp_path: Path, scenario: Scenario, told: tuple[str, str]
) -> None:
    legacy_server = scenario.__name__.startswith(("ml", "ll"))
    corner = await scenario(upstream if legacy_server else modern_upstream, tmp_path)
    assert told in [(event["rule"], event["detail"]) for event in corner.events("lenient")]


@pytest.mark.rule("ML-UNDECLARED")
@pytest.mark.parametrize("modern_server", [True, False])
async def test_a_client_that_declared_nothing_gets_the_published_code(
    upstream: Scripted, tmp_path: Path, *, modern_server: bool
) -> None:
    running = mm.corner(tmp_path) if modern_server else ml.corner(upstream, tmp_path)
    async with running as corner:
        corner.client.declares_tasks = False
        reply = await corner.client.tasks("get", "task-1")
        assert (reply.status, reply.error["code"]) == (400, -32021)


@pytest.mark.rule("ML-CREATE-REPLY", "KEYS")
@pytest.mark.parametrize("nested", [True, False])
async def test_a_handle_can_be_had_in_both_forms(upstream: Scripted, tmp_path: Path, *, nested: bool) -> None:
    both: dict[str, Any] = {"modern": {"create_result": "both"}}
    async with ml.corner(upstream, tmp_path / "ml", **both) as corner:
        upstream.once("tools/call", {"task": task()})
        legacy_server = (await corner.client.call("run")).result
    async with mm.corner(tmp_path / "mm", **both) as corner:
        handle = {"resultType": "task", "task": mm.task()} if nested else mm.handle()
        corner.upstream.once("tools/call", handle)
        modern_server = (await corner.client.call("run")).result
    for reply in (legacy_server, modern_server):
        flat = {key: value for key, value in reply.items() if key not in {"resultType", "task", "_meta"}}
        assert reply["resultType"] == "task"
        assert reply["task"] == flat
