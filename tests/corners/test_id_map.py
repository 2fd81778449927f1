"""OWN-ID-MAP: a task whose id was taken goes by a minted one, and the server's own is seen by no client."""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.client import RELATED_TASK, LegacyClient, OpenStream
from tests.corners.ml import ALICE, about, accept, elicit
from tests.corners.test_strangers import BOB, House, house
from tests.scripted import Scripted, Stream, task, text

UPSTREAM_ID = "task-1"


@dataclass
class Renamed:
    """Bob's task: the server calls it `UPSTREAM_ID`, as it calls Alice's in her session."""

    at: House
    upstream: Scripted
    client: LegacyClient
    task_id: str
    stream: OpenStream
    """Bob's GET stream."""
    feed: Stream
    """The server's end of it."""


@asynccontextmanager
async def renamed(upstream: Scripted, folder: Path, dialect: str = "experimental") -> AsyncIterator[Renamed]:
    async with house(upstream, folder, dialect) as at:
        upstream.on("tools/call", {"task": task(UPSTREAM_ID)})
        alice, bob = await at.seated(ALICE), await at.seated(BOB)
        assert (await alice.call("run", task={})).result["task"]["taskId"] == UPSTREAM_ID
        reply = await bob.call("run", task={})
        task_id = reply.result["task"]["taskId"]
        assert task_id != UPSTREAM_ID
        assert UPSTREAM_ID.encode() not in reply.body
        async with bob.get() as stream:
            yield Renamed(at, upstream, bob, task_id, stream, await upstream.get_stream())


SAID: dict[str, dict[str, Any]] = {
    "status": {"method": "notifications/tasks/status", "params": task(UPSTREAM_ID, "working", **about("x"))},
    "status with related-task": {
        "method": "notifications/tasks/status",
        "params": task(UPSTREAM_ID, "completed", **about(UPSTREAM_ID)),
    },
    "progress": {
        "method": "notifications/progress",
        "params": {"progressToken": 1, "progress": 0.5, **about(UPSTREAM_ID)},
    },
    "log": {"method": "notifications/message", "params": {"level": "info", "data": 1, **about(UPSTREAM_ID)}},
    "question": elicit("q-1", UPSTREAM_ID),
    "another method": {"id": 9, "method": "vendor/ask", "params": about(UPSTREAM_ID)},
}


@pytest.mark.rule("OWN-ID-MAP", "LL-1")
@pytest.mark.parametrize("case", SAID)
async def test_what_the_server_says_names_the_clients_id(
    upstream: Scripted, tmp_path: Path, case: str
) -> None:
    async with renamed(upstream, tmp_path) as bob:
        await bob.feed.send({"jsonrpc": "2.0", **SAID[case]}, event_id="e-1")
        frame = await bob.stream.next()
        assert frame.id == "e-1"
        assert UPSTREAM_ID.encode() not in frame.raw
        params = frame.json["params"]
        named = {params.get("taskId"), params.get("_meta", {}).get(RELATED_TASK, {}).get("taskId")}
        assert named - {None, "x"} == {bob.task_id}
        rest = {key for key in params if key not in {"taskId", "_meta"}}
        assert rest == {key for key in SAID[case]["params"] if key not in {"taskId", "_meta"}}


@pytest.mark.rule("OWN-ID-MAP")
async def test_the_notice_of_a_task_that_has_ended(upstream: Scripted, tmp_path: Path) -> None:
    async with renamed(upstream, tmp_path) as bob:
        upstream.on("tasks/get", task(UPSTREAM_ID, "cancelled"))
        seen = await bob.client.tasks("get", bob.task_id)
        assert (seen.result["taskId"], seen.result["status"]) == (bob.task_id, "cancelled")
        notice = {"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": task(UPSTREAM_ID)}
        await bob.feed.send(notice)
        assert (await bob.stream.message())["params"]["taskId"] == bob.task_id


@pytest.mark.rule("OWN-ID-MAP", "LL-1")
async def test_another_task_of_the_session_passes_byte_for_byte(upstream: Scripted, tmp_path: Path) -> None:
    async with renamed(upstream, tmp_path) as bob:
        raw = b'id: 1\r\ndata: {"jsonrpc":"2.0","method":"notifications/tasks/status","params":'
        raw += b'{ "taskId" : "task-2" } }\r\n\r\n'
        await bob.feed.write(raw)
        assert (await bob.stream.next_raw()).raw == raw


