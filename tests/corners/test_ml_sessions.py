"""ML-SESSION, ML-STREAMS, ML-DISCOVER, ML-TOOLS: the upstream sessions of modern callers."""

from pathlib import Path
from typing import Any

import pytest

from tests.client import TASKS_EXTENSION
from tests.corners.ml import TOOLS, corner
from tests.scripted import Raw, Scripted, task


@pytest.mark.rule("ML-SESSION")
async def test_a_session_has_the_clients_name_and_kinds(upstream: Scripted, tmp_path: Path) -> None:
    kinds: dict[str, Any] = {"elicitation": {"form": {}}, "sampling": {}}
    async with corner(upstream, tmp_path, client={"capabilities": kinds, "name": "curious"}) as ml:
        await ml.create()
    opened = upstream.seen("initialize")[0].params
    assert opened["clientInfo"]["name"] == "curious"
    assert opened["capabilities"] == kinds
    assert upstream.seen("notifications/initialized")


@pytest.mark.rule("ML-SESSION")
async def test_each_task_has_a_session_and_modern_headers_stay(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        await ml.create("task-1")
        await ml.create("task-2")
    first, second = upstream.seen("tools/call")
    assert first.session != second.session
    assert first.headers["MCP-Protocol-Version"] == "2025-11-25"
    assert not [name for name in first.headers if name.lower() in {"mcp-method", "mcp-name"}]


@pytest.mark.rule("ML-SESSION")
async def test_callers_never_share_a_session_and_the_limit_refuses(
    upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(upstream, tmp_path, sessions={"per_caller": 1, "spares": 0}) as ml:
        await ml.create("task-1")
        assert (await ml.client.call("run")).status == 429
        ml.client.headers = {"Authorization": "Bearer bob"}
        await ml.create("task-2")
    first, second = upstream.seen("tools/call")
    assert first.session != second.session


@pytest.mark.rule("ML-SESSION")
async def test_a_session_is_taken_up_after_a_restart(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tasks/get", task())
    for _ in range(2):
        async with corner(upstream, tmp_path) as ml:
            if not upstream.seen("tools/call"):
                await ml.create()
            assert (await ml.get())["status"] == "working"
    assert {seen.session for seen in upstream.seen("tasks/get")} == {upstream.seen("tools/call")[0].session}


@pytest.mark.rule("ML-STREAMS")
@pytest.mark.parametrize("declared", [True, False])
async def test_the_get_stream_is_open_before_the_first_call(
    upstream: Scripted, tmp_path: Path, *, declared: bool
) -> None:
    client = {} if declared else {"capabilities": {}}
    async with corner(upstream, tmp_path, client=client, sessions={"spares": 0}) as ml:
        await ml.create()
    call = upstream.seen("tools/call")[0]
    before = upstream.requests[: upstream.requests.index(call)]
    assert any(one.http_method == "GET" and one.session == call.session for one in before) is declared


@pytest.mark.rule("ML-STREAMS")
@pytest.mark.parametrize("status", [405, 409])
async def test_a_refused_get_stream_does_not_stop_the_call(
    upstream: Scripted, tmp_path: Path, status: int
) -> None:
    upstream.get_answer = Raw(b"", status)
    async with corner(upstream, tmp_path, sessions={"spares": 0}) as ml:
        await ml.create()
        ml.clock.advance(250)
        if status == 409:
            await upstream.wait("GET", 2)
    assert len(upstream.seen("GET")) == (1 if status == 405 else 2)


@pytest.mark.rule("ML-DISCOVER")
async def test_discover(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        result = (await ml.client.request("server/discover")).result
    assert result["capabilities"] == {"tools": {}, "extensions": {TASKS_EXTENSION: {}}}
    assert (result["ttlMs"], result["cacheScope"]) == (0, "private")


@pytest.mark.rule("ML-TOOLS")
async def test_tools(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        result = (await ml.client.request("tools/list")).result
    assert [one["name"] for one in result["tools"]] == [one["name"] for one in TOOLS["tools"]]
    assert not [one for one in result["tools"] if "execution" in one]
    assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 0, "private")
