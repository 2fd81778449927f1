"""What one caller was given opens nothing to another: cursors, idempotency keys, ids of questions."""

from pathlib import Path
from typing import Any

import pytest

from tests.client import LegacyClient, Reply
from tests.corners.ml import ALICE, about, accept, elicit
from tests.corners.test_strangers import BOB, House, house, seen_by_client
from tests.scripted import Scripted, task, text

PAGE = 2
TASKS = 5
OWNERS: dict[str, tuple[dict[str, str], dict[str, str]]] = {"token": (ALICE, BOB), "session": ({}, {})}


def tampered(cursor: str) -> dict[str, Any]:
    """A cursor, altered in every way that still looks like one, and what is none at all."""
    flipped = "A" if cursor[-1] != "A" else "B"
    return {
        "last letter": cursor[:-1] + flipped,
        "first letter": ("A" if cursor[0] != "A" else "B") + cursor[1:],
        "shorter": cursor[:-1],
        "longer": cursor + "A",
        "padded": cursor + "=",
        "blank around": f" {cursor} ",
        "a number as text": "3",
        "empty": "",
        "not ASCII": "\u00e9" * 20,
        "surrogate": "\ud800",
        "number": 3,
        "list": [cursor],
        "object": {},
        "boolean": True,
        "null": None,
    }


async def with_tasks(at: House, upstream: Scripted, headers: dict[str, str], path: str) -> LegacyClient:
    """A client with more tasks than one page."""
    client = await at.seated(headers, path)
    for n in range(TASKS):
        upstream.once("tools/call", {"task": task(f"task-{n}")})
        upstream.once("tasks/create", {**task(f"task-{n}"), "status": "pending"})
        if path == "/create-status":
            assert "result" in (await client.request("tasks/create", {"name": "run"})).json
        else:
            assert "result" in (await client.call("run", task={})).json
    return client


async def listed(client: LegacyClient, cursor: Any) -> Reply:
    return await client.request("tasks/list", {"cursor": cursor}, id=7)


@pytest.mark.rule("LL-LIST", "OWN-CHECK", "CS-LIST")
@pytest.mark.parametrize("dialect", ["experimental", "create-status"])
@pytest.mark.parametrize("path", ["/mcp", "/create-status"])
@pytest.mark.parametrize("kind", OWNERS)
async def test_a_cursor_is_its_callers(
    upstream: Scripted, tmp_path: Path, dialect: str, path: str, kind: str
) -> None:
    alice, bob = OWNERS[kind]
    upstream.on("tasks/get", lambda seen: task(seen.params["taskId"]))
    upstream.on("tasks/status", lambda seen: {**task(seen.params["taskId"]), "status": "running"})
    async with house(upstream, tmp_path, dialect, legacy={"page_size": PAGE}) as at:
        owner = await with_tasks(at, upstream, alice, path)
        stranger = await at.seated(bob, path)
        first = (await owner.request("tasks/list")).result
        cursor = first["nextCursor"]
        assert len(first["tasks"]) == PAGE
        ids = [one["taskId"] for one in first["tasks"]]
        page = (await listed(owner, cursor)).result
        ids += [one["taskId"] for one in page["tasks"]]
        last = (await listed(owner, page["nextCursor"])).result
        ids += [one["taskId"] for one in last["tasks"]]
        assert "nextCursor" not in last
        assert ids == [f"task-{n}" for n in reversed(range(TASKS))]

        assert (await stranger.request("tasks/list")).result == {"tasks": []}
        foreign = await listed(stranger, cursor)
        assert foreign.error["code"] == -32602
        for name, altered in tampered(cursor).items():
            assert seen_by_client(await listed(stranger, altered)) == seen_by_client(foreign), name
            assert seen_by_client(await listed(owner, altered)) == seen_by_client(foreign), name
        assert len((await listed(owner, cursor)).result["tasks"]) == PAGE