@pytest.mark.rule("OWN-ID-MAP", "LL-ROUTE")
async def test_what_the_client_says_names_the_servers_id(upstream: Scripted, tmp_path: Path) -> None:
    async with renamed(upstream, tmp_path) as bob:
        await bob.feed.send(elicit("q-1", UPSTREAM_ID))
        await bob.stream.next()
        reply = await bob.client.respond("q-1", {**accept(ok=True), **about(bob.task_id)})
        assert reply.status == 202
        answer = await upstream.response_to("q-1")
        assert answer.message["result"] == {**accept(ok=True), **about(UPSTREAM_ID)}
        notice = {"progressToken": 1, "progress": 1, **about(bob.task_id)}
        assert (await bob.client.notify("notifications/progress", notice)).status == 202
        assert (await upstream.wait("notifications/progress")).params == {**notice, **about(UPSTREAM_ID)}
        upstream.on("vendor/ask", {})
        await bob.client.request("vendor/ask", about(bob.task_id))
        assert (await upstream.wait("vendor/ask")).params == about(UPSTREAM_ID)
        error = await bob.client.respond_error("q-unknown", -1)
        assert error.status == 202


@pytest.mark.rule("OWN-ID-MAP", "LL-ROUTE")
async def test_verbs_go_by_the_minted_id(upstream: Scripted, tmp_path: Path) -> None:
    async with renamed(upstream, tmp_path) as bob:
        upstream.on("tasks/get", task(UPSTREAM_ID, "completed"))
        upstream.on("tasks/result", text("done", **about(UPSTREAM_ID)))
        upstream.on("tasks/cancel", task(UPSTREAM_ID, "cancelled"))
        for verb in ("get", "result", "cancel"):
            other = await bob.client.tasks(verb, UPSTREAM_ID)
            assert other.error["code"] == -32602
            mine = await bob.client.tasks(verb, bob.task_id)
            assert UPSTREAM_ID.encode() not in mine.body
        assert {one.params["taskId"] for one in upstream.seen("tasks/get")} == {UPSTREAM_ID}
        assert [one["taskId"] for one in (await bob.client.request("tasks/list")).result["tasks"]] == [
            bob.task_id
        ]
        done = await bob.client.tasks("result", bob.task_id)
        assert done.result == text("done", **about(bob.task_id))


@pytest.mark.rule("OWN-ID-MAP", "OWN-NONE")
@pytest.mark.parametrize("given", ["task-1", "number-1", str(uuid.UUID(int=1)), "a" * 64])
async def test_nobody_gets_an_id_that_cannot_be_guessed(
    upstream: Scripted, tmp_path: Path, given: str
) -> None:
    async with house(upstream, tmp_path, "experimental") as at:
        upstream.on("tools/call", {"task": task(given)})
        upstream.on("tasks/get", task(given))
        client, other = await at.modern({}), await at.legacy({}, "/create-status")
        made = await client.call("run")
        assert made.result["taskId"] != given
        # Mcp-Name carries the id that the client knows
        seen = await client.tasks("get", made.result["taskId"])
        assert seen.result["taskId"] == made.result["taskId"]
        assert given.encode() not in seen.body
        assert (await client.tasks("get", given)).error["code"] == -32602
        wrong = await client.tasks("get", made.result["taskId"], headers={"Mcp-Name": given})
        assert (wrong.status, wrong.error["code"]) == (400, -32020)
        four_state = await other.request("tasks/create", {"name": "run"})
        assert four_state.result["taskId"] not in {given, made.result["taskId"]}


@pytest.mark.rule("OWN-ID-MAP", "OWN-NONE")
async def test_nobody_keeps_an_id_that_cannot_be_guessed(upstream: Scripted, tmp_path: Path) -> None:
    async with house(upstream, tmp_path, "experimental") as at:
        given = "9b2d4c9e-3f1b-4a57-8a51-0f2f7a3f6c11"
        upstream.on("tools/call", {"task": task(given)})
        assert (await (await at.modern({})).call("run")).result["taskId"] == given
