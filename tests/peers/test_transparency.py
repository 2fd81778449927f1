"""The mcp 1.30 client sees through the shim what it sees without it, message for message (LL-1)."""

from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from shim.app import running
from tests.peers.processes import legacy_client, legacy_server
from tests.shim import config_for

pytestmark = pytest.mark.peers

JOBS = (
    "plain_call",
    "poll_then_result",
    "wait_for_result",
    "give_input",
    "decline_input",
    "two_inputs",
    "input_in_a_call",
    "sampling_in_a_call",
    "input_before_the_task",
    "cancel",
    "list_tasks",
    "tool_error",
    "protocol_error",
    "unknown_id",
    "unsuited_tools",
    "reconnect",
    "resume",
    "other_methods",
)
LISTED_BY_THE_SHIM = frozenset({"list_tasks"})
"""LL-LIST names the difference: another order, other pages; the outcome is the same set of tasks."""
UNKNOWN_TO_THE_SHIM = frozenset({"unknown_id"})
"""LL-OWN names the difference: an unknown id is refused in the shim's own words."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def transcripts(
    legacy_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, Any], dict[str, Any]]:
    folder = tmp_path_factory.mktemp("transparency")
    async with legacy_server(legacy_python, log=folder / "server.log") as url:
        direct = await legacy_client(legacy_python, url, log=folder / "direct.log")
        async with running(config_for(url, folder)) as app:
            through = await legacy_client(legacy_python, app.url, log=folder / "through.log")
    return direct, through


def test_every_job_of_the_client_is_compared(transcripts: tuple[dict[str, Any], dict[str, Any]]) -> None:
    direct, through = transcripts
    assert set(direct) == set(through) == set(JOBS)


@pytest.mark.rule("LL-1")
@pytest.mark.parametrize("job", JOBS)
def test_the_old_client_sees_the_same(job: str, transcripts: tuple[dict[str, Any], dict[str, Any]]) -> None:
    direct, through = (one[job] for one in transcripts)
    if job in UNKNOWN_TO_THE_SHIM:
        codes = [[error["code"] for error in one["outcome"]] for one in (direct, through)]
        assert codes == [[-32602] * 3] * 2
        return
    assert through["outcome"] == direct["outcome"]
    if job not in LISTED_BY_THE_SHIM:
        assert through == direct
