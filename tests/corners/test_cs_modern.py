"""Four-state clients on a modern server: the whole life of a task, with a session and without."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.client import RELATED_TASK, LegacyClient
from tests.corners.lm import ACK, ALICE, BOB, Corner, asks, corner, elicitation, made, more, seen_as
from tests.corners.ml import accept
from tests.scripted import Error, Raw, Scripted, Seen, text

CALL: dict[str, Any] = {"name": "run", "arguments": {"n": 9007199254740993}}
FIELDS = {"taskId", "status", "createdAt", "ttl", "pollInterval"}
PAGE = 2
TTL_MS = 60_000


@pytest.fixture(params=["/mcp", "/create-status"])
def path(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=[True, False], ids=["session", "no session"])
def opens(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture
async def cs(modern_upstream: Scripted, tmp_path: Path, path: str, *, opens: bool) -> AsyncIterator[Corner]:
    """A four-state client in front of a modern server: each address, with a session and without."""
    async with corner(modern_upstream, tmp_path, session=False, legacy={"page_size": PAGE}) as running:
        running.client.url = running.app.url.replace("/mcp", path)
        if opens:
            await running.client.initialize()
        yield running


async def create(cs: Corner, upstream_id: str = "task-1", **fields: Any) -> str:
    cs.upstream.once("tools/call", made(upstream_id, **fields))
    return str((await cs.client.request("tasks/create", CALL)).result["taskId"])


async def status(cs: Corner, task_id: str = "task-1") -> Any:
    """Look at a task afresh: enough time passes that nothing older is reused."""
    cs.clock.advance(1_001)
    return (await cs.client.tasks("status", task_id)).result


async def until(cs: Corner, task_id: str, state: str) -> Any:
    while (seen := await status(cs, task_id))["status"] != state:
        pass
    return seen


async def result(cs: Corner, task_id: str = "task-1") -> Any:
    """A task's result, waited for while time passes."""
    return await cs.ticking(asyncio.ensure_future(cs.client.tasks("result", task_id)))


# -- create --------------------------------------------------------------------------------------


@pytest.mark.rule("CS-CREATE", "LM-META", "KEYS")
@pytest.mark.parametrize("nested", [False, True])
async def test_the_server_gets_a_plain_call_and_the_client_a_pending_task(
    cs: Corner, *, nested: bool
) -> None:
    cs.upstream.once("tools/call", made(ttlMs=TTL_MS, requestState="x"))
    asked = {"method": "tools/call", "params": CALL} if nested else CALL
    reply = await cs.client.request("tasks/create", {**asked, "ttl": 5_000})
    assert reply.result == {
        "taskId": "task-1",
        "status": "pending",
        "createdAt": "2026-01-01T00:00:00Z",
        "ttl": TTL_MS,
        "pollInterval": 1_000,
    }
    [call] = cs.upstream.seen("tools/call")
    assert {key: value for key, value in call.params.items() if key != "_meta"} == CALL
    assert call.headers["Mcp-Name"] == "run"
    assert not cs.upstream.unexpected


@pytest.mark.rule("CS-CREATE")
@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"method": "prompts/get", "params": {"name": "run"}}, "method"),
        ({"method": "tools/call", "params": []}, "params"),
        ({**CALL, "ttl": "soon"}, "ttl"),
    ],
)
async def test_a_create_that_cannot_be_read_is_refused(
    cs: Corner, params: dict[str, Any], named: str
) -> None:
    error = (await cs.client.request("tasks/create", params)).error
    assert error["code"] == -32602
    assert error["message"].startswith(f"params.{named}")
    assert not cs.upstream.seen("tools/call")


@pytest.mark.rule("CS-CREATE", "LM-CREATE")
async def test_an_error_before_any_handle_is_the_answer(cs: Corner) -> None:
    cs.upstream.once("tools/call", Error(-32050, "no such tool", {"why": "typo"}))
    error = (await cs.client.request("tasks/create", CALL)).error
    assert error == {"code": -32050, "message": "no such tool", "data": {"why": "typo"}}
    assert await listed(cs) == []


@pytest.mark.rule("CS-CREATE")
async def test_an_answer_at_once_is_a_task_that_is_done(cs: Corner) -> None:
    cs.upstream.once("tools/call", {"resultType": "complete", **text("at once"), "_meta": {"a/b": 1}})
    handle = (await cs.client.request("tasks/create", CALL)).result
    assert handle["status"] == "pending"
    assert set(await until(cs, handle["taskId"], "done")) == FIELDS
    assert (await result(cs, handle["taskId"])).result == {**text("at once"), "_meta": {"a/b": 1}}
    assert not cs.upstream.seen("tasks/get")


