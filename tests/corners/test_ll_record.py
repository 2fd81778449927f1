"""LL-RECORD: a create of a legacy client is written down, whatever becomes of the client or its stream."""

from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from tests.client import LegacyClient
from tests.corners.ml import ALICE, TOOLS
from tests.scripted import Raw, Scripted, task, text
from tests.shim import config_for


@pytest.mark.rule("LL-RECORD", "DUR-1")
async def test_a_create_whose_client_leaves_before_the_handle_is_written_down(
    upstream: Scripted, tmp_path: Path
) -> None:
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})
    async with running(config) as app, LegacyClient(app.url, headers=ALICE) as client:
        await client.initialize()
        out = upstream.stream("tools/call")
        async with client.stream("tools/call", {"name": "run", "task": {}}):
            await out.opened()
        await client.request("tools/list")  # another request goes its way meanwhile
        assert out.is_open
        await out.result({"task": task()})
        while not (listed := (await client.request("tasks/list")).result["tasks"]):
            pass
    assert [one["taskId"] for one in listed] == ["task-1"]


@pytest.mark.rule("LL-RECORD", "LL-1")
async def test_a_create_that_is_answered_on_the_resumed_stream_is_written_down(
    upstream: Scripted, tmp_path: Path
) -> None:
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})
    async with running(config) as app, LegacyClient(app.url, headers=ALICE) as client:
        await client.initialize()
        out = upstream.stream("tools/call")
        async with client.stream("tools/call", {"name": "run", "task": {}}, id=7) as stream:
            await out.opened()
            await out.close()  # the server lets go of it before it has an answer
            assert await stream.rest() == []
        async with client.get(last_event_id="e-1") as resumed:
            got = await upstream.get_stream()
            answer = {"jsonrpc": "2.0", "id": 7, "result": {"task": task()}}
            await got.send(answer)
            assert await resumed.message() == answer
            listed = (await client.request("tasks/list")).result["tasks"]
    assert [one["taskId"] for one in listed] == ["task-1"]


@pytest.mark.rule("CS-CREATE", "CS-DETECT", "LL-RECORD")
@pytest.mark.parametrize("dialect", ["experimental", "create-status"])
@pytest.mark.parametrize("with_session", [True, False])
async def test_params_task_is_no_part_of_the_four_state_dialect(
    upstream: Scripted, tmp_path: Path, dialect: str, *, with_session: bool
) -> None:
    upstream.on("tools/list", TOOLS)
    upstream.on("tools/call", text("done"))
    config = config_for(upstream.url, tmp_path, upstream={"dialect": dialect})
    async with (
        running(config) as app,
        LegacyClient(app.url.replace("/mcp", "/create-status"), headers=ALICE) as client,
    ):
        if with_session or dialect == "create-status":
            await client.initialize()
        reply = await client.call("run", task={"ttl": 5}, headers={"MCP-Protocol-Version": "2025-11-25"})
        assert reply.result == text("done")
    [call] = upstream.seen("tools/call")
    assert "task" not in call.params
    assert "tools/call: params.task" in (tmp_path / "audit.jsonl").read_text()


@pytest.mark.rule("LL-RECORD", "CS-DETECT")
async def test_a_task_of_a_client_without_a_session_is_made_in_the_servers_dialect(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/create", {"taskId": "task-1", "status": "pending"})
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "create-status"})
    async with running(config) as app, LegacyClient(app.url, headers=ALICE) as client:
        made = await client.call("run", task={}, headers={"MCP-Protocol-Version": "2025-11-25"})
        assert made.result["task"]["taskId"] == "task-1"
    assert not upstream.seen("tools/call")


@pytest.mark.rule("LL-RECORD")
@pytest.mark.parametrize("body", [b"", b"<h1>no</h1>", b'{"jsonrpc":"2.0"}', b"[]"])
async def test_an_answer_that_is_none_makes_no_task_and_no_500(
    upstream: Scripted, tmp_path: Path, body: bytes
) -> None:
    upstream.on("tools/call", Raw(body))
    config = config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})
    async with running(config) as app, LegacyClient(app.url, headers=ALICE) as client:
        await client.initialize()
        reply: Any = await client.call("run", task={})
        assert reply.status != 500
        assert (await client.request("tasks/list")).result == {"tasks": []}
