"""What one caller is shown, asked or called is nobody else's, whatever the shim remembers in between."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from shim.config import Config
from tests.client import LegacyClient, ModernClient, Reply
from tests.corners import mm
from tests.corners.ml import ALICE
from tests.corners.raw import wire
from tests.corners.test_ll_tasks import BOB, YES, make, question, session
from tests.scripted import Scripted, Seen, scripted, task, text, tool
from tests.shim import config_for

DIALECTS = ["experimental", "sep-2663"]


def asking(seen: Seen) -> str:
    """Who asks a server, by the credential that came with it."""
    return str(seen.headers.get("Authorization", "nobody")).removeprefix("Bearer ")


def told_apart(upstream: Scripted, *, modern: bool) -> None:
    """Let a server show each caller what no other may see."""

    def discover(seen: Seen) -> Any:
        return {**mm.discovered(), "instructions": f"for {asking(seen)}"}

    def initialize(seen: Seen) -> Any:
        upstream.init_result["instructions"] = f"for {asking(seen)}"
        return upstream.initialize(seen)

    def tools(seen: Seen) -> Any:
        listed = {"tools": [tool(f"of-{asking(seen)}", "optional")]}
        return {**mm.result(), **listed, "ttlMs": 60_000, "cacheScope": "public"} if modern else listed

    if modern:
        upstream.on("server/discover", discover)
    else:
        upstream.on("initialize", initialize)
    upstream.on("tools/list", tools)
    upstream.on("ping", {})


async def modern_view(url: str, headers: dict[str, str]) -> list[Reply]:
    async with ModernClient(url, headers=headers) as client:
        return [await client.request(method) for method in ("server/discover", "tools/list")]


async def legacy_view(url: str, headers: dict[str, str]) -> list[Reply]:
    async with LegacyClient(url, headers=headers) as client:
        return [await client.initialize(), await client.request("tools/list")]


@pytest.mark.rule("OWN-CREDENTIAL", "LM-INIT", "ML-DISCOVER", "MM-1")
@pytest.mark.parametrize("view", [modern_view, legacy_view])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_each_caller_is_shown_what_the_server_shows_it(
    tmp_path: Path, dialect: str, view: Callable[..., Any]
) -> None:
    """Twice in turns: what is remembered of one is never another's."""
    modern = dialect == "sep-2663"
    callers = {"alice": ALICE, "bob": BOB, "nobody": dict[str, str]()}
    async with scripted(sessions=not modern) as upstream:
        told_apart(upstream, modern=modern)
        async with running(config_for(upstream.url, tmp_path, upstream={"dialect": dialect})) as app:
            for _ in range(2):
                for who, headers in callers.items():
                    about, listed = await view(app.url, headers)
                    assert about.result["instructions"] == f"for {who}"
                    assert [one["name"] for one in listed.result["tools"]] == [f"of-{who}"]
                    others = callers.keys() - {who}
                    assert not [one for one in others if f"of-{one}".encode() in listed.body]


@pytest.mark.rule("LL-ROUTE", "OWN-CHECK")
@pytest.mark.parametrize("way", ["on a call", "on its stream"])
async def test_a_question_that_names_anothers_task_is_not_that_tasks(
    upstream: Scripted, tmp_path: Path, way: str
) -> None:
    """Whatever a server says on one caller's session, it concerns that session only."""
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})
    async with running(config) as app, session(app) as alice, session(app, BOB) as bob:
        await make(upstream, bob, "task-of-bob")
        upstream.on("tasks/get", lambda seen: task(seen.params["taskId"]))
        if way == "on a call":
            out = upstream.stream("tools/call")
            opening = alice.stream("tools/call", {"name": "ask"})
        else:
            opening = alice.get()
        async with opening as heard:
            if way == "on a call":
                await out.send(question("task-of-bob"))
            else:
                await (await upstream.get_stream()).send(question("task-of-bob"))
            assert (await heard.message())["id"] == "q-1"  # alice's own matter
            seen = await bob.tasks("get", "task-of-bob")
            assert seen.result["status"] == "working"
            async with ModernClient(app.url, headers=BOB) as modern:
                shown = (await modern.tasks("get", "task-of-bob")).result
                assert (shown["status"], shown.get("inputRequests")) == ("working", None)
            await alice.respond("q-1", YES)
            answered = await upstream.response_to("q-1")
            assert answered.session == alice.session
            if way == "on a call":
                await out.result(text("done"))


SPOOFED = [
    b"X-Forwarded-For: 10.0.0.1", b"X-Real-IP: 10.0.0.1", b"Forwarded: for=10.0.0.1", b"Client-IP: 10.0.0.1",
    b"X-Forwarded-For: 10.0.0.1, 127.0.0.1", b"X-Forwarded-Host: localhost", b"Via: 1.1 proxy",
]  # fmt: skip