@pytest.mark.rule("CS-CREATE")
async def test_a_plain_call_cannot_ask_for_a_task(cs: Corner) -> None:
    """Where the client speaks four-state; on the open address a task param is the experimental dialect."""
    cs.upstream.once("tools/call", made() if "/mcp" in cs.client.url else text("plain"))
    reply = await cs.client.call("run", task={})
    if "/mcp" in cs.client.url:
        assert reply.result["task"]["taskId"] == "task-1"
    else:
        assert reply.result == text("plain")
        assert "task" not in cs.upstream.seen("tools/call")[0].params


# -- status --------------------------------------------------------------------------------------

ENDS: list[Any] = [
    pytest.param({"status": "working"}, "running", None, id="working"),
    pytest.param({"status": "working", "statusMessage": "half"}, "running", "half", id="a message"),
    pytest.param({"status": "completed", "result": text("ok")}, "done", None, id="completed"),
    pytest.param(
        {"status": "completed", "result": text("disk full", isError=True)}, "error", "disk full",
        id="a tool's error",
    ),
    pytest.param(
        {"status": "failed", "error": {"code": -32000, "message": "crash"}}, "error", None,
        id="a protocol error",
    ),
    pytest.param({"status": "cancelled"}, "error", "cancelled", id="cancelled"),
]  # fmt: skip


@pytest.mark.rule("CS-STATUS", "KEYS")
@pytest.mark.parametrize(("seen", "state", "message"), ENDS)
async def test_a_state_is_one_of_the_four(
    cs: Corner, seen: dict[str, Any], state: str, message: str | None
) -> None:
    await create(cs)
    cs.upstream.on("tasks/get", seen_as(**seen))
    shown = await status(cs)
    assert (shown["status"], shown.get("statusMessage")) == (state, message)
    assert set(shown) - {"statusMessage"} == FIELDS
    [one] = await listed(cs)
    assert (one["status"], one.get("statusMessage")) == (state, message)


@pytest.mark.rule("HUB-4")
async def test_a_state_that_nobody_knows_is_an_error_and_never_running(cs: Corner) -> None:
    await create(cs)
    cs.upstream.on("tasks/get", seen_as(status="sleeping"))
    cs.clock.advance(1_001)
    assert (await cs.client.tasks("status", "task-1")).error["code"] == -32603


# -- result --------------------------------------------------------------------------------------

OUTCOMES: list[Any] = [
    pytest.param(
        {
            "status": "completed",
            "result": {"resultType": "complete", **text("ok", structuredContent={"n": 1})},
        },
        {"result": text("ok", structuredContent={"n": 1})},
        id="completed",
    ),
    pytest.param(
        {"status": "completed", "result": text("disk full", isError=True)},
        {"result": text("disk full", isError=True)},
        id="a tool's error",
    ),
    pytest.param(
        {"status": "failed", "error": {"code": -32000, "message": "crash", "data": [1]}},
        {"error": {"code": -32000, "message": "crash", "data": [1]}},
        id="a protocol error",
    ),
    pytest.param(
        {"status": "cancelled"},
        {"error": {"code": -32603, "message": "task was cancelled"}},
        id="cancelled",
    ),
]


@pytest.mark.rule("CS-RESULT", "KEYS")
@pytest.mark.parametrize(("seen", "outcome"), OUTCOMES)
async def test_the_result_is_waited_for_and_names_no_task(
    cs: Corner, seen: dict[str, Any], outcome: dict[str, Any]
) -> None:
    await create(cs)
    asking = asyncio.ensure_future(cs.client.tasks("result", "task-1"))
    await cs.upstream.wait("tasks/get")
    assert not asking.done()
    cs.upstream.on("tasks/get", seen_as(**seen))
    told = (await cs.ticking(asking)).json
    assert {key: told[key] for key in told if key not in {"jsonrpc", "id"}} == outcome
    again = (await cs.client.tasks("result", "task-1")).json
    assert {key: again[key] for key in again if key not in {"jsonrpc", "id"}} == outcome


# -- input ---------------------------------------------------------------------------------------


class Questions:
    """A modern server's task that asks until all its questions are answered."""

    def __init__(self, upstream: Scripted, *keys: str) -> None:
        self.open = list(keys)
        self.updates: list[Any] = []
        upstream.on("tasks/get", lambda _: self.shown())
        upstream.on("tasks/update", self.update)

    def shown(self) -> dict[str, Any]:
        return asks(*self.open) if self.open else seen_as(status="completed", result=text("deployed"))

    def update(self, seen: Seen) -> dict[str, Any]:
        self.updates.append(seen.params["inputResponses"])
        self.open = [key for key in self.open if key not in seen.params["inputResponses"]]
        return ACK


