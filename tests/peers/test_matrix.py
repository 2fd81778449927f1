"""Every client on every server through the shim: the whole life of a task (issue of the cutover).

`python -m pytest tests/peers/test_matrix.py -s` prints the table. What a pair cannot carry stands in LOSSES.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from shim.app import running
from shim.wire.envelope import LEGACY_ONLY_KEYS, MODERN_ONLY_KEYS
from tests.peers.four_state import four_state_client, four_state_server
from tests.peers.keys import keys_of
from tests.peers.processes import fastmcp_client, fastmcp_server, legacy_client, legacy_server
from tests.peers.recorder import Recorder, recording
from tests.shim import config_for

pytestmark = pytest.mark.peers

ALICE = {"Authorization": "Bearer alice"}
SERVERS = ("mcp 1.30", "fastmcp-tasks", "four-state")
CLIENTS = ("mcp 1.30", "fastmcp 4", "four-state")
DIALECTS = {"mcp 1.30": "experimental", "fastmcp-tasks": "sep-2663", "four-state": "create-status"}
MODERN_SERVER, MODERN_CLIENT = "fastmcp-tasks", "fastmcp 4"
TTL_MS = 600_000
SOON_MS = 1_000
"""How long a task is kept where one is waited for to expire; no other job runs there."""
EXPIRY = "expiry"

Json = dict[str, Any]


def said(text: str, **fields: Any) -> Json:
    return {"content": [{"type": "text", "text": text}], **fields}


ABOUT = {"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "<task 1>"}}}
COMPUTED = said("computed a in 0.4 s", structuredContent={"seconds": 0.4}, isError=False)
BROKEN = "the job broke the protocol"

EXPECTED: dict[str, Json] = {
    "mcp 1.30": {
        "poll_then_result": ["completed", {**COMPUTED, **ABOUT}],
        "wait_for_result": [
            {
                **said("computed b in 0.4 s", structuredContent={"seconds": 0.4}, isError=False),
                **ABOUT,
            },
            "completed",
        ],
        "give_input": [{**said("deleted x.txt", isError=False), **ABOUT}, "completed"],
        "cancelled": ["cancelled", "cancelled", -32602],
        "tool_error": ["failed", {**said("the job failed", isError=True), **ABOUT}],
        "protocol_error": ["failed", {"code": -32603, "message": BROKEN}],
        "immediate_answer": "Hello, Ada!",
        "payload": True,
        "list_tasks": True,
        "unknown_id": [-32602, -32602, -32602],
        "expiry": -32602,
    },
    "fastmcp 4": {
        "poll_then_result": ["computed b in 0.4 s", {"seconds": 0.4}],
        "task_in_a_call": ["computed a in 0.3 s", {"seconds": 0.3}],
        "give_input": ["deleted x.txt", "completed"],
        "cancel": ["cancelled", "cancelled", "Task <task> was cancelled"],
        "tool_error": ["completed", "the job failed"],
        "protocol_error": ["failed", BROKEN],
        "payload": [True, True],
        "plain_call": ["Hello, Ada!", None],
        "unknown_id": [-32602, -32602, -32602],
        "expiry": -32602,
    },
    "four-state": {
        "poll_then_result": ["done", ["computed a in 0.4 s", {"structuredContent": {"seconds": 0.4}}]],
        "wait_for_result": [["computed b in 0.4 s", {"structuredContent": {"seconds": 0.4}}], "done"],
        "give_input": [["deleted x.txt"], "done", 1],
        "cancel": ["error", "error", "cancelled", -32602],
        "tool_error": ["error", ["the job failed", {"isError": True}]],
        "protocol_error": ["error", {"code": -32603, "message": BROKEN}],
        "immediate_answer": ["done", ["Hello, Ada!"]],
        "payload": True,
        "list_tasks": [True, True],
        "unknown_id": [-32602, -32602, -32602],
        "expiry": -32602,
    },
}
LL = ("mcp 1.30", "mcp 1.30")
LOSSES: dict[tuple[str, str, str], Any] = {
    (*LL, "tool_error"): ["completed", {**said("the job failed", isError=True), **ABOUT}],
    (*LL, "protocol_error"): ["failed", None],
}
"""(client, server, job) -> what is seen in place of the expected.

