"""The shim in front of the real legacy server is stopped or killed while a task is about to ask (DUR-2)."""

import asyncio
import signal
import sqlite3
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.client import LegacyClient, ModernClient
from tests.corners.ml import accept
from tests.crash.clients import ANN
from tests.crash.serving import events, shim
from tests.peers.processes import legacy_server
from tests.ports import free_port

pytestmark = pytest.mark.peers
ENDED = {"completed", "failed", "cancelled"}


async def asked(client: ModernClient, task_id: str, key: str) -> None:
    """Wait until the task shows a question, and answer it."""
    while not (requests := (await client.tasks("get", task_id)).result.get("inputRequests")):
        pass
    [(name, request)] = requests.items()
    assert request["params"]["message"] == f"Your {key}?"
    await client.tasks("update", task_id, inputResponses={name: accept(**{key: key.upper()})})


def stored(folder: Path, query: str, *values: Any) -> list[Any]:
    """Give the one row that a query finds in the ledger's file."""
    with sqlite3.connect(folder / "ledger.db") as ledger:
        return list(ledger.execute(query, values).fetchone())


async def upstream_says(url: str, folder: Path, task_id: str, status: str) -> None:
    """Wait until the server itself says that a task is in a state; no shim need run."""
    [session] = stored(folder, "select session_id from task where task_id = ?", task_id)
    async with LegacyClient(url) as client:
        client.session, client.initialized = session, True
        while (await client.tasks("get", task_id)).result["status"] != status:
            pass


@pytest.mark.rule("DUR-2", "ML-INPUT")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=lambda end: end.name)
async def test_a_question_while_no_shim_runs(legacy_url: str, tmp_path: Path, end: signal.Signals) -> None:
    port, go = free_port(), tmp_path / "go"
    options: dict[str, Any] = {"question_wait_ms": 1_000 if end is signal.SIGKILL else 600_000}
    async with ModernClient(f"http://127.0.0.1:{port}/mcp", headers=ANN) as client:
        async with shim(legacy_url, tmp_path, port, **options) as process:
            task_id = (await client.call("ask_twice", {"file": str(go)})).result["taskId"]
            await asked(client, task_id, "first")
            await upstream_says(legacy_url, tmp_path, task_id, "working")
            process.send_signal(end)
            await process.wait()
        await asyncio.to_thread(go.touch)
        await upstream_says(legacy_url, tmp_path, task_id, "input_required")
        async with shim(legacy_url, tmp_path, port, **options) as process:
            if end is signal.SIGTERM:
                await asked(client, task_id, "second")
                while (seen := (await client.tasks("get", task_id)).result)["status"] not in ENDED:
                    pass
                assert seen["result"]["content"][0]["text"] == '["FIRST", "SECOND"]'
            else:
                while "lost" not in (await client.tasks("get", task_id)).result.get("statusMessage", ""):
                    pass
            process.terminate()
            await process.wait()
    lost = [event["task_id"] for event in events(tmp_path, "input.lost")]
    assert lost == ([] if end is signal.SIGTERM else [task_id])


@pytest.mark.rule("DUR-2", "LL-ROUTE")
async def test_a_question_to_a_legacy_client_while_no_shim_runs(legacy_python: Path, tmp_path: Path) -> None:
    port, go = free_port(), tmp_path / "go"
    async with (
        legacy_server(legacy_python, "--no-events", log=tmp_path / "server.log") as url,
        LegacyClient(f"http://127.0.0.1:{port}/mcp", headers=ANN) as client,
        AsyncExitStack() as streams,
    ):
        async with shim(url, tmp_path, port) as process:
            await client.initialize()
            created = await client.call("ask_twice", {"file": str(go)}, task={})
            result = ("tasks/result", {"taskId": created.result["task"]["taskId"]})
            stream = await streams.enter_async_context(client.stream(*result))
            await client.respond((await stream.message())["id"], accept(first="FIRST"))
            process.terminate()
            await process.wait()
        await asyncio.to_thread(go.touch)
        async with shim(url, tmp_path, port), client.stream(*result) as stream:
            await client.respond((await stream.message())["id"], accept(second="SECOND"))
            assert (await stream.message())["result"]["content"][0]["text"] == '["FIRST", "SECOND"]'


@pytest.mark.rule("ML-SESSION-LOST")
async def test_the_server_restarts(legacy_python: Path, tmp_path: Path) -> None:
    port, upstream_port = free_port(), free_port()
    server = partial(legacy_server, legacy_python, "--port", str(upstream_port), log=tmp_path / "server.log")
    sessions = "select count(*) from session where side = 'pool'"
    async with AsyncExitStack() as first:
        url = await first.enter_async_context(server())
        async with (
            shim(url, tmp_path, port, lost_confirm_ms=5_000),
            ModernClient(f"http://127.0.0.1:{port}/mcp", headers=ANN) as client,
        ):
            made = [await client.call("slow_compute", {"seconds": 600}) for _ in range(3)]
            ids = [reply.result["taskId"] for reply in made]
            while stored(tmp_path, sessions) != [4]:  # the spare is there as well
                await client.tasks("get", ids[0])
            await first.aclose()
            assert (await client.tasks("get", ids[0])).error["code"] == -32603  # down, not lost
            async with server():
                asking = [client.tasks("get", ids[one % 3]) for one in range(12)]
                listing = [client.request("tools/list") for _ in range(8)]
                replies = await asyncio.gather(*asking, *listing)
                assert {reply.result.get("status") for reply in replies} == {"working", None}
                assert stored(tmp_path, sessions) == [5]
                for task_id in ids:
                    while (seen := (await client.tasks("get", task_id)).result)["status"] == "working":
                        pass
                    assert seen["error"] == {"code": -32603, "message": "upstream lost the task"}
                assert stored(tmp_path, sessions) == [5]
                again = (await client.call("slow_compute", {"seconds": 0})).result["taskId"]
                while (seen := (await client.tasks("get", again)).result)["status"] not in ENDED:
                    pass
                assert seen["status"] == "completed"