@pytest.mark.rule("CS-INPUT", "CS-STATUS", "KEYS")
async def test_questions_are_asked_and_answered(cs: Corner, *, opens: bool) -> None:
    questions = Questions(cs.upstream, "a", "b")
    await create(cs)
    if opens:
        async with cs.client.stream("tasks/result", {"taskId": "task-1"}) as stream:
            for _ in range(2):
                asked = await stream.message()
                assert asked["method"] == "elicitation/create"
                assert "_meta" not in asked["params"]
                assert (await cs.client.respond(asked["id"], accept(ok=True))).status == 202
            ended = await cs.ticking(asyncio.ensure_future(stream.message()))
    else:
        shown = await status(cs)
        assert (shown["status"], shown["statusMessage"]) == ("running", "input required")
        assert shown["inputRequests"] == {"a": elicitation("a"), "b": elicitation("b")}
        for key in ("a", "b"):
            reply = await cs.client.tasks("inputResponse", "task-1", inputResponses={key: accept(ok=True)})
            assert reply.result == {}
        ended = (await result(cs)).json
    assert ended["result"] == text("deployed")
    assert sorted(key for update in questions.updates for key in update) == ["a", "b"]
    assert {str(answer) for update in questions.updates for answer in update.values()} == {
        str(accept(ok=True))
    }


@pytest.mark.rule("CS-INPUT")
async def test_a_session_is_shown_no_questions_but_told_that_there_are(cs: Corner, *, opens: bool) -> None:
    Questions(cs.upstream, "a")
    await create(cs)
    shown = await status(cs)
    assert (shown["status"], shown["statusMessage"]) == ("running", "input required")
    assert ("inputRequests" in shown) == (not opens)


@pytest.mark.rule("CS-INPUT")
async def test_answers_by_the_method_are_taken_with_a_session_too(cs: Corner) -> None:
    questions = Questions(cs.upstream, "a")
    await create(cs)
    await status(cs)
    reply = await cs.client.tasks("inputResponse", "task-1", inputResponses={"a": accept(ok=True), "z": {}})
    assert reply.result == {}
    assert (await result(cs)).result == text("deployed")
    again = await cs.client.tasks("inputResponse", "task-1", inputResponses={"a": accept(ok=False)})
    assert again.result == {}
    assert questions.updates == [{"a": accept(ok=True)}]


@pytest.mark.rule("CS-INPUT", "LM-MRTR")
async def test_a_call_that_asks_before_there_is_a_task(cs: Corner, *, opens: bool) -> None:
    cs.upstream.once("tools/call", more("a", state="s-1"), text("ran"))
    task_id = (await cs.client.request("tasks/create", CALL)).result["taskId"]
    if opens:
        async with cs.client.stream("tasks/result", {"taskId": task_id}) as stream:
            await cs.client.respond((await stream.message())["id"], accept(ok=True))
            assert (await cs.ticking(asyncio.ensure_future(stream.message())))["result"] == text("ran")
    else:
        while not (asked := (await status(cs, task_id)).get("inputRequests")):
            pass
        answers = dict.fromkeys(asked, accept(ok=True))
        await cs.client.tasks("inputResponse", task_id, inputResponses=answers)
        assert (await result(cs, task_id)).result == text("ran")
    retry = (await cs.upstream.wait("tools/call", 2)).params
    assert (retry["requestState"], retry["inputResponses"]) == ("s-1", {"a": accept(ok=True)})


@pytest.mark.rule("CS-INPUT")
@pytest.mark.parametrize("given", [None, [], {"a": 1}])
async def test_answers_that_are_none_are_refused(cs: Corner, given: Any) -> None:
    questions = Questions(cs.upstream, "a")
    await create(cs)
    await status(cs)
    reply = await cs.client.tasks("inputResponse", "task-1", inputResponses=given)
    assert reply.error["code"] == -32602
    assert questions.updates == []


# -- cancel --------------------------------------------------------------------------------------


@pytest.mark.rule("CS-CANCEL", "LM-CANCEL", "CS-STATUS")
async def test_a_cancelled_task_is_an_error_that_says_so(cs: Corner) -> None:
    await create(cs)
    told = (await cs.client.tasks("cancel", "task-1")).result
    assert set(told) == FIELDS | {"statusMessage"}
    assert (told["status"], told["statusMessage"]) == ("error", "cancelled")
    assert len(cs.upstream.seen("tasks/cancel")) == 1
    cs.upstream.on("tasks/get", seen_as(status="completed", result=text("after all")))
    shown = await status(cs)
    assert (shown["status"], shown["statusMessage"]) == ("error", "cancelled")
    assert (await cs.client.tasks("cancel", "task-1")).error["code"] == -32602
    assert len(cs.upstream.seen("tasks/cancel")) == 1


