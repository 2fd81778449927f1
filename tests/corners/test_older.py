"""Legacy versions before 2025-11-25, which know no tasks, on either side (LM-INIT, LL-1, ML-SESSION)."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from tests.client import LEGACY, LegacyClient
from tests.corners import lm, ml
from tests.corners.ml import ALICE
from tests.scripted import Scripted, scripted, text, tool
from tests.shim import config_for

OLDER = ["2025-06-18", "2025-03-26"]
VERSION = "MCP-Protocol-Version"
BATCH = json.dumps(
    [{"jsonrpc": "2.0", "id": 1, "method": "ping"}, {"jsonrpc": "2.0", "id": 2, "method": "x"}]
)


@pytest.fixture
async def modern_upstream() -> AsyncIterator[Scripted]:
    async with scripted(sessions=False) as server:
        yield server


@asynccontextmanager
async def relayed(
    server: Scripted, folder: Path, version: str, **sections: Any
) -> AsyncIterator[LegacyClient]:
    """The corner LL with a client of a version, not yet initialized."""
    sections = {"upstream": {"dialect": "experimental"}, **sections}
    async with (
        running(config_for(server.url, folder, **sections)) as app,
        LegacyClient(app.url, version=version, headers=ALICE) as client,
    ):
        yield client


def older_server(version: str) -> Any:
    """A server of a version without tasks."""
    return scripted(version=version, capabilities={"tools": {}})


# -- as clients -------------------------------------------------------------------------------------


@pytest.mark.rule("LM-INIT", "LM-TOOLS")
@pytest.mark.parametrize("version", OLDER)
async def test_lm_an_older_client_is_offered_no_tasks(
    modern_upstream: Scripted, tmp_path: Path, version: str
) -> None:
    async with lm.corner(modern_upstream, tmp_path, client={"version": version}, session=False) as here:
        init = (await here.client.initialize()).result
        tools = (await here.client.request("tools/list")).result["tools"]
    assert init["protocolVersion"] == version
    assert "tasks" not in init["capabilities"]
    assert [one["name"] for one in tools] == ["run", "other"]
    assert not [one for one in tools if "execution" in one]


@pytest.mark.rule("LM-PLAIN")
@pytest.mark.parametrize("version", OLDER)
async def test_lm_an_older_clients_call_is_answered_though_the_server_makes_a_task(
    modern_upstream: Scripted, tmp_path: Path, version: str
) -> None:
    modern_upstream.on("tools/call", lm.made())
    modern_upstream.on("tasks/get", lm.seen_as(status="completed", result=text("done")))
    async with lm.corner(modern_upstream, tmp_path, client={"version": version}) as here:
        reply = await here.ticking(asyncio.create_task(here.client.call("run")))
    assert reply.result == text("done")


@pytest.mark.rule("LM-INIT")
@pytest.mark.parametrize("version", OLDER)
async def test_lm_the_version_header_may_be_left_out(
    modern_upstream: Scripted, tmp_path: Path, version: str
) -> None:
    modern_upstream.on("tools/call", {"resultType": "complete", **text("done")})
    async with lm.corner(modern_upstream, tmp_path, client={"version": version}) as here:
        reply = await here.client.call("run", headers={VERSION: None})
    assert reply.result == text("done")


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize("version", OLDER)
async def test_lm_batches_stay_refused(modern_upstream: Scripted, tmp_path: Path, version: str) -> None:
    async with lm.corner(modern_upstream, tmp_path, client={"version": version}) as here:
        before = len(modern_upstream.requests)
        reply = await here.client.post(BATCH.encode())
    assert (reply.status, reply.error["code"]) == (400, -32600)
    assert len(modern_upstream.requests) == before


@pytest.mark.rule("LL-1")
@pytest.mark.parametrize("version", OLDER)
@pytest.mark.parametrize("header", [True, False])
async def test_ll_the_server_negotiates(tmp_path: Path, version: str, header: Any) -> None:
    async with older_server(version) as upstream, relayed(upstream, tmp_path, version) as client:
        upstream.on("tools/call", text("done"))
        upstream.on("tools/list", {"tools": [tool("run")]})
        init = (await client.initialize()).result
        left_out = {} if header else {VERSION: None}
        assert (await client.request("tools/list", headers=left_out)).result == {"tools": [tool("run")]}
        assert (await client.call("run", headers=left_out)).result == text("done")
        assert (await client.post(BATCH.encode())).status == 400
    assert init == upstream.init_result
    assert upstream.seen("initialize")[0].params["protocolVersion"] == version
    assert upstream.seen("tools/call")[0].headers.get(VERSION) == (version if header else None)


@pytest.mark.rule("LL-1", "PROMOTE-1")
@pytest.mark.parametrize(("version", "knows"), [(LEGACY, True), *((version, False) for version in OLDER)])
async def test_ll_promoted_tools_are_no_tasks_of_an_older_client(
    tmp_path: Path, version: str, knows: Any
) -> None:
    async with (
        older_server(version) as upstream,
        relayed(upstream, tmp_path, version, tasks={"promote": ["run"]}) as client,
    ):
        upstream.on("tools/list", {"tools": [tool("run")]})
        upstream.on("tools/call", text("done"))
        init = (await client.initialize()).result
        (listed,) = (await client.request("tools/list")).result["tools"]
        assert (await client.call("run")).result == text("done")
    assert ("tasks" in init["capabilities"]) is knows
    assert ("execution" in listed) is knows


@pytest.mark.rule("LL-1")
@pytest.mark.parametrize("version", OLDER)
async def test_ll_a_server_of_another_dialect_offers_an_older_client_no_tasks(
    tmp_path: Path, version: str
) -> None:
    async with (
        older_server(version) as upstream,
        relayed(upstream, tmp_path, version, upstream={"dialect": "create-status"}) as client,
    ):
        upstream.on("tools/list", {"tools": [tool("run")]})
        init = (await client.initialize()).result
        listed = (await client.request("tools/list")).result
    assert "tasks" not in init["capabilities"]
    assert listed == {"tools": [tool("run")]}


# -- as servers -------------------------------------------------------------------------------------


@pytest.mark.rule("ML-SESSION", "ML-DISCOVER", "ML-CREATE")
@pytest.mark.parametrize("version", OLDER)
async def test_ml_an_older_server_is_spoken_to_in_its_version(tmp_path: Path, version: str) -> None:
    async with (
        older_server(version) as upstream,
        ml.corner(upstream, tmp_path, tools={"tools": [tool("run")]}) as here,
    ):
        upstream.on("tools/call", text("done"))
        discovered = (await here.client.request("server/discover")).result
        called = (await here.client.call("run")).result
        batch = await here.client.post(BATCH.encode())
    assert "extensions" not in discovered["capabilities"]
    assert called["resultType"] == "complete"
    assert called["content"] == text("done")["content"]
    assert "task" not in upstream.seen("tools/call")[0].params
    assert (batch.status, batch.error["code"]) == (400, -32600)
    later = [seen for seen in upstream.requests if seen.method != "initialize"]
    assert later
    assert {seen.headers.get(VERSION) for seen in later} == {version}


@pytest.mark.rule("ML-SESSION")
async def test_ml_a_version_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    async with older_server("2024-11-05") as upstream, ml.corner(upstream, tmp_path) as here:
        reply = await here.client.call("run")
    assert reply.error["code"] == -32603
    assert "2024-11-05" in reply.error["message"]
    assert not upstream.seen("tools/call")
