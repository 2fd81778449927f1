"""The shim in front of the real legacy server is stopped or killed while a task is about to ask (DUR-2)."""

import asyncio
import signal
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from tests.client import LegacyClient, ModernClient
from tests.corners.ml import accept
from tests.crash.clients import ANN
from tests.crash.serving import events, free_port, shim

pytestmark = pytest.mark.peers
ENDED = {"completed", "failed", "cancelled"}


async def asked(client: ModernClient, task_id: str, key: str) -> None:
    """Wait until the task shows a question, and answer it."""
    while not (requests := (await client.tasks("get", task_id)).result.get("inputRequests")):
        pass
    [(name, request)] = requests.items()
    assert request["params"]["message"] == f"Your {key}?"
    await client.tasks("update", task_id, inputResponses={name: accept(**{key: key.upper()})})


async def upstream_says(url: str, folder: Path, task_id: str, status: str) -> None:
    """Wait until the server itself says that a task is in a state; no shim need run."""
    with sqlite3.connect(folder / "ledger.db") as ledger:
        [session] = ledger.execute("select session_id from task where task_id = ?", (task_id,)).fetchone()
    async with LegacyClient(url) as client:
        client.session, client.initialized = session, True
        while (await client.tasks("get", task_id)).result["status"] != status:
            pass


@pytest.mark.rule("DUR-2", "ML-INPUT")
@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL], ids=lambda end: end.name)
async def test_a_question_while_no_shim_runs(legacy_url: str, tmp_path: Path, end: signal.Signals) -> None:
    port, go = free_port(), tmp_path / "go"
    options: dict[str, Any] = {"question_wait_ms": 1_000}
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