@pytest.mark.rule("LL-LIST", "OWN-CHECK")
async def test_a_cursor_of_another_session_of_the_same_name(upstream: Scripted, tmp_path: Path) -> None:
    """A caller with a name has one list, whichever of its sessions asks, and a cursor goes with the name."""
    upstream.on("tasks/get", lambda seen: task(seen.params["taskId"]))
    async with house(upstream, tmp_path, "experimental", legacy={"page_size": PAGE}) as at:
        owner = await with_tasks(at, upstream, ALICE, "/mcp")
        again = await at.seated(ALICE)
        cursor = (await owner.request("tasks/list")).result["nextCursor"]
        assert seen_by_client(await listed(again, cursor)) == seen_by_client(await listed(owner, cursor))


@pytest.mark.rule("OWN-NONE", "CS-LIST")
async def test_nobody_has_no_list(upstream: Scripted, tmp_path: Path) -> None:
    async with house(upstream, tmp_path, "create-status", legacy={"page_size": PAGE}) as at:
        nobody = await at.legacy({}, "/create-status")
        for _ in range(PAGE + 1):
            await nobody.request("tasks/create", {"name": "run"})
        reply = await nobody.request("tasks/list")
        assert reply.result == {"tasks": []}


@pytest.mark.rule("DUR-3", "OWN-CHECK")
async def test_an_idempotency_key_is_its_callers(upstream: Scripted, tmp_path: Path) -> None:
    async with house(upstream, tmp_path, "experimental") as at:
        upstream.on(
            "tools/call",
            lambda seen: {"task": task(f"task-of-{seen.headers.get('Authorization', 'nobody').split()[-1]}")},
        )
        alice, bob, nobody = await at.modern(ALICE), await at.modern(BOB), await at.modern({})
        key = {"Idempotency-Key": "k-1"}
        first = await alice.call("run", {"secret": 1}, id=7, headers=key)
        again = await alice.call("run", {"secret": 1}, id=7, headers=key)
        assert first.result["taskId"] == again.result["taskId"] == "task-of-alice"
        other = await bob.call("run", {"mine": 2}, id=7, headers=key)
        assert other.result["taskId"] == "task-of-bob"
        minted = {(await nobody.call("run", {"mine": 3}, id=7, headers=key)).result["taskId"] for _ in "ab"}
        assert len(minted) == 2
        assert len(upstream.seen("tools/call")) == 4


@pytest.mark.rule("LL-OWN", "OWN-CHECK", "LL-ROUTE")
@pytest.mark.parametrize("kind", OWNERS)
async def test_a_foreign_answer_to_a_question(upstream: Scripted, tmp_path: Path, kind: str) -> None:
    alice, bob = OWNERS[kind]
    async with house(upstream, tmp_path, "experimental") as at:
        owner, stranger = await at.seated(alice), await at.seated(bob)
        upstream.once("tools/call", {"task": task("task-1")})
        await owner.call("run", task={})
        pending = upstream.stream("tasks/result")
        async with owner.stream("tasks/result", {"taskId": "task-1"}) as stream:
            await pending.send(elicit("q-1", "task-1"))
            assert (await stream.message())["id"] == "q-1"

            known = await stranger.respond("q-1", accept(ok=False))
            unknown = await stranger.respond("q-2", accept(ok=False))
            assert seen_by_client(known) == seen_by_client(unknown)
            assert {one.session for one in upstream.requests if one.is_response} == {stranger.session}

            mine, stranger.session = stranger.session, owner.session
            if kind == "token":  # without a name the session's id is all that tells its caller
                known = await stranger.respond("q-1", accept(ok=False))
                stranger.session = "no-such-session"
                unknown = await stranger.respond("q-1", accept(ok=False))
                assert known.status == 404
                assert seen_by_client(known) == seen_by_client(unknown)
            stranger.session = mine

            assert (await owner.respond("q-1", accept(ok=True))).status == 202
            answered = [one for one in upstream.requests if one.is_response and one.session == owner.session]
            assert [one.message["result"]["content"] for one in answered] == [accept(ok=True)["content"]]
            await pending.result(text("done", **about("task-1")))
            assert (await stream.message())["result"]["content"][0]["text"] == "done"
