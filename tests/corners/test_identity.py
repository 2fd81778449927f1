"""Checked callers over real sockets: refreshes, rotations, outages, and what a refusal looks like."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import LegacyClient, ModernClient, Reply
from tests.corners import lm
from tests.corners.ml import HandClock, accept, corner, elicit
from tests.corners.raw import post, wire
from tests.corners.test_own_store import spellings
from tests.provider import SECRET, Answer, Provider, identity_provider
from tests.scripted import Scripted, scripted, task, text, tool
from tests.shim import config_for

pytestmark = pytest.mark.rule("OWN-ID")

HOUR_MS = 3_600_000
DOWN = Answer(b"", 503)

Known = Callable[[Provider], tuple[dict[str, Any], Callable[[str], dict[str, str]]]]
BY: dict[str, Known] = {
    "jwt": lambda provider: (provider.jwt(), provider.bearer),
    "introspection": lambda provider: (provider.introspection(), provider.opaque),
}
"""An `[identity]`, and what gives out a fresh token for a subject."""


@asynccontextmanager
async def world(by: str, clock: HandClock) -> AsyncIterator[tuple[Provider, dict[str, Any], Any]]:
    async with identity_provider(clock) as provider:
        identity, fresh = BY[by](provider)
        yield provider, identity, fresh


@pytest.mark.rule("OWN-CREDENTIAL")
@pytest.mark.parametrize("by", BY)
async def test_a_modern_client_refreshes_its_token_in_the_middle_of_a_task(
    upstream: Scripted, tmp_path: Path, by: str
) -> None:
    clock = HandClock()
    async with world(by, clock) as (_, identity, fresh):
        first = fresh("alice")
        client = {"headers": first}
        async with corner(upstream, tmp_path, clock=clock, client=client, identity=identity) as ml:
            upstream.on("tasks/get", task(status="input_required"))
            await ml.create()
            await (await upstream.get_stream()).send(elicit(9, "task-1"))
            await ml.until("task-1", "input_required")
            clock.advance(HOUR_MS + 31_000)
            assert (await ml.client.tasks("get", "task-1")).status == 401
            renewed = ml.client.headers = fresh("alice")
            answer = {"inputResponses": {"elicitation-1": accept(ok=True)}}
            assert (await ml.client.tasks("update", "task-1", **answer)).result["resultType"] == "complete"
            assert (await upstream.response_to(9)).headers["Authorization"] == renewed["Authorization"]
            upstream.on("tasks/get", task(status="completed"))
            upstream.on("tasks/result", text("done"))
            done = await ml.until("task-1", "completed")
            assert done["result"]["content"] == text("done")["content"]
            stranger = await ml.client.tasks("get", "task-1", headers=fresh("bob"))
            assert stranger.error["code"] == -32602
        assert upstream.seen("tools/call")[0].headers["Authorization"] == first["Authorization"]
        assert upstream.seen("tasks/result")[-1].headers["Authorization"] == renewed["Authorization"]
    assert {event["caller_kind"] for event in ml.events("task.created")} == {by}


@pytest.mark.rule("OWN-CREDENTIAL", "LL-OWN")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("by", BY)
async def test_a_legacy_client_refreshes_its_token_in_the_middle_of_a_task(
    tmp_path: Path, by: str, era: str
) -> None:
    clock = HandClock()
    dialect = {"legacy": "experimental", "modern": "sep-2663"}[era]
    async with world(by, clock) as (_, identity, fresh), scripted(sessions=era == "legacy") as upstream:
        upstream.on("server/discover", lm.DISCOVER)
        upstream.on("tools/list", lm.TOOLS if era == "modern" else {"tools": []})
        config = config_for(upstream.url, tmp_path, upstream={"dialect": dialect}, identity=identity)
        async with (
            running(config, clock=clock) as app,
            LegacyClient(app.url, headers=fresh("alice")) as client,
        ):
            await client.initialize()
            upstream.on("tools/call", lm.made() if era == "modern" else {"task": task()})
            task_id = (await client.call("run", task={})).result["task"]["taskId"]
            clock.advance(HOUR_MS + 31_000)
            upstream.on("tasks/get", lm.seen_as() if era == "modern" else task())
            assert (await client.tasks("get", task_id)).status == 401
            client.headers = renewed = fresh("alice")
            assert (await client.tasks("get", task_id)).result["status"] == "working"
            assert [one["taskId"] for one in (await client.request("tasks/list")).result["tasks"]] == [
                task_id
            ]
            client.headers = fresh("bob")  # the session is not his, whatever he knows of it
            assert (await client.tasks("get", task_id)).status == 404
        assert upstream.seen("tasks/get")[-1].headers["Authorization"] == renewed["Authorization"]


@pytest.mark.rule("OWN-CREDENTIAL", "DUR-2")
@pytest.mark.parametrize("by", BY)
async def test_after_a_restart_nothing_is_done_without_the_owners_token(
    upstream: Scripted, tmp_path: Path, by: str
) -> None:
    clock = HandClock()
    async with world(by, clock) as (_, identity, fresh):
        sections = {"identity": identity, "sessions": {"spares": 0}, "tasks": {"on_abandon": "cancel"}}
        client = {"headers": fresh("alice")}
        upstream.on("tasks/get", task())
        upstream.on("tasks/cancel", task(status="cancelled"))
        async with corner(upstream, tmp_path, clock=clock, client=client, **sections) as ml:
            await ml.create()
        so_far = len(upstream.requests)
        async with corner(upstream, tmp_path, clock=clock, client=client, **sections) as ml:
            clock.advance(24 * HOUR_MS)
            await ml.app.tasks.sweeper.once()
            assert len(upstream.requests) == so_far
            ml.client.headers = fresh("alice")
            assert (await ml.get())["status"] == "working"
        assert all("Authorization" in seen.headers for seen in upstream.requests)
    assert len(ml.events("task.waiting_credential")) == 1


async def test_keys_turn_and_the_provider_goes_away_while_a_task_runs(
    upstream: Scripted, tmp_path: Path
) -> None:
    clock = HandClock()
    async with world("jwt", clock) as (provider, identity, _):
        client = {"headers": provider.bearer()}
        upstream.on("tasks/get", task())
        async with corner(upstream, tmp_path, clock=clock, client=client, identity=identity) as ml:
            await ml.create()
            provider.rotate("k2")
            clock.advance(10_000)
            assert (await ml.get())["status"] == "working"  # by the old key
            ml.client.headers = provider.bearer(kid="k2")
            assert (await ml.get())["status"] == "working"
            provider.keys_answer = DOWN
            clock.advance(HOUR_MS + 31_000)
            assert (await ml.client.tasks("get", "task-1")).status == 401  # its own time is over
            ml.client.headers = provider.bearer(kid="k2")
            assert (await ml.get())["status"] == "working"
            unknown = await ml.client.tasks("get", "task-1", headers=provider.bearer(kid="k3"))
            assert (unknown.status, unknown.error["code"]) == (503, -32603)
            assert int(unknown.headers["Retry-After"]) > 0
            provider.keys_answer = None
            provider.rotate("k3")
            clock.advance(10_000)
            ml.client.headers = provider.bearer(kid="k3")
            assert (await ml.get())["status"] == "working"
    assert [len(ml.events(f"provider.{what}")) for what in ("down", "up")] == [1, 1]
    assert [event["reason"] for event in ml.events("denied")] == ["token_expired"]


WAYS: dict[str, Callable[[App, dict[str, str]], Any]] = {}


def everything_in(folder: Path) -> list[bytes]:
    """What the files of a folder hold."""
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


def way(name: str) -> Callable[[Any], Any]:
    def add(function: Any) -> Any:
        WAYS[name] = function
        return function

    return add


@way("modern")
async def _modern(app: App, headers: dict[str, str]) -> Reply:
    async with ModernClient(app.url, headers=headers) as client:
        return await client.request("tools/list", id=7)


@way("legacy")
async def _legacy(app: App, headers: dict[str, str]) -> Reply:
    async with LegacyClient(app.url, headers=headers) as client:
        return await client.initialize(id=7)


@way("legacy GET")
async def _get(app: App, headers: dict[str, str]) -> Reply:
    async with LegacyClient(app.url, headers=headers) as client:
        return await client.send(None, http_method="GET", headers={**headers, "Mcp-Session-Id": "s"})


@way("legacy DELETE")
async def _delete(app: App, headers: dict[str, str]) -> Reply:
    async with LegacyClient(app.url, headers=headers) as client:
        client.session = "s"
        return await client.delete(headers=headers)


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize("name", WAYS)
async def test_a_refusal_looks_as_its_client_expects_it(
    upstream: Scripted, tmp_path: Path, name: str
) -> None:
    clock = HandClock()
    metadata = "https://mcp.example/.well-known/oauth-protected-resource"
    async with identity_provider(clock) as provider, AsyncExitStack() as stack:
        identity = {**provider.jwt(), "resource_metadata": metadata}
        config = config_for(upstream.url, tmp_path, identity=identity)
        app = await stack.enter_async_context(running(config, clock=clock))
        so_far = len(upstream.requests)
        missing = await WAYS[name](app, {})
        expired = await WAYS[name](app, provider.bearer(exp=1))
        provider.keys_answer = DOWN
        clock.advance(10_000)
        undecided = await WAYS[name](app, provider.bearer(kid="k2"))
        async with ModernClient(app.url) as client:
            shown = await client.send(
                None, http_method="GET", url=f"{app.admin_url}/metrics", headers={"Accept": None}
            )
        assert len(upstream.requests) == so_far
    request_id = None if name in {"legacy GET", "legacy DELETE"} else 7
    for reply, code in ((missing, -32600), (expired, -32600), (undecided, -32603)):
        assert (reply.json.get("id"), reply.error["code"]) == (request_id, code)
    assert [one.status for one in (missing, expired, undecided)] == [401, 401, 503]
    assert missing.headers.getall("WWW-Authenticate") == [f'Bearer resource_metadata="{metadata}"']
    [challenge] = expired.headers.getall("WWW-Authenticate")
    assert challenge == (
        f'Bearer error="invalid_token", error_description="{expired.error["message"]}", '
        f'resource_metadata="{metadata}"'
    )
    assert expired.error["message"].startswith("the token expired ")
    assert int(undecided.headers["Retry-After"]) > 0
    text_shown = shown.body.decode()
    for reason in ("credential", "token_expired"):
        assert f'taskshim_denied_total{{reason="{reason}"}} 1.0' in text_shown
    assert 'taskshim_identity_requests_total{outcome="failed",source="jwks"} 1.0' in text_shown


@pytest.mark.parametrize("lines", [2, 3])
async def test_a_credential_that_stands_twice_is_refused_over_the_wire(
    upstream: Scripted, provider: Provider, tmp_path: Path, lines: int
) -> None:
    upstream.on("tools/list", {"tools": []})
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}).encode()
    good, forged = provider.token("alice"), provider.token("bob", kid="k9")
    said = [f"Authorization: Bearer {good}", f"authorization: Bearer {forged}", "AUTHORIZATION: Basic YTpi"]
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"}, identity=provider.jwt())
    async with running(config) as app:
        for ordered in (said[:lines], said[:lines][::-1]):
            async with wire(app.url) as raw:
                await raw.send(post(body, *(line.encode() for line in ordered)))
                assert (await raw.answer()).status == 401
        assert upstream.seen("initialize") == []


@pytest.mark.rule("OWN-NONE", "LL-OWN")
async def test_where_nobody_is_served_too_a_session_of_somebody_is_not_theirs(
    upstream: Scripted, provider: Provider, tmp_path: Path
) -> None:
    identity = {**provider.jwt(), "anonymous": True}
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"}, identity=identity)
    async with (
        running(config) as app,
        LegacyClient(app.url, headers=provider.bearer()) as owner,
        LegacyClient(app.url) as nobody,
    ):
        upstream.on("ping", {})
        await owner.initialize()
        nobody.session, nobody.initialized = owner.session, True
        assert (await nobody.request("ping")).status == 404
        assert (await nobody.request("ping", headers=provider.bearer("bob"))).status == 404
        nobody.session, nobody.initialized = None, False
        await nobody.initialize()
        assert (await nobody.request("ping")).status == 200
        owner.session = nobody.session  # nor is nobody's session somebody's
        assert (await owner.request("ping")).status == 404


async def test_a_reload_gives_up_retired_keys_and_keeps_the_others(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tools/list", {"tools": []})
    clock = HandClock()
    async with identity_provider(clock) as provider, AsyncExitStack() as stack:
        sections = {"upstream": {"dialect": "experimental"}, "identity": provider.jwt()}
        config = config_for(upstream.url, tmp_path, **sections)
        app = await stack.enter_async_context(running(config, clock=clock))
        client = await stack.enter_async_context(ModernClient(app.url))

        async def asked(kid: str) -> int:
            return (await client.request("tools/list", headers=provider.bearer(kid=kid))).status

        assert await asked("k1") == 200
        provider.rotate("k2")
        clock.advance(10_000)
        assert [await asked("k2"), await asked("k1")] == [200, 200]
        app.reload(config)
        assert [await asked("k2"), await asked("k1")] == [200, 401]


@pytest.mark.rule("OWN-STORE")
@pytest.mark.parametrize("by", BY)
async def test_no_token_and_no_secret_is_kept_or_logged(
    upstream: Scripted, provider: Provider, tmp_path: Path, capfd: pytest.CaptureFixture[str], by: str
) -> None:
    identity, fresh = BY[by](provider)
    upstream.on("tools/list", {"tools": [tool("run", "optional")]})
    upstream.on("tools/call", {"task": task()})
    upstream.on("tasks/get", task(status="completed"))
    upstream.on("tasks/result", text("done"))
    good, bad = fresh("alice"), {"Authorization": "Bearer s3cret.bad.token-" + "x" * 30}
    config = config_for(
        upstream.url,
        tmp_path,
        upstream={"dialect": "experimental"},
        identity=identity,
        log={"level": "debug"},
    )
    async with running(config) as app, ModernClient(app.url, headers=good) as client:
        made = await client.call("run", headers={"Idempotency-Key": "k"})
        assert (await client.tasks("get", made.result["taskId"])).result["status"] == "completed"
        assert (await client.request("tools/list", headers=bad)).status == 401
        provider.keys_answer = provider.introspection_answer = DOWN
        assert (await client.request("tools/list", headers=fresh("bob"))).status in {200, 503}
        async with LegacyClient(app.url, headers=good) as old:
            await old.initialize()
    said = capfd.readouterr()
    kept = everything_in(tmp_path)
    assert len(kept) >= 3
    for place in (*kept, said.out.encode(), said.err.encode()):
        for token in (good, bad):
            secret = token["Authorization"].removeprefix("Bearer ")
            assert not [one for one in spellings(secret) if one in place]
            assert secret[-20:].encode() not in place
        assert SECRET.encode() not in place
