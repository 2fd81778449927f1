"""Not yours and not there look the same, whoever asks and however (OWN-CHECK, LL-OWN, OWN-VOUCH)."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import LegacyClient, ModernClient, Reply
from tests.corners import mm
from tests.corners.identities import IDENTITIES, Two, claimed
from tests.provider import Provider
from tests.scripted import Raw, Scripted, Seen, scripted, task, text, tool
from tests.shim import config_for, denials


def and_nobody(_: Provider) -> Two:
    """Somebody, and a stranger without any credential."""
    return Two({}, {"Authorization": "Bearer alice"}, {})


PAIRS = {**IDENTITIES, "none": and_nobody}

Touch = Callable[[App, dict[str, str], str], Awaitable[Reply]]


def modern(verb: str, **options: Any) -> Touch:
    async def touch(app: App, headers: dict[str, str], task_id: str) -> Reply:
        async with ModernClient(app.url, headers=headers) as client:
            return await client.tasks(verb, task_id, id=7, **options)

    return touch


def legacy(verb: str) -> Touch:
    async def touch(app: App, headers: dict[str, str], task_id: str) -> Reply:
        async with LegacyClient(app.url, headers=headers) as client:
            await client.initialize()
            return await client.tasks(verb, task_id, id=7, headers={"Mcp-Session-Id": client.session})

    return touch


TOUCHES: dict[str, Touch] = {
    "modern get": modern("get"),
    "modern update": modern("update", inputResponses={"k": {}}),
    "modern cancel": modern("cancel"),
    "legacy get": legacy("get"),
    "legacy result": legacy("result"),
    "legacy cancel": legacy("cancel"),
}


def seen_by_client(reply: Reply) -> tuple[int, bytes, dict[str, str]]:
    """All of an answer that could tell one case from another; session ids differ by nature."""
    apart = {"x-request-id", "date"}
    return reply.status, reply.body, {k: v for k, v in reply.headers.items() if k.lower() not in apart}


TASK = "9b2d4c9e-3f1b-4a57-8a51-0f2f7a3f6c11"
SERVERS = {"experimental": {"task": task(TASK)}, "sep-2663": mm.handle(TASK)}
"""What a server answers to a call that becomes a task, by the dialect it speaks."""


@pytest.fixture(params=SERVERS)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[tuple[Scripted, str]]:
    """A server of each era, and the dialect it speaks."""
    dialect: str = request.param
    async with scripted(sessions=dialect == "experimental") as upstream:
        upstream.on("server/discover", mm.discovered())
        yield upstream, dialect


async def made_by(
    app: App, upstream: Scripted, headers: dict[str, str], dialect: str = "experimental"
) -> str:
    """A task of the caller with these headers."""
    upstream.on("tools/list", {"tools": [tool("run", "optional")]})
    upstream.once("tools/call", SERVERS[dialect])
    async with ModernClient(app.url, headers=headers) as client:
        return str((await client.call("run")).result["taskId"])


@pytest.mark.rule("OWN-CHECK", "OWN-ID", "OWN-NONE", "LL-OWN", "MM-1")
@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("touch", TOUCHES)
async def test_a_foreign_task_and_no_task_look_the_same(
    server: tuple[Scripted, str], provider: Provider, tmp_path: Path, pair: str, touch: str
) -> None:
    upstream, dialect = server
    two = PAIRS[pair](provider)
    async with running(
        config_for(upstream.url, tmp_path, upstream={"dialect": dialect}, identity=two.identity)
    ) as app:
        task_id = await made_by(app, upstream, two.alice, dialect)
        foreign = await TOUCHES[touch](app, two.bob, task_id)
        unknown = await TOUCHES[touch](app, two.bob, "0c8f9a52-30f6-4a53-9d3f-91b0f4f4c001")
        assert foreign.error["code"] == -32602
        assert seen_by_client(foreign) == seen_by_client(unknown)
        assert [one.method for one in upstream.requests if (one.method or "").startswith("tasks/")] == []
    assert denials(tmp_path) == ["not_owner", "unknown_task"]


WAYS: dict[str, Callable[[LegacyClient], Awaitable[Reply]]] = {
    "POST": lambda client: client.request("ping", id=7),
    "list": lambda client: client.request("tasks/list", id=7),
    "response": lambda client: client.respond("q-1", {"action": "accept"}),
    "notification": lambda client: client.notify("notifications/initialized"),
    "DELETE": lambda client: client.delete(),
    "GET": lambda client: client.send(
        None, http_method="GET", headers=client.headers | client.own_headers(None)
    ),
}


@pytest.mark.rule("OWN-CHECK", "LL-OWN")
@pytest.mark.parametrize("pair", IDENTITIES)
@pytest.mark.parametrize("way", WAYS)
async def test_a_foreign_session_and_no_session_look_the_same(
    upstream: Scripted, provider: Provider, tmp_path: Path, pair: str, way: str
) -> None:
    two = IDENTITIES[pair](provider)
    async with (
        running(
            config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"}, identity=two.identity)
        ) as app,
        LegacyClient(app.url, headers=two.alice) as owner,
        LegacyClient(app.url, headers=two.bob) as stranger,
    ):
        await owner.initialize()
        so_far = len(upstream.requests)
        stranger.session, stranger.initialized = owner.session, True
        foreign = await WAYS[way](stranger)
        stranger.session = "no-such-session"
        unknown = await WAYS[way](stranger)
        assert foreign.status == 404
        assert seen_by_client(foreign) == seen_by_client(unknown)
        assert len(upstream.requests) == so_far
    assert denials(tmp_path) == ["session_foreign", "unknown_session"]


def only(accepted: str, answer: dict[str, Any]) -> Callable[[Seen], Any]:
    """An upstream that takes one credential and no other."""

    def judge(seen: Seen) -> Any:
        if seen.headers.get("Authorization") == accepted:
            return answer
        return Raw(b"", 401, {"WWW-Authenticate": "Bearer"})

    return judge


@pytest.mark.rule("OWN-VOUCH")
@pytest.mark.parametrize("touch", TOUCHES)
@pytest.mark.parametrize("known", [True, False])
async def test_a_forged_token_learns_nothing_from_the_ledger(
    server: tuple[Scripted, str], tmp_path: Path, touch: str, *, known: bool
) -> None:
    upstream, dialect = server
    real, forged = claimed("alice", "real"), claimed("alice", "forged")
    async with running(config_for(upstream.url, tmp_path, upstream={"dialect": dialect})) as app:
        task_id = await made_by(app, upstream, {"Authorization": real}, dialect)
        modern_end = mm.shown(task_id, "completed", result=mm.result("secret"))
        upstream.on("tasks/get", modern_end if dialect == "sep-2663" else task(task_id, "completed"))
        upstream.on("tasks/result", text("secret"))
        async with ModernClient(app.url, headers={"Authorization": real}) as owner:
            assert (await owner.tasks("get", task_id)).result["status"] == "completed"
        upstream.on("ping", only(real, {}))
        upstream.on("server/discover", only(real, mm.discovered()))
        upstream.on("initialize", only(real, upstream.init_result))
        reply = await TOUCHES[touch](app, {"Authorization": forged}, task_id if known else "nothing")
        assert (reply.status, reply.body) == (401, b"")


@pytest.mark.rule("OWN-VOUCH", "LL-LIST")
async def test_a_forged_token_lists_nothing(upstream: Scripted, tmp_path: Path) -> None:
    real, forged = claimed("alice", "real"), claimed("alice", "forged")
    async with (
        running(config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})) as app,
        LegacyClient(app.url, headers={"Authorization": real}) as client,
    ):
        await made_by(app, upstream, {"Authorization": real})
        await client.initialize()
        upstream.on("ping", only(real, {}))
        upstream.on("tasks/get", task(status="working"))
        assert len((await client.request("tasks/list")).result["tasks"]) == 1
        reply = await client.request("tasks/list", headers={"Authorization": forged})
        assert (reply.status, reply.body) == (401, b"")


@pytest.mark.rule("OWN-VOUCH", "OWN-CREDENTIAL")
async def test_where_upstream_sees_no_credential_a_claim_is_not_believed(
    upstream: Scripted, tmp_path: Path
) -> None:
    sections = {"dialect": "experimental", "credentials": "none"}
    async with running(config_for(upstream.url, tmp_path, upstream=sections)) as app:
        task_id = await made_by(app, upstream, {"Authorization": claimed("alice", "real")})
        upstream.on("tasks/get", task(task_id))
        reply = await TOUCHES["modern get"](app, {"Authorization": claimed("alice", "forged")}, task_id)
        assert reply.error["code"] == -32602