@pytest.mark.rule("CS-CANCEL", "LM-CANCEL")
async def test_a_cancel_that_the_server_did_not_hear_changes_nothing(cs: Corner) -> None:
    await create(cs)
    cs.upstream.on("tasks/cancel", Raw(b"down", 503, {}))
    assert (await cs.client.tasks("cancel", "task-1")).error["code"] == -32603
    assert (await status(cs))["status"] == "running"


# -- the list, expiry, two callers ---------------------------------------------------------------


async def listed(cs: Corner, client: LegacyClient | None = None, **params: Any) -> list[Any]:
    """The list in this dialect: its name says nothing, so it is asked for where the dialect is pinned."""
    url = cs.app.url.replace("/mcp", "/create-status")
    tasks: list[Any] = (await (client or cs.client).request("tasks/list", params, url=url)).result["tasks"]
    return tasks


@pytest.mark.rule("CS-LIST", "KEYS")
async def test_the_list_has_pages_newest_first(cs: Corner) -> None:
    made_here = [await create(cs, f"task-{n}") for n in range(5)]
    pages, cursor = [], {}
    url = cs.app.url.replace("/mcp", "/create-status")
    while True:
        page = (await cs.client.request("tasks/list", cursor, url=url)).result
        pages.append([one["taskId"] for one in page["tasks"]])
        assert all(set(one) == FIELDS and one["status"] == "running" for one in page["tasks"])
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert [len(page) for page in pages] == [2, 2, 1]
    assert [task_id for page in pages for task_id in page] == made_here[::-1]
    bob = await cs.seated(BOB)
    for client, wrong in ((bob, cursor["cursor"]), (cs.client, cursor["cursor"] + "x"), (cs.client, "")):
        error = (await client.request("tasks/list", {"cursor": wrong}, url=url)).error
        assert error["code"] == -32602


@pytest.mark.rule("CS-DETECT", "CS-LIST")
async def test_a_session_that_spoke_four_state_is_answered_so(cs: Corner, *, opens: bool, path: str) -> None:
    await create(cs)
    [one] = (await cs.client.request("tasks/list")).result["tasks"]
    four_state = opens or path == "/create-status"
    assert one["status"] == ("running" if four_state else "working")


@pytest.mark.rule("DUR-4")
async def test_a_task_that_expired_is_known_to_its_owner_only(cs: Corner) -> None:
    await create(cs, ttlMs=TTL_MS)
    cs.upstream.on("tasks/get", Error(-32602, "unknown", status=400))
    cs.clock.advance(TTL_MS + 1)
    bob = await cs.seated(BOB)
    for verb in ("status", "result"):
        assert "expired" in (await cs.client.tasks(verb, "task-1")).error["message"]
        assert "expired" not in (await bob.tasks(verb, "task-1")).error["message"]


@pytest.mark.rule("OWN-CHECK")
@pytest.mark.parametrize("verb", ["status", "result", "cancel", "inputResponse"])
async def test_a_foreign_task_is_an_unknown_one(cs: Corner, verb: str, *, opens: bool) -> None:
    await create(cs)
    bob = await cs.seated(BOB, session=opens)
    bob.url = cs.client.url
    told = [await bob.tasks(verb, task, id=1, inputResponses={}) for task in ("task-1", "nobody's")]
    assert told[0].body == told[1].body
    assert told[0].error["code"] == -32602
    assert await listed(cs, bob) == []
    assert [one["taskId"] for one in await listed(cs)] == ["task-1"]
    assert not cs.upstream.seen("tasks/cancel")


@pytest.mark.rule("CS-DETECT", "OWN-NONE")
async def test_a_caller_of_whom_nothing_is_known_has_its_task_by_an_id_that_none_can_guess(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(modern_upstream, tmp_path, session=False, client={"headers": {}}) as cs:
        task_id = await create(cs)
        assert task_id != "task-1"
        assert (await status(cs, task_id))["status"] == "running"
        assert cs.upstream.seen("tasks/get")[-1].params["taskId"] == "task-1"
        assert await listed(cs) == []


@pytest.mark.rule("CS-STATUS", "MM-1")
async def test_a_modern_client_of_the_same_caller_sees_the_same_task(cs: Corner) -> None:
    await create(cs)
    modern = await cs.modern(ALICE)
    assert (await modern.tasks("get", "task-1")).result["status"] == "working"
    assert RELATED_TASK not in (await modern.tasks("get", "task-1")).result.get("_meta", {})
