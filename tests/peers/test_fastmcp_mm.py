"""The genuine fastmcp 4 client sees of its own server the same life through the shim as without it (MM)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from shim.app import running
from tests.peers.processes import fastmcp_client, fastmcp_server
from tests.peers.test_fastmcp import ALICE, OUTCOMES, OUTSIDE_A_TASK
from tests.shim import config_for

pytestmark = [pytest.mark.peers, pytest.mark.rule("MM-1")]

JOBS: dict[str, Any] = OUTCOMES | OUTSIDE_A_TASK
_ANY_KEY = frozenset({"inputRequests", "inputResponses"})
"""Objects whose keys are made anew for each task."""

Seen = tuple[dict[str, Any], dict[str, Any]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def seen(fastmcp_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    """What the client saw of the server itself, and through the shim."""
    folder = tmp_path_factory.mktemp("mm")
    async with fastmcp_server(fastmcp_python, log=folder / "server.log") as url:
        direct = await fastmcp_client(fastmcp_python, url, headers=ALICE, log=folder / "direct.log")
        async with running(config_for(url, folder)) as app:
            log = folder / "through.log"
            through = await fastmcp_client(fastmcp_python, app.url, headers=ALICE, log=log)
    return direct, through


@pytest.mark.parametrize("job", JOBS)
def test_the_new_client_comes_to_the_same(job: str, seen: Seen) -> None:
    direct, through = seen
    assert through[job]["outcome"] == direct[job]["outcome"] == JOBS[job]


@pytest.mark.rule("KEYS")
@pytest.mark.parametrize("job", JOBS)
def test_no_answer_has_a_key_that_the_server_does_not_write(job: str, seen: Seen) -> None:
    direct, through = (paths_of_answers(one[job]["messages"]) for one in seen)
    assert through <= direct


@pytest.mark.parametrize("job", JOBS)
def test_what_the_client_asks_is_answered_with_the_same_status(job: str, seen: Seen) -> None:
    direct, through = (
        {(asked["sent"]["method"], asked["status"]) for asked in one[job]["messages"] if asked["sent"] != "GET"}
        for one in seen
    )
    # not there is refused in the shim's own words, and with the 200 that goes with any error of a method
    unknown = {("tasks/get", 400), ("tasks/update", 400), ("tasks/cancel", 400)}
    told = {(method, 400 if job == "unknown_id" and method.startswith("tasks/") else status) for method, status in through}
    assert told == direct
    assert job == "unknown_id" or not direct & unknown


@pytest.mark.rule("DUR-4")
async def test_a_task_expires_behind_the_shim(fastmcp_python: Path, tmp_path: Path) -> None:
    async with (
        fastmcp_server(fastmcp_python, "--ttl-ms=1", log=tmp_path / "server.log") as url,
        running(config_for(url, tmp_path, tasks={"sweep_ms": 50})) as app,
    ):
        told = await fastmcp_client(fastmcp_python, app.url, "expiry", headers=ALICE, log=tmp_path / "client.log")
    assert told["expiry"]["outcome"] == -32602


def paths_of_answers(messages: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    """Every place where an answer has a key, by the method that was asked."""
    return {
        (asked["sent"]["method"], *path)
        for asked in messages
        if asked["sent"] != "GET"
        for answer in asked["got"]
        for path in paths_of(answer)
    }


def paths_of(value: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (key,)
            yield from ((key, *path) for path in paths_of(inner))
    elif isinstance(value, list):
        for inner in value:
            yield from paths_of(inner)
