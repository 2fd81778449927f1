"""DUR-3: one call, however often it is sent under one key, by clients of either era."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import LegacyClient, ModernClient, Reply
from tests.corners.ml import ALICE, TOOLS
from tests.planted import arguments
from tests.scripted import Error, Raw, Scripted, scripted, task, text
from tests.shim import config_for

BOB = {"Authorization": "Bearer bob"}
NOW = "2026-01-01T00:00:00Z"
KEY = {"Idempotency-Key": "k-1"}
META = {"io.taskshim/idempotencyKey": "k-1"}


@asynccontextmanager
async def shim(upstream: Scripted, folder: Path, dialect: str = "experimental") -> AsyncIterator[App]:
    upstream.on("tools/list", TOOLS)
    upstream.on("ping", {})
    async with running(config_for(upstream.url, folder, upstream={"dialect": dialect})) as app:
        yield app


@asynccontextmanager
async def session(app: App, headers: dict[str, str] = ALICE, path: str = "") -> AsyncIterator[LegacyClient]:
    async with LegacyClient(app.url.replace("/mcp", path or "/mcp"), headers=headers) as client:
        await client.initialize()
        yield client


CALL = {"name": "run", "arguments": arguments({"n": 1})}


async def plain(client: LegacyClient, meta: Any = None, **options: Any) -> Reply:
    return await client.request("tools/call", {**CALL, **(meta or {})}, **options)


async def as_task(client: LegacyClient, meta: Any = None, **options: Any) -> Reply:
    return await client.request("tools/call", {**CALL, "task": {"ttl": 60_000}, **(meta or {})}, **options)


async def created(client: LegacyClient, meta: Any = None, **options: Any) -> Reply:
    return await client.request("tasks/create", {**CALL, **(meta or {})}, **options)


ANSWERS: dict[str, Any] = {
    "a result": (plain, "experimental", "tools/call", text("hi")),
    "a tool's error": (plain, "experimental", "tools/call", text("no", isError=True)),
    "an error": (plain, "experimental", "tools/call", Error(-32602, "no such tool", {"a": 1})),
    "a task": (as_task, "experimental", "tools/call", {"task": task()}),
    "a task of the other dialect": (created, "experimental", "tools/call", {"task": task()}),
    "a four-state task": (created, "create-status", "tasks/create", {"taskId": "t", "status": "pending"}),
}


@pytest.mark.rule("DUR-3")
@pytest.mark.parametrize("case", ANSWERS)
@pytest.mark.parametrize("streamed", [False, True])
async def test_the_same_call_again_gets_the_same_answer_and_runs_once(
    upstream: Scripted, tmp_path: Path, case: str, *, streamed: bool
) -> None:
    send, dialect, method, answer = ANSWERS[case]
    async with shim(upstream, tmp_path, dialect) as app, session(app) as client:
        if streamed and isinstance(answer, dict):
            out = upstream.stream(method)
            first, _ = await asyncio.gather(send(client, headers=KEY), out.result(answer))
        else:
            upstream.once(method, answer)
            first = await send(client, headers=KEY)
        again = await send(client, headers=KEY)
        by_meta = await send(client, {"_meta": {**META, "progressToken": 7}})
    told = [{k: v for k, v in reply.json.items() if k != "id"} for reply in (first, again, by_meta)]
    assert told[0] == told[1] == told[2]
    assert len(upstream.seen(method)) == 1
    assert [reply.json["id"] for reply in (first, again, by_meta)] == [2, 3, 4]


@pytest.mark.rule("DUR-3", "LL-1")
async def test_the_first_answer_passes_byte_for_byte(upstream: Scripted, tmp_path: Path) -> None:
    body = b'{ "jsonrpc":"2.0","id":5,  "result":{"content":[],"n":9007199254740993, "x":1.10}}'
    upstream.once("tools/call", Raw(body))
    async with shim(upstream, tmp_path) as app, session(app) as client:
        assert (await plain(client, id=5, headers=KEY)).body == body
        again = await plain(client, id=6, headers=KEY)
    assert b'"result":{"content":[],"n":9007199254740993, "x":1.10}}' in again.body


@pytest.mark.rule("DUR-3")
@pytest.mark.parametrize(
    ("arguments", "options"), [({"n": 2}, {}), ({"n": 1}, {"name": "must"})], ids=["arguments", "tool"]
)
async def test_a_key_is_good_for_one_body(
    upstream: Scripted, tmp_path: Path, arguments: dict[str, Any], options: dict[str, str]
) -> None:
    upstream.on("tools/call", text("hi"))
    async with shim(upstream, tmp_path) as app, session(app) as client:
        await plain(client, headers=KEY)
        refused = await client.call(options.get("name", "run"), arguments, headers=KEY)
    assert refused.error["code"] == -32602
    assert len(upstream.seen("tools/call")) == 1


@pytest.mark.rule("DUR-3", "OWN-CHECK")
async def test_another_callers_key_is_another_key(upstream: Scripted, tmp_path: Path) -> None:
    upstream.once("tools/call", text("alice's"), text("bob's"))
    async with shim(upstream, tmp_path) as app, session(app) as alice, session(app, BOB) as bob:
        told = [(await plain(client, headers=KEY)).result for client in (alice, bob, alice, bob)]
    assert told == [text("alice's"), text("bob's")] * 2


@pytest.mark.rule("DUR-3")
async def test_a_second_caller_waits_for_the_first_and_a_client_that_leaves_ends_nothing(
    upstream: Scripted, tmp_path: Path
) -> None:
    async with shim(upstream, tmp_path) as app, session(app) as client:
        out = upstream.stream("tools/call")
        async with client.stream("tools/call", CALL, headers=KEY):
            await out.opened()
        waiting = asyncio.create_task(plain(client, headers=KEY))
        await out.send({"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": 1}})
        await out.result(text("hi"))
        assert (await waiting).result == text("hi")
    assert len(upstream.seen("tools/call")) == 1


@pytest.mark.rule("DUR-3")
async def test_after_a_crash_in_between_the_outcome_is_unknown_and_nothing_is_sent_again(
    upstream: Scripted, tmp_path: Path
) -> None:
    async with shim(upstream, tmp_path) as app, session(app) as client:
        out = upstream.stream("tools/call")
        async with client.stream("tools/call", CALL, headers=KEY):
            await out.opened()
        # the shim goes before the answer comes
    async with shim(upstream, tmp_path) as app, session(app) as client:
        told = [(await plain(client, headers=KEY)).error for _ in range(2)]
    assert {(error["code"], error["message"][:15]) for error in told} == {(-32603, "outcome unknown")}
    assert len(upstream.seen("tools/call")) == 1


@pytest.mark.rule("DUR-3")
@pytest.mark.parametrize("status", [401, 404, 429])
async def test_a_call_that_was_turned_away_leaves_its_key_free(
    upstream: Scripted, tmp_path: Path, status: int
) -> None:
    upstream.once("tools/call", Raw(b'{"error":"no"}', status), text("hi"))
    async with shim(upstream, tmp_path) as app, session(app) as client:
        assert (await plain(client, headers=KEY)).status == status
        assert (await plain(client, headers=KEY)).result == text("hi")


@pytest.mark.rule("DUR-3")
async def test_a_call_that_may_have_run_is_not_sent_again(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tools/call", Raw(b"<h1>oops</h1>", 500, {"Content-Type": "text/html"}))
    async with shim(upstream, tmp_path) as app, session(app) as client:
        assert (await plain(client, headers=KEY)).status == 500
        assert (await plain(client, headers=KEY)).error["message"].startswith("outcome unknown")
    assert len(upstream.seen("tools/call")) == 1


@pytest.mark.rule("OWN-NONE", "DUR-3")
async def test_nobodys_key_is_ignored_and_told(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tools/call", text("hi"))
    async with (
        shim(upstream, tmp_path) as app,
        ModernClient(app.url) as modern,
        LegacyClient(app.url) as legacy,
    ):
        for _ in range(2):
            await modern.call("plain", {"n": 1}, headers=KEY)
            await plain(legacy, headers={**KEY, "MCP-Protocol-Version": "2025-11-25"})
    assert len(upstream.seen("tools/call")) == 4
    told = (tmp_path / "audit.jsonl").read_text()
    assert told.count("cannot be told apart") == 4


@pytest.mark.rule("DUR-3", "KEYS")
async def test_a_key_is_the_same_call_in_every_era_and_dialect(upstream: Scripted, tmp_path: Path) -> None:
    upstream.once("tools/call", {"task": task(ttl=60_000, pollInterval=500)})
    async with (
        shim(upstream, tmp_path) as app,
        session(app) as experimental,
        session(app, path="/create-status") as four_state,
        ModernClient(app.url, headers=ALICE) as modern,
    ):
        first = (await as_task(experimental, headers=KEY)).result
        new = (await modern.call("run", {"n": 1}, headers=KEY)).result
        old = (await created(four_state, headers=KEY)).result
        no_task = await plain(experimental, headers=KEY)
    assert first["task"]["taskId"] == new["taskId"] == old["taskId"]
    assert new["resultType"] == "task"
    assert new["ttlMs"] == 60_000
    assert not {"task", "ttl", "pollInterval"} & new.keys()
    assert old["status"] == "pending"
    assert no_task.error["code"] == -32602
    assert len(upstream.seen("tools/call")) == 1


@pytest.mark.rule("DUR-3", "KEYS")
@pytest.mark.parametrize("modern_first", [True, False])
async def test_a_result_crosses_the_eras_in_its_own_envelope(
    upstream: Scripted, tmp_path: Path, *, modern_first: bool
) -> None:
    upstream.on("tools/call", text("hi"))
    async with (
        shim(upstream, tmp_path) as app,
        session(app) as legacy,
        ModernClient(app.url, headers=ALICE) as modern,
    ):
        if modern_first:
            new = await modern.call("plain", {"n": 1}, headers=KEY)
        old = await legacy.call("plain", {"n": 1}, headers=KEY)
        if not modern_first:
            new = await modern.call("plain", {"n": 1}, headers=KEY)
    assert old.result == text("hi")
    assert new.result["resultType"] == "complete"
    assert new.result["content"] == old.result["content"]
    assert len(upstream.seen("tools/call")) == 1


@pytest.mark.rule("DUR-3", "OWN-VOUCH")
async def test_a_stored_answer_is_not_given_to_a_credential_that_upstream_refuses(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tools/call", text("hi"))
    async with shim(upstream, tmp_path) as app, session(app) as client:
        await plain(client, headers=KEY)
    async with shim(upstream, tmp_path) as app, LegacyClient(app.url, headers=ALICE) as client:
        upstream.on("initialize", Raw(b"no", 401, {"Content-Type": "text/plain"}))
        upstream.on("ping", Raw(b"no", 401, {"Content-Type": "text/plain"}))
        again = await plain(client, headers={**KEY, "MCP-Protocol-Version": "2025-11-25"})
    assert again.status == 401
    assert b"hi" not in again.body


DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
}
MODERN_TASK = {
    "resultType": "task",
    "taskId": "t-1",
    "status": "working",
    "createdAt": NOW,
    "lastUpdatedAt": NOW,
}


@pytest.mark.rule("DUR-3", "KEYS")
@pytest.mark.parametrize("first", ["legacy", "modern"])
@pytest.mark.parametrize(
    "answer", [{"resultType": "complete", **text("hi")}, MODERN_TASK], ids=["result", "task"]
)
async def test_a_keyed_call_to_a_modern_server_runs_once_for_both_eras(
    tmp_path: Path, first: str, answer: dict[str, Any]
) -> None:
    async with scripted(sessions=False) as upstream:
        upstream.on("server/discover", DISCOVERED)
        upstream.on("tools/call", answer)
        async with (
            shim(upstream, tmp_path, "sep-2663") as app,
            session(app) as legacy,
            ModernClient(app.url, headers=ALICE) as modern,
        ):
            is_task = answer is MODERN_TASK
            told: dict[str, Reply] = {}
            for era in (first, "legacy", "modern", first):
                if era == "modern":
                    told[era] = await modern.call("run", {"n": 1}, headers=KEY)
                else:
                    told[era] = await (as_task if is_task else plain)(legacy, headers=KEY)
        assert len(upstream.seen("tools/call")) == 1
    old, new = told["legacy"].result, told["modern"].result
    if is_task:
        assert old["task"]["taskId"] == new["taskId"]
        assert new["resultType"] == "task"
    else:
        assert old == text("hi")
        assert new["content"] == old["content"]
