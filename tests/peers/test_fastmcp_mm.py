"""The genuine fastmcp 4 client sees of its own server the same life through the shim as without it (MM)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from shim.app import running
from tests.peers.processes import fastmcp_client, fastmcp_server
from tests.peers.test_fastmcp import ALICE, OUTCOMES
from tests.shim import config_for

pytestmark = [pytest.mark.peers, pytest.mark.rule("MM-1")]

JOBS: dict[str, Any] = OUTCOMES
_MADE_ANEW = frozenset({"inputRequests"})
"""Objects whose keys are other ones for each task."""

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
def test_every_method_is_answered_with_the_same_status(job: str, seen: Seen) -> None:
    direct, through = (
        {
            (one["sent"]["method"], one["status"])
            for one in transcript[job]["messages"]
            if one["sent"] != "GET"
        }
        for transcript in seen
    )
    assert through == direct


@pytest.mark.rule("DUR-4")
async def test_a_task_expires_behind_the_shim(fastmcp_python: Path, tmp_path: Path) -> None:
    async with (
        fastmcp_server(fastmcp_python, "--ttl-ms=1", log=tmp_path / "server.log") as url,
        running(config_for(url, tmp_path, tasks={"sweep_ms": 50})) as app,
    ):
        told = await fastmcp_client(
            fastmcp_python, app.url, "expiry", headers=ALICE, log=tmp_path / "client.log"
        )
    assert told["expiry"]["outcome"] == -32602


def paths_of_answers(messages: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    """Every place where an answer has a key, by the method that was asked."""
    return {
        (asked["sent"]["method"], *path)
        for asked in messages
        for answer in asked["got"]
        for path in paths_of(answer)
    }


def paths_of(value: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (key,)
            shown = list(inner.values()) if key in _MADE_ANEW else inner
            yield from ((key, *path) for path in paths_of(shown))
    elif isinstance(value, list):
        for inner in value:
            yield from paths_of(inner)