@pytest.mark.rule("OWN-ID")
@pytest.mark.parametrize("line", SPOOFED)
async def test_who_a_request_says_it_came_through_is_not_believed(
    upstream: Scripted, tmp_path: Path, line: bytes
) -> None:
    """A name counts from the peer of the connection, if that is listed, and from nobody else."""
    header = {"name": "X-Forwarded-User", "trusted_proxies": ["10.0.0.0/8"]}
    identity = {"sources": ["header"], "header": header}
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"}, identity=identity)
    async with running(config) as app, wire(app.url) as raw:
        body = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
        head = [b"POST /mcp HTTP/1.1", b"Host: localhost", b"Content-Type: application/json",
                b"Content-Length: %d" % len(body), b"X-Forwarded-User: root", line]  # fmt: skip
        await raw.send(b"\r\n".join(head) + b"\r\n\r\n" + body)
        assert (await raw.answer()).status == 401
    events = [json.loads(one) for one in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [one["reason"] for one in events if one["event"] == "denied"] == ["peer"]


@pytest.mark.rule("LM-INIT", "OWN-ID-MAP", "IDS")
async def test_ids_of_the_shims_own_cannot_be_guessed(tmp_path: Path) -> None:
    """A session's is 122 random bits, a task's that is renamed 128; none tells of another."""
    sessions, tasks = set(), set()
    async with scripted(sessions=False) as upstream:
        told_apart(upstream, modern=True)
        async with running(config_for(upstream.url, tmp_path, upstream={"dialect": "sep-2663"})) as app:
            for number in range(8):
                async with LegacyClient(app.url) as old:
                    sessions.add((await old.initialize()).headers["Mcp-Session-Id"])
                upstream.once("tools/call", mm.handle(str(number)))
                async with ModernClient(app.url) as new:
                    tasks.add((await new.call("run")).result["taskId"])
    assert {uuid.UUID(one).version for one in sessions} == {4}
    random = {one.removeprefix("ts-") for one in tasks}
    assert {len(bytes.fromhex(one)) for one in random} == {16}
    assert len(sessions) == len(random) == 8
    for place in range(0, 32, 4):  # no part of them stands still
        assert len({one[place : place + 4] for one in random}) > 1


@pytest.mark.rule("LL-OWN", "LM-INIT")
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_client_does_not_choose_its_sessions_id(tmp_path: Path, dialect: str) -> None:
    """Else it could give somebody an id that it knows."""
    modern = dialect == "sep-2663"
    async with scripted(sessions=not modern) as upstream:
        told_apart(upstream, modern=modern)
        async with (
            running(config_for(upstream.url, tmp_path, upstream={"dialect": dialect})) as app,
            LegacyClient(app.url, headers=ALICE) as client,
        ):
            reply = await client.initialize(headers={"Mcp-Session-Id": "chosen"}, notify=False)
            assert (reply.status, reply.headers.get("Mcp-Session-Id")) == (404, None)
            client.session, client.initialized = "chosen", True
            assert (await client.request("ping")).status == 404


CREDENTIALS: dict[str, tuple[dict[str, str], set[str | None]]] = {
    "pass": ({"credentials": "pass"}, {"Bearer alice", "Bearer bob"}),
    "service": ({"credentials": "service", "service_token": "old-ones"}, {"Bearer old-ones"}),
    "another": ({"credentials": "service", "service_token": "new-ones"}, {"Bearer new-ones"}),
    "none": ({"credentials": "none"}, {None}),
}


@pytest.mark.rule("OWN-CREDENTIAL", "CUTOVER-RULES")
@pytest.mark.parametrize(("old", "new"), [(a, b) for a in CREDENTIALS for b in CREDENTIALS if a != b])
async def test_each_server_of_a_cutover_gets_what_is_meant_for_it(tmp_path: Path, old: str, new: str) -> None:
    """The one that calls move to sees no credential of the other's, and the other way round."""
    async with scripted() as first, scripted() as second:
        second.sessions += [f"of-first-{number}" for number in range(100)]  # their ids never meet
        servers = {"old": (first, old), "new": (second, new)}
        for server, _ in servers.values():
            server.on("tools/list", {"tools": [tool("run", "optional")]})
            server.on("tools/call", lambda seen: {"task": task(f"{uuid.uuid4()}-{asking(seen)}")})
            server.on("tasks/get", lambda seen: task(seen.params["taskId"]))
            server.on("ping", {})
        config = config_for(first.url, tmp_path).model_dump()
        config["upstream"] = [
            {"name": name, "url": server.url, "dialect": "experimental", **CREDENTIALS[mode][0]}
            for name, (server, mode) in servers.items()
        ]
        config["cutover"] |= {"default": "old", "rules": ["new era=modern"]}
        async with running(Config.model_validate(config)) as app:
            for headers in (ALICE, BOB, ALICE):
                async with (
                    ModernClient(app.url, headers=headers) as modern,
                    LegacyClient(app.url, headers=headers) as legacy,
                ):
                    task_id = (await modern.call("run")).result["taskId"]
                    assert (await modern.tasks("get", task_id)).status == 200
                    await legacy.initialize()
                    assert (await legacy.call("run", task={})).status == 200
        for server, mode in servers.values():
            assert server.seen("tools/call")
            assert {one.headers.get("Authorization") for one in server.requests} == CREDENTIALS[mode][1]
