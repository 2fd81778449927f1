"""OWN-CHECK: each way of touching a task, by each kind of stranger, in each legacy dialect; byte for byte."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import LegacyClient, ModernClient, Reply
from tests.corners.identities import IDENTITIES
from tests.corners.ml import ALICE
from tests.provider import Provider
from tests.scripted import Scripted, task, tool
from tests.shim import config_for, denials

BOB = {"Authorization": "Bearer bob"}
TASK = "9b2d4c9e-3f1b-4a57-8a51-0f2f7a3f6c11"
NONE = "0c8f9a52-30f6-4a53-9d3f-91b0f4f4c001"
FOUR_STATE: dict[str, Any] = {
    "taskId": TASK, "status": "pending", "createdAt": "2026-01-01T00:00:00Z", "ttl": None,
}  # fmt: skip


@dataclass
class House:
    """A running shim, and clients that are closed at its end."""

    app: App
    stack: AsyncExitStack

    async def modern(self, headers: dict[str, str]) -> ModernClient:
        return await self.stack.enter_async_context(ModernClient(self.app.url, headers=headers))

    async def legacy(self, headers: dict[str, str], path: str = "/mcp") -> LegacyClient:
        url = self.app.url.replace("/mcp", path)
        return await self.stack.enter_async_context(LegacyClient(url, headers=headers))

    async def seated(self, headers: dict[str, str], path: str = "/mcp") -> LegacyClient:
        """A legacy client with a session of its own."""
        client = await self.legacy(headers, path)
        await client.initialize()
        return client


@asynccontextmanager
async def house(upstream: Scripted, folder: Path, dialect: str, **sections: Any) -> AsyncIterator[House]:
    upstream.on("tools/list", {"tools": [tool("run", "optional")]})
    upstream.on("tools/call", {"task": task(TASK)})
    upstream.on("tasks/create", FOUR_STATE)
    async with (
        running(config_for(upstream.url, folder, upstream={"dialect": dialect}, **sections)) as app,
        AsyncExitStack() as stack,
    ):
        yield House(app, stack)


Owner = Callable[[House], Awaitable[None]]
Reads = Callable[[str], list[str]]


def modern_owner(headers: dict[str, str]) -> Owner:
    async def make(at: House) -> None:
        reply = await (await at.modern(headers)).call("run")
        assert reply.result["taskId"] == TASK, reply.body

    return make


def legacy_owner(headers: dict[str, str]) -> Owner:
    async def make(at: House) -> None:
        client = await at.seated(headers)
        assert (await client.call("run", task={})).result["task"]["taskId"] == TASK

    return make


def four_state_owner(headers: dict[str, str]) -> Owner:
    async def make(at: House) -> None:
        client = await at.legacy(headers, "/create-status")
        assert (await client.request("tasks/create", {"name": "run"})).result["taskId"] == TASK

    return make


OWNERS: dict[str, Owner] = {
    "modern token": modern_owner(ALICE),
    "modern nobody": modern_owner({}),
    "legacy token": legacy_owner(ALICE),
    "legacy session": legacy_owner({}),
    "four-state token": four_state_owner(ALICE),
    "four-state nobody": four_state_owner({}),
}

Touch = Callable[[str], Awaitable[Reply]]
Stranger = Callable[[House], Awaitable[Touch]]


def modern(verb: str, headers: dict[str, str], **options: Any) -> Stranger:
    async def ready(at: House) -> Touch:
        client = await at.modern(headers)
        return lambda task_id: client.tasks(verb, task_id, id=7, **options)

    return ready


def legacy(
    verb: str, headers: dict[str, str], path: str = "/mcp", *, seated: bool = True, **options: Any
) -> Stranger:
    async def ready(at: House) -> Touch:
        client = await (at.seated if seated else at.legacy)(headers, path)
        return lambda task_id: client.tasks(verb, task_id, id=7, **options)

    return ready


ANSWER: dict[str, Any] = {"inputResponses": {"elicitation-1": {"action": "accept"}}}


def strangers(headers: dict[str, str]) -> dict[str, Stranger]:
    """Each way that someone with these headers can touch a task."""
    ways: dict[str, Stranger] = {
        "modern get": modern("get", headers),
        "modern update": modern("update", headers, **ANSWER),
        "modern cancel": modern("cancel", headers),
    }
    for place, seated in (("seated", True), ("standing", False)):
        for verb in ("get", "result", "cancel"):
            ways[f"legacy {verb} {place}"] = legacy(verb, headers, seated=seated)
        for verb in ("status", "result", "cancel"):
            ways[f"four-state {verb} {place}"] = legacy(verb, headers, "/create-status", seated=seated)
        ways[f"four-state answer {place}"] = legacy(
            "inputResponse", headers, "/create-status", seated=seated, **ANSWER
        )
        ways[f"four-state answer unpinned {place}"] = legacy(
            "inputResponse", headers, seated=seated, **ANSWER
        )
    return ways


TOKEN_WAYS, BARE_WAYS = strangers(BOB), strangers({})


def seen_by_client(reply: Reply) -> tuple[int, bytes, list[tuple[str, str]]]:
    """All of an answer that could tell one case from another."""
    apart = {"x-request-id", "date"}
    return reply.status, reply.body, [(k, v) for k, v in reply.headers.items() if k.lower() not in apart]


async def neither_sees_nor_moves(
    upstream: Scripted, folder: Path, dialect: str, owner: Owner, stranger: Stranger
) -> None:
    async with house(upstream, folder, dialect) as at:
        await owner(at)
        touch = await stranger(at)
        so_far = len(upstream.requests)
        foreign, unknown = await touch(TASK), await touch(NONE)
        assert foreign.error["code"] == -32602
        assert seen_by_client(foreign) == seen_by_client(unknown)
        passed = b"".join(one.body for one in upstream.requests[so_far:])
        assert TASK.encode() not in passed
        assert NONE.encode() not in passed
    assert denials(folder) == ["not_owner", "unknown_task"]


DIALECTS = ["experimental", "create-status"]


@pytest.mark.rule("OWN-CHECK", "LL-OWN", "OWN-NONE")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("owner", OWNERS)
@pytest.mark.parametrize("way", TOKEN_WAYS)
async def test_a_stranger_with_a_token(
    upstream: Scripted, tmp_path: Path, dialect: str, owner: str, way: str
) -> None:
    await neither_sees_nor_moves(upstream, tmp_path, dialect, OWNERS[owner], TOKEN_WAYS[way])


OWNED = [name for name in OWNERS if "nobody" not in name]


@pytest.mark.rule("OWN-CHECK", "LL-OWN", "OWN-NONE")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("owner", OWNED)
@pytest.mark.parametrize("way", BARE_WAYS)
async def test_a_stranger_without_a_credential(
    upstream: Scripted, tmp_path: Path, dialect: str, owner: str, way: str
) -> None:
    await neither_sees_nor_moves(upstream, tmp_path, dialect, OWNERS[owner], BARE_WAYS[way])


@pytest.mark.rule("OWN-NONE", "LL-OWN")
@pytest.mark.parametrize("owner", ["modern nobody", "four-state nobody"])
@pytest.mark.parametrize("way", [way for way in BARE_WAYS if way.endswith(" seated")])
async def test_a_session_does_not_reach_nobodys_task(
    upstream: Scripted, tmp_path: Path, owner: str, way: str
) -> None:
    await neither_sees_nor_moves(upstream, tmp_path, "experimental", OWNERS[owner], BARE_WAYS[way])


OWNERS_WITH: dict[str, Callable[[dict[str, str]], Owner]] = {
    "modern": modern_owner, "legacy": legacy_owner, "four-state": four_state_owner,
}  # fmt: skip


@pytest.mark.rule("OWN-CHECK", "OWN-ID", "LL-OWN")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("owner", OWNERS_WITH)
@pytest.mark.parametrize("source", IDENTITIES)
async def test_a_stranger_by_every_source(
    upstream: Scripted, provider: Provider, tmp_path: Path, reads: Reads,
    source: str, owner: str, dialect: str,
) -> None:  # fmt: skip
    two = IDENTITIES[source](provider)
    ways = strangers(two.bob)
    async with house(upstream, tmp_path, dialect, identity=two.identity) as at:
        await OWNERS_WITH[owner](two.alice)(at)
        for way, ready in ways.items():
            touch = await ready(at)
            so_far, read = len(upstream.requests), [len(reads(one)) for one in (TASK, NONE)]
            foreign, unknown = await touch(TASK), await touch(NONE)
            assert reads(TASK)[read[0] :] == reads(NONE)[read[1] :] != [], way
            assert foreign.error["code"] == -32602, way
            assert seen_by_client(foreign) == seen_by_client(unknown), way
            passed = b"".join(one.body for one in upstream.requests[so_far:])
            assert TASK.encode() not in passed, way
        listed = [
            (await (await at.seated(headers)).request("tasks/list")).result["tasks"]
            for headers in (two.alice, two.bob)
        ]
        assert [[one["taskId"] for one in tasks] for tasks in listed] == [[TASK], []]
    assert denials(tmp_path) == ["not_owner", "unknown_task"] * len(ways)


EVERY = "notifications/tasks"


@pytest.mark.rule("OWN-CHECK", "OWN-NONE", "ML-LISTEN")
@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("owner", "headers"), [*((owner, BOB) for owner in OWNERS), *((owner, {}) for owner in OWNED)]
)
async def test_a_stranger_hears_of_nothing(
    upstream: Scripted, tmp_path: Path, dialect: str, owner: str, headers: dict[str, str]
) -> None:
    async with house(upstream, tmp_path, dialect) as at:
        await OWNERS[owner](at)
        client = await at.modern(headers)
        if headers:
            await client.request("tools/list")  # the credential is known by now; only the ids differ
        so_far = len(upstream.requests)
        foreign, unknown = [
            await client.request("subscriptions/listen", {"notifications": {"taskIds": [one]}}, id=7)
            for one in (TASK, NONE)
        ]
        assert seen_by_client(foreign) == seen_by_client(unknown)
        acknowledged, ended = foreign.messages
        assert acknowledged["params"]["notifications"] == {"taskIds": []}
        assert ended["result"]["resultType"] == "complete"
        assert TASK.encode() not in b"".join(one.body for one in upstream.requests[so_far:])
        async with client.stream("subscriptions/listen", {"notifications": [EVERY]}, id=8) as stream:
            assert TASK not in json.dumps(await stream.message())
            if headers:  # its own it does hear of, the other's not
                for made, by in (("another", await at.modern(ALICE)), ("own", client)):
                    upstream.on("tools/call", {"task": task(made)})
                    upstream.on("tasks/create", {**FOUR_STATE, "taskId": made})
                    assert (await by.call("run")).result["taskId"] == made
                assert (await stream.message())["params"]["taskId"] == "own"
            else:
                assert [one["id"] for one in await stream.rest()] == [8]
    assert denials(tmp_path) == ["not_owner", "unknown_task"]