Both are the server's own words, passed as they came (LL-1): it calls a tool's error completed, and gives no
error for a task that failed.
"""


@dataclass
class Cell:
    """What one client saw of one server, and what went over the wires."""

    outcomes: Json
    to_client: list[Any] = field(default_factory=list)
    to_server: list[Any] = field(default_factory=list)

    def add(self, other: "Cell", to_server: list[Any]) -> None:
        """Add what another run showed."""
        self.outcomes |= other.outcomes
        self.to_client += other.to_client
        self.to_server += to_server


@asynccontextmanager
async def serving(name: str, pythons: dict[str, Path], folder: Path, ttl_ms: int) -> AsyncIterator[str]:
    """Run a server; gives its URL."""
    log = folder / f"{name}.log"
    match name:
        case "mcp 1.30":
            async with legacy_server(pythons["legacy"], log=log) as url:
                yield url
        case "fastmcp-tasks":
            async with fastmcp_server(pythons["fastmcp"], "--ttl-ms", str(ttl_ms), log=log) as url:
                yield url
        case _:
            async with four_state_server() as url:
                yield url


async def old(url: str, pythons: dict[str, Path], folder: Path, jobs: list[str]) -> Cell:
    told = await legacy_client(pythons["legacy"], url, *jobs, log=folder / "old.log")
    outcomes = {job: one["outcome"] for job, one in told.items()}
    if faults := outcomes.get("unknown_id"):
        outcomes["unknown_id"] = [fault["code"] for fault in faults]
    return Cell(outcomes, to_client=[_received(one) for one in told.values()])


async def new(url: str, pythons: dict[str, Path], folder: Path, jobs: list[str]) -> Cell:
    told = await fastmcp_client(pythons["fastmcp"], url, *jobs, headers=ALICE, log=folder / "new.log")
    outcomes = {job: _told_anywhere(job, one["outcome"]) for job, one in told.items()}
    return Cell(
        outcomes, to_client=[got for one in told.values() for x in one["messages"] for got in x["got"]]
    )


def _told_anywhere(job: str, outcome: Any) -> Any:
    """Give what a job of the new client comes to on every server."""
    match job:
        case "poll_then_result":
            return outcome[-1]
        case "give_input":
            return [outcome[1][0], outcome[2]]
        case "tool_error" | "protocol_error":
            return [outcome[0], outcome[-1]]
    return outcome


async def four(url: str, _: dict[str, Path], __: Path, jobs: list[str]) -> Cell:
    return Cell(await four_state_client(url, "alice", *jobs))


DRIVERS: dict[str, Callable[[str, dict[str, Path], Path, list[str]], Awaitable[Cell]]] = {
    "mcp 1.30": old, "fastmcp 4": new, "four-state": four,
}  # fmt: skip


def _received(told: Json) -> list[Any]:
    """What the old client received: answers, the server's requests, notifications."""
    seen = [entry.get("answer") for entry in told["exchanges"] if "request" in entry]
    seen += [entry["server_request"] for entry in told["exchanges"] if "server_request" in entry]
    return [*seen, *told["notifications"]]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def matrix(
    legacy_python: Path, fastmcp_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[tuple[str, str], Cell]:
    """Run it all once."""
    pythons = {"legacy": legacy_python, "fastmcp": fastmcp_python}
    cells = {(client, server): Cell({}) for client in CLIENTS for server in SERVERS}
    for server in SERVERS:
        for ttl_ms in (TTL_MS, SOON_MS):
            folder = tmp_path_factory.mktemp("matrix")
            async with AsyncExitStack() as stack:
                url = await stack.enter_async_context(serving(server, pythons, folder, ttl_ms))
                recorder: Recorder = await stack.enter_async_context(recording(url))
                config = config_for(
                    recorder.url, folder,
                    upstream={"dialect": DIALECTS[server]},
                    tasks={"default_ttl_ms": ttl_ms, "sweep_ms": 200, "default_poll_interval_ms": 200},
                    legacy={"dialect": "experimental"},
                )  # fmt: skip
                app = await stack.enter_async_context(running(config))
                for client in CLIENTS:
                    jobs = [job for job in EXPECTED[client] if (job == EXPIRY) is (ttl_ms == SOON_MS)]
                    recorder.sent.clear()
                    cell = await DRIVERS[client](app.url, pythons, folder, jobs)
                    cells[client, server].add(cell, recorder.sent)
    _show(cells)
    return cells


def _show(cells: dict[tuple[str, str], Cell]) -> None:
    """Print the table."""
    print("\n" + "".join(f"{name:>16}" for name in ("", *SERVERS)))  # noqa: T201 - for people
    for client in CLIENTS:
        line = f"{client:>16}"
        for server in SERVERS:
            good = sum(
                cells[client, server].outcomes.get(job) == _expected(client, server, job)
                for job in EXPECTED[client]
            )
            line += f"{good:>12}/{len(EXPECTED[client]):<3}"
        print(line)  # noqa: T201 - for people


def _expected(client: str, server: str, job: str) -> Any:
    return LOSSES.get((client, server, job), EXPECTED[client][job])


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(("client", "job"), [(client, job) for client in CLIENTS for job in EXPECTED[client]])
def test_a_task_lives_its_whole_life(
    client: str, job: str, server: str, matrix: dict[tuple[str, str], Cell]
) -> None:
    assert matrix[client, server].outcomes[job] == _expected(client, server, job)


@pytest.mark.rule("KEYS")
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("client", CLIENTS)
def test_no_key_of_one_era_reaches_the_other(
    client: str, server: str, matrix: dict[tuple[str, str], Cell]
) -> None:
    cell = matrix[client, server]
    foreign = LEGACY_ONLY_KEYS if client == MODERN_CLIENT else MODERN_ONLY_KEYS
    assert not foreign & set(keys_of(cell.to_client))
    to_server = MODERN_ONLY_KEYS if server != MODERN_SERVER else LEGACY_ONLY_KEYS
    assert cell.to_server, json.dumps(cell.outcomes)
    # the four-state dialect answers by key and shows what it asks under that name, as the articles have it
    own = {"inputResponses", "inputRequests"} if DIALECTS[server] == "create-status" else set()
    assert not to_server & set(keys_of(cell.to_server)) - own
