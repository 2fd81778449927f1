"""LM under attack: races, garbage, foreign claims and things that must not grow."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.client import LegacyClient, OpenStream
from tests.corners.lm import DISCOVER, Corner, asks, corner, made, seen_as
from tests.corners.ml import ALICE, accept
from tests.scripted import Error, Raw, Scripted, Seen, Stream, text
from tests.shim import config_for

FORGED = {"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJpc3MiOiJpIiwic3ViIjoiYSJ9.ZmFrZQ"}
GENUINE = {"Authorization": "Bearer eyJhbGciOiJub25lIn0.eyJpc3MiOiJpIiwic3ViIjoiYSJ9.cmVhbA"}


async def asked(lm: Corner, stream: OpenStream) -> Any:
    """The next request of the server's on a stream; time passes until it comes."""

    async def coming() -> Any:
        while "id" not in (message := await stream.message()) or "method" not in message:
            pass
        return message

    return await lm.ticking(asyncio.ensure_future(coming()))


@pytest.mark.rule("LM-INPUT", "LM-RESULT")
async def test_waiters_of_one_session_are_asked_once(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        waiting = [asyncio.create_task(lm.client.tasks("result", "task-1")) for _ in range(8)]
        await modern_upstream.wait("tasks/get")
        modern_upstream.on("tasks/get", asks("k"))
        while not await lm.app.ledger.asks_of(1):
            lm.clock.advance(1_300)
            assert (await lm.client.request("ping")).result == {}
        modern_upstream.on("tasks/get", seen_as("task-1", "completed", result=text("done")))
        replies = [await lm.ticking(one) for one in waiting]
    questions = [m for reply in replies for m in reply.messages if m.get("method") == "elicitation/create"]
    assert len({message["id"] for message in questions}) == 1


@pytest.mark.rule("DUR-4", "LM-RESULT")
async def test_a_task_that_expired_for_another_is_over_for_who_waits(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create(ttlMs=5_000)
        waiting = asyncio.create_task(lm.client.tasks("result", "task-1"))
        await modern_upstream.wait("tasks/get")
        modern_upstream.on("tasks/get", Error(-32602, "unknown"))
        await lm.app.ledger.expire(1, lm.clock.now_ms())
        reply = await lm.ticking(waiting)
    assert reply.error["message"] == "Failed to retrieve task: Task has expired"


@pytest.mark.rule("LM-LOCAL")
async def test_subscriptions_of_one_moment_are_all_kept(modern_upstream: Scripted, tmp_path: Path) -> None:
    uris = [f"file:///{n}" for n in range(10)]
    async with corner(modern_upstream, tmp_path) as lm:
        await asyncio.gather(
            lm.client.request("logging/setLevel", {"level": "error"}),
            *(lm.client.request("resources/subscribe", {"uri": uri}) for uri in uris),
        )
        row = await lm.app.ledger.session(str(lm.client.session))
    assert row is not None
    settings = json.loads(row.settings)
    assert sorted(settings["resources"]) == uris
    assert settings["logLevel"] == "error"


@pytest.mark.rule("LM-LOCAL")
async def test_a_session_has_a_bound_of_subscriptions(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path, limits={"subscriptions_per_stream": 2}) as lm:
        replies = [
            await lm.client.request("resources/subscribe", {"uri": uri}) for uri in ("a", "b", "a", "c")
        ]
        await lm.client.request("resources/unsubscribe", {"uri": "a"})
        replies.append(await lm.client.request("resources/subscribe", {"uri": "c"}))
    assert [reply.json.get("error", {}).get("code") for reply in replies] == [None, None, None, -32602, None]


@pytest.mark.rule("LM-LOCAL")
@pytest.mark.parametrize("level", ["loud", "x" * 100_000, 5, None])
async def test_only_levels_there_are_can_be_set(
    modern_upstream: Scripted, tmp_path: Path, level: Any
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        reply = await lm.client.request("logging/setLevel", {"level": level})
    assert reply.error["code"] == -32602
    assert len(reply.body) < 1_000


@pytest.mark.rule("OWN-VOUCH", "LM-INIT")
async def test_a_forged_claim_opens_no_session(modern_upstream: Scripted, tmp_path: Path) -> None:
    def judged(seen: Any) -> Any:
        genuine = seen.headers.get("Authorization") == GENUINE["Authorization"]
        return DISCOVER if genuine else Raw("", 401)

    modern_upstream.on("server/discover", judged)
    async with (
        corner(modern_upstream, tmp_path, client={"headers": GENUINE}) as lm,
        LegacyClient(lm.app.url, headers=FORGED) as forger,
    ):
        reply = await forger.initialize()
    assert reply.status == 401
    assert len(lm.events("session.opened")) == 1


@pytest.mark.rule("LM-STREAM")
async def test_a_server_that_is_away_at_first_is_listened_to_later(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        lm.clock.advance(120_000)  # what discover said is too old
        modern_upstream.on("server/discover", Raw("", 503))
        async with lm.client.get():
            await lm.ticking(asyncio.ensure_future(modern_upstream.wait("server/discover", 3)))
            modern_upstream.on("server/discover", DISCOVER)
            seen = await lm.ticking(asyncio.ensure_future(modern_upstream.wait("subscriptions/listen")))
    assert seen.params["notifications"] == {"toolsListChanged": True}


@pytest.mark.rule("LM-STREAM", "OWN-CREDENTIAL")
async def test_listening_goes_on_with_the_callers_newest_credential(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(modern_upstream, tmp_path, client={"headers": FORGED}) as lm:
        stream = modern_upstream.stream("subscriptions/listen")
        async with lm.client.get():
            await stream.opened()
            lm.client.headers = dict(GENUINE)
            await lm.client.tasks("list", "x")
            await stream.close()
            again = await lm.ticking(asyncio.ensure_future(modern_upstream.wait("subscriptions/listen", 2)))
    assert again.headers["Authorization"] == GENUINE["Authorization"]


@pytest.mark.rule("LM-STREAM", "OWN-CREDENTIAL")
async def test_listening_waits_for_a_credential_after_a_refusal(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(modern_upstream, tmp_path, client={"headers": FORGED}) as lm:
        modern_upstream.once("subscriptions/listen", Raw("", 401))
        modern_upstream.on("tools/list", {"tools": []})
        async with lm.client.get():
            await modern_upstream.wait("subscriptions/listen")
            for _ in range(5):
                lm.clock.advance(40_000)
                assert (await lm.client.request("ping")).result == {}
            before = len(modern_upstream.seen("subscriptions/listen"))
            lm.client.headers = dict(GENUINE)
            await lm.client.request("tools/list")
            again = await lm.ticking(asyncio.ensure_future(modern_upstream.wait("subscriptions/listen", 2)))
    assert before == 1
    assert again.headers["Authorization"] == GENUINE["Authorization"]


ODD_ENDS = [
    {"resultType": "task", "taskId": 5, "status": "working"},
    {"resultType": "task", "taskId": "t", "status": "sleeping"},
    {"resultType": "input_required", "inputRequests": []},
    {"resultType": "input_required", "inputRequests": {"k": 5}},
    {"resultType": "input_required", "inputRequests": {"k": {"method": "elicitation/create", "params": 5}}},
]


@pytest.mark.rule("LM-CREATE")
@pytest.mark.parametrize("answer", ODD_ENDS)
async def test_garbage_behind_a_handle_fails_the_task(
    modern_upstream: Scripted, tmp_path: Path, answer: dict[str, Any]
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        stream = Stream()
        task_id = await lm.local(stream)
        await stream.result(answer)
        seen = await lm.until(task_id, "failed")
        ended = await lm.client.tasks("result", task_id)
    assert seen["status"] == "failed"
    assert ended.error["code"] == -32603


@pytest.mark.rule("LM-GET")
@pytest.mark.parametrize("body", [b"", b": hello\n\n", b'{"jsonrpc":'])
async def test_an_answer_that_never_ends_is_given_up(
    modern_upstream: Scripted, tmp_path: Path, body: bytes
) -> None:
    patient, brief = (
        config_for(modern_upstream.url, tmp_path, upstream={"dialect": "sep-2663", "answer_timeout_ms": ms})
        for ms in (60_000, 200)
    )
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        stream = modern_upstream.stream("tasks/get")
        await stream.write(body)
        lm.app.reload(brief)
        reply = await lm.client.tasks("get", "task-1")
        lm.app.reload(patient)
        assert (await lm.get())["status"] == "working"
    assert reply.error["code"] == -32603


@pytest.mark.rule("LM-INPUT")
async def test_a_last_event_id_of_any_length_is_read(modern_upstream: Scripted, tmp_path: Path) -> None:
    modern_upstream.on("tasks/get", asks("k"))
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        async with lm.client.get() as stream:
            first = await asked(lm, stream)
        async with lm.client.get(last_event_id="9" * 5_000 + "-1") as stream:
            second = await asked(lm, stream)
    assert first == second


ODD_INIT = {**DISCOVER["capabilities"], "tasks": {"list": {}}, "extensions": {}}


@pytest.mark.rule("KEYS", "LM-INIT")
async def test_no_tasks_are_offered_that_there_are_not(modern_upstream: Scripted, tmp_path: Path) -> None:
    modern_upstream.on("server/discover", {**DISCOVER, "capabilities": ODD_INIT})
    async with corner(modern_upstream, tmp_path, session=False) as lm:
        reply = await lm.client.initialize()
    assert "tasks" not in reply.result["capabilities"]
    assert "extensions" not in reply.result["capabilities"]


@pytest.mark.rule("KEYS", "ERRORS")
@pytest.mark.parametrize("code", [-32020, -32021, -32022, "x", 1.5, None, {"a": 1}])
@pytest.mark.parametrize("way", ["plain", "create", "result"])
async def test_no_code_of_the_new_era_reaches_an_old_client(
    modern_upstream: Scripted, tmp_path: Path, code: Any, way: str
) -> None:
    error = {"code": code, "message": "m", "data": {"requiredCapabilities": {"extensions": {}}}}

    def refused(seen: Seen) -> Raw:
        return Raw(json.dumps({"jsonrpc": "2.0", "id": seen.id, "error": error}))

    async with corner(modern_upstream, tmp_path) as lm:
        if way == "plain":
            modern_upstream.on("tools/call", refused)
            reply = await lm.client.call("run")
        elif way == "create":
            modern_upstream.on("tools/call", refused)
            reply = await lm.client.call("run", task={})
        else:
            await lm.create()
            modern_upstream.on("tasks/get", seen_as("task-1", "failed", error=error))
            reply = await lm.client.tasks("result", "task-1")
    assert reply.error["code"] == -32603


MODERN_META = {
    "io.modelcontextprotocol/serverInfo": {"name": "x", "version": "1"},
    "io.modelcontextprotocol/subscriptionId": 7,
    "x.example/own": 1,
}


@pytest.mark.rule("KEYS")
async def test_notifications_lose_the_new_eras_keys(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.client.request("logging/setLevel", {"level": "debug"})
        call = modern_upstream.stream("tools/call")
        listen = modern_upstream.stream("subscriptions/listen")
        calling = asyncio.create_task(
            lm.client.request("tools/call", {"name": "run", "_meta": {"progressToken": "t"}})
        )
        token = (await call.opened()).params["_meta"]["progressToken"]
        progress = {"progressToken": token, "progress": 1, "_meta": MODERN_META}
        await call.send({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        said = {"level": "info", "data": "x", "_meta": MODERN_META}
        await call.send({"jsonrpc": "2.0", "method": "notifications/message", "params": said})
        await call.result({**text("ok"), "_meta": MODERN_META})
        reply = await calling
        async with lm.client.get() as get:
            await listen.opened()
            changed = {"_meta": MODERN_META}
            await listen.send(
                {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": changed}
            )
            heard = await get.message()
    metas = [m["params"]["_meta"] for m in [*reply.messages[:-1], heard]] + [reply.result["_meta"]]
    assert metas == [{"x.example/own": 1}] * 4


@pytest.mark.rule("LM-INPUT")
async def test_an_answer_that_the_server_would_not_have_is_asked_for_again(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on("tasks/get", asks("k"))
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        async with lm.client.get() as stream:
            first = await asked(lm, stream)
            modern_upstream.once("tasks/update", Error(-32602, "does not fit the schema", status=400))
            await lm.client.respond(first["id"], accept(ok="no"))
            await modern_upstream.wait("tasks/update")
            second = await asked(lm, stream)
            await lm.client.respond(second["id"], accept(ok=True))
            taken = await modern_upstream.wait("tasks/update", 2)
    assert taken.params["inputResponses"] == {"k": accept(ok=True)}
    assert second["id"] != first["id"], "an id that was answered is not used again"


@pytest.mark.rule("CS-INPUT")
async def test_a_question_of_a_stream_may_be_answered_by_its_id(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on("tasks/get", asks("k"))
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        async with lm.client.get() as stream:
            first = await asked(lm, stream)
            await lm.client.tasks("inputResponse", "task-1", inputResponses={first["id"]: accept(ok=True)})
            taken = await modern_upstream.wait("tasks/update")
    assert taken.params["inputResponses"] == {"k": accept(ok=True)}


@pytest.mark.rule("ERA-PROBE")
async def test_a_task_of_a_server_that_is_not_configured_any_more(
    upstream: Scripted, modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
    other = {"dialect": "experimental", "name": "main"}
    async with corner(upstream, tmp_path, upstream=other) as lm:
        reply = await lm.client.tasks("get", "task-1")
        listed = await lm.client.request("tasks/list")
        await lm.app.tasks.sweeper.once()
    assert reply.error["code"] == -32603
    assert "internal error" not in reply.error["message"]
    assert [one["taskId"] for one in listed.result["tasks"]] == ["task-1"]


@pytest.mark.rule("LM-CREATE")
async def test_creates_of_one_moment_keep_to_the_bound(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path, limits={"open_tasks_per_caller": 3}) as lm:
        modern_upstream.on("tools/call", lambda _: Stream())
        creating = [asyncio.create_task(lm.client.call("run", task={})) for _ in range(10)]
        await modern_upstream.wait("tools/call", 3)
        replies = [await lm.ticking(one) for one in creating]
    assert sorted(reply.status for reply in replies) == [200] * 3 + [429] * 7


@pytest.mark.rule("ERA-DETECT")
@pytest.mark.parametrize("version", ["1999-01-01", "x"])
async def test_a_version_that_is_not_served_is_refused(
    modern_upstream: Scripted, tmp_path: Path, version: str
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        lm.client.version = version
        reply = await lm.client.request("ping")
    assert reply.status == 400


@pytest.mark.rule("LM-PLAIN")
async def test_a_handle_on_its_way_to_a_client_that_left_is_kept(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        call = modern_upstream.stream("tools/call")
        calling = asyncio.create_task(lm.client.call("run"))
        await call.opened()
        calling.cancel()
        while not any(event["outcome"] == "disconnected" for event in lm.events("request")):
            assert (await lm.client.request("ping")).result == {}
        await call.result(made())
        while not (await lm.client.request("tasks/list")).result["tasks"]:
            pass


@pytest.mark.rule("LM-LOCAL")
async def test_of_two_requests_under_one_id_each_can_be_called_off(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        first = asyncio.create_task(lm.client.tasks("result", "task-1", id=7))
        await modern_upstream.wait("tasks/get")
        assert (await lm.client.request("ping", id=7)).result == {}
        await lm.client.notify("notifications/cancelled", {"requestId": 7})
        reply = await first
    assert (reply.status, reply.messages) == (200, [])


@pytest.mark.rule("LM-INIT")
async def test_an_idle_session_makes_way_for_a_new_one(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path, limits={"sessions_per_caller": 2}) as lm:
        second = await lm.seated(ALICE)
        refused = await lm.seated(ALICE, session=False)
        assert (await refused.initialize()).status == 429
        await lm.create()  # its session is not idle
        lm.clock.advance(700_000)
        assert (await refused.initialize()).status == 200
        kept, gone = await lm.client.request("ping"), await second.request("ping")
    assert (kept.status, gone.status) == (200, 404)
    assert [event["reason"] for event in lm.events("session.closed")] == ["idle"]
