"""Real servers without any tasks, their slow tools promoted: real clients of both APIs run them as tasks.

A job of a client comes to what it comes to on a server that has tasks.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from shim.app import running
from tests.client import LegacyClient, ModernClient
from tests.crash.serving import events, shim
from tests.peers.processes import fastmcp_client, legacy_client, legacy_server, modern_server
from tests.peers.test_fastmcp import ALICE, BROKEN, NAME, OUTCOMES, said
from tests.ports import free_port
from tests.shim import config_for

pytestmark = pytest.mark.peers

TASKS = {
    "promote": ["slow_*", "*_job", "confirm_delete", "multi_input", "echo", "report"],
    "default_poll_interval_ms": 50,
}
DIALECTS = {"legacy": "experimental", "modern": "sep-2663"}
REPORT = "report for some text"
NEW: dict[str, Any] = {
    **{
        job: OUTCOMES[job]
        for job in (
            "discover", "plain_call", "task_in_a_call", "poll_then_result", "immediate_answer", "give_input",
            "decline_input", "two_inputs", "stray_answers", "cancel", "cancel_while_asked",
            "tool_error", "unknown_id", "payload", "many", "another_client",
        )
    },
    "come_back": [[NAME], REPORT, "completed"],
}  # fmt: skip
NEW_ON_LEGACY = {
    **{job: OUTCOMES[job] for job in ("status_message", "one_after_the_other")},
    "protocol_error": ["completed", said(BROKEN, isError=True), None, BROKEN],
}
"""What the modern server has no tool for, and what the SDK makes of an error in a plain call."""
FAILED = "Error executing tool failing_job: the job failed"
NEW_ON_MODERN = {
    "tool_error": ["completed", said(FAILED, isError=True), None, FAILED],
    "protocol_error": [
        "failed",
        None,
        {"code": -32603, "message": BROKEN, "data": {"why": "asked to"}},
        BROKEN,
    ],
}
"""What the modern server says in its own words."""
OLD: dict[str, Any] = {
    "come_back": ["input_required", REPORT, "completed"],
    "cancelled": ["cancelled", "cancelled", -32602],
    "payload": True,
}


def expected_of_new(era: str) -> dict[str, Any]:
    """What the jobs of the new client come to on a server of an era."""
    return {**NEW, **(NEW_ON_LEGACY if era == "legacy" else NEW_ON_MODERN)}


@asynccontextmanager
async def server(era: str, python: Path, folder: Path) -> AsyncIterator[str]:
    """Run a server without tasks."""
    log = folder / "server.log"
    if era == "legacy":
        async with legacy_server(python, "--no-tasks", log=log) as url:
            yield url
    else:
        async with modern_server(python, log=log) as url:
            yield url


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["legacy", "modern"])
async def told(
    request: pytest.FixtureRequest, fastmcp_python: Path, legacy_python: Path, modern_python: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, dict[str, Any], dict[str, Any]]:  # fmt: skip
    """The era of the server, and what the new and the old client saw of it."""
    era: str = request.param
    folder = tmp_path_factory.mktemp(era)
    python = legacy_python if era == "legacy" else modern_python
    jobs = expected_of_new(era)
    async with (
        server(era, python, folder) as url,
        running(config_for(url, folder, upstream={"dialect": DIALECTS[era]}, tasks=TASKS)) as app,
    ):
        new = await fastmcp_client(fastmcp_python, app.url, *jobs, headers=ALICE, log=folder / "new.log")
        old = await legacy_client(legacy_python, app.url, *OLD, headers=ALICE, log=folder / "old.log")
    return era, new, old


@pytest.mark.rule("PROMOTE-1", "PROMOTE-2", "PROMOTE-3")
def test_a_new_client_runs_them_as_tasks(told: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
    era, new, _ = told
    assert {job: one["outcome"] for job, one in new.items()} == expected_of_new(era)


@pytest.mark.rule("PROMOTE-1", "PROMOTE-2", "PROMOTE-3")
def test_an_old_client_runs_them_as_tasks(told: tuple[str, dict[str, Any], dict[str, Any]]) -> None:
    _, _, old = told
    assert {job: one["outcome"] for job, one in old.items()} == OLD


@pytest.mark.rule("PROMOTE-3")
@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("again", [False, True])
async def test_a_kill_in_the_middle_gives_the_defined_end(
    legacy_python: Path, modern_python: Path, tmp_path: Path, era: str, *, again: bool
) -> None:
    python = legacy_python if era == "legacy" else modern_python
    tasks = {**TASKS, "promote_rerun": again}
    port = free_port()
    url = f"http://127.0.0.1:{port}/mcp"
    async with server(era, python, tmp_path) as upstream, ModernClient(url, headers=ALICE) as client:

        async def until(task_id: str, *statuses: str) -> Any:
            while (seen := (await client.tasks("get", task_id)).result)["status"] not in statuses:
                pass
            return seen

        async with shim(upstream, tmp_path, port, dialect=DIALECTS[era], **tasks) as process:
            task_id = (await client.call("report", {"seconds": 0.1})).result["taskId"]
            await until(task_id, "input_required")
            process.kill()
            await process.wait()
        async with shim(upstream, tmp_path, port, dialect=DIALECTS[era], **tasks):
            seen = await until(task_id, "input_required", "failed")
            if again:
                [key] = seen["inputRequests"]
                answer = {"action": "accept", "content": {"name": "Ada"}}
                await client.tasks("update", task_id, inputResponses={key: answer})
                seen = await until(task_id, "completed", "failed")
            async with LegacyClient(url, headers=ALICE) as old:
                await old.initialize()
                assert (await old.tasks("get", task_id)).result["status"] == seen["status"]
    assert [event["task_id"] for event in events(tmp_path, "task.rerun")] == ([task_id] if again else [])
    if again:
        assert seen["result"]["content"][0]["text"] == "report for Ada"
    else:
        assert seen["error"]["code"] == -32603
        assert seen["error"]["message"].startswith("outcome unknown")
