"""The genuine fastmcp 4 client and its tasks extension: against its own server, and through the shim (ML)."""

from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from shim.app import running
from shim.wire.envelope import LEGACY_ONLY_KEYS
from tests.peers.keys import keys_of
from tests.peers.processes import fastmcp_client, fastmcp_server, legacy_server
from tests.shim import config_for

pytestmark = pytest.mark.peers

ALICE = {"Authorization": "Bearer alice"}


def form(key: str, kind: str, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {key: {"type": kind}}, **more}


def said(text: str, **fields: Any) -> dict[str, Any]:
    return {"resultType": "complete", "content": [{"type": "text", "text": text}], "isError": False, **fields}


DELETE = ["elicitation/create", "Delete x.txt?", form("confirm", "boolean", required=["confirm"])]
COLOUR = ["elicitation/create", "Your colour?", form("colour", "string")]
NAME = ["elicitation/create", "Your name?", form("name", "string")]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
BROKEN = "the job broke the protocol"

OUTCOMES: dict[str, Any] = {
    "discover": ["2026-07-28", {}],
    "plain_call": ["Hello, Ada!", None],
    "task_in_a_call": ["computed a in 0.3 s", {"seconds": 0.3}],
    "poll_then_result": [
        "working",
        "completed",
        said("computed b in 0.4 s", structuredContent={"seconds": 0.4}),
        ["computed b in 0.4 s", {"seconds": 0.4}],
    ],
    "status_message": ["working", "computing"],
    "immediate_answer": True,
    "give_input": [[DELETE], ["deleted x.txt", None], "completed"],
    "decline_input": [[DELETE], ["kept x.txt (decline)", None], "completed"],
    "two_inputs": [
        [COLOUR, NAME],
        [NAME],
        "completed",
        ['{"colour": {"colour": "my colour"}, "name": {"name": "my name"}}', None],
    ],
    "one_after_the_other": ["colour of some text: some text", None],
    "stray_answers": [[DELETE], ["deleted x.txt", None], "completed"],
    "cancel": ["cancelled", "cancelled", "Task <task> was cancelled"],
    "cancel_while_asked": ["cancelled", "cancelled", None],
    "tool_error": ["completed", said("the job failed", isError=True), None, "the job failed"],
    "protocol_error": ["failed", None, {"code": -32603, "message": BROKEN}, BROKEN],
    "unknown_id": [-32602, -32602, -32602],
    "progress_in_a_call": [0, 50, 100],
    "logs_in_a_call": ["info", "info", "info"],
    "contents": [
        {"type": "text", "text": "Multiple content types test:"},
        {"type": "image", "data": PIXEL, "mime_type": "image/png"},
        {
            "type": "resource",
            "resource": {
                "uri": "test://mixed-content-resource",
                "mime_type": "application/json",
                "text": '{"test": "data", "value": 123}',
            },
        },
    ],
    "complete": ["paris", "park", "party"],
    "payload": [True, True],
    "many": [f"computed {n} in 0.1 s" for n in range(12)],
    "another_client": ["completed", ["computed c in 0.3 s", {"seconds": 0.3}]],
    "other_methods": [
        True,
        True,
        True,
        "Prompt with arguments: arg1='a', arg2='b'",
        "This is the content of the static text resource.",
        -32602,
    ],
    "input_in_a_call": [
        'User response: action=accept, content={"response": "some text", "email": "some text"}',
        None,
    ],
    "input_before_the_task": ["Hello, some text, from a task!", None],
}
"""What every job comes to, whoever serves it."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def direct(fastmcp_python: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What the client saw of the server itself."""
    folder = tmp_path_factory.mktemp("fastmcp")
    async with fastmcp_server(fastmcp_python, log=folder / "server.log") as url:
        return await fastmcp_client(fastmcp_python, url, log=folder / "client.log")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def through(
    fastmcp_python: Path, legacy_python: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Any]:
    """What the client saw of a legacy server behind the shim."""
    folder = tmp_path_factory.mktemp("through")
    async with (
        legacy_server(legacy_python, log=folder / "server.log") as url,
        running(config_for(url, folder)) as app,
    ):
        log = folder / "client.log"
        return await fastmcp_client(fastmcp_python, app.url, *OUTCOMES, headers=ALICE, log=log)


def test_the_client_runs_every_job(direct: dict[str, Any]) -> None:
    assert set(direct) == set(OUTCOMES)


@pytest.mark.parametrize("job", OUTCOMES)
def test_without_the_shim(job: str, direct: dict[str, Any]) -> None:
    assert direct[job]["outcome"] == OUTCOMES[job]


@pytest.mark.rule(
    "ML-CREATE", "ML-GET", "ML-TERMINAL", "ML-INPUT", "ML-UPDATE", "ML-CANCEL", "ML-DISCOVER", "ML-MRTR"
)
@pytest.mark.parametrize("job", OUTCOMES)
def test_a_legacy_server_behind_the_shim_is_no_different(job: str, through: dict[str, Any]) -> None:
    assert through[job]["outcome"] == OUTCOMES[job]


@pytest.mark.rule("KEYS")
@pytest.mark.parametrize("job", OUTCOMES)
def test_no_key_of_the_old_era_reaches_the_client(job: str, through: dict[str, Any]) -> None:
    got = [answer for message in through[job]["messages"] for answer in message["got"]]
    assert got
    assert set(keys_of(got)) & LEGACY_ONLY_KEYS == set()


async def test_a_task_expires_without_the_shim(fastmcp_python: Path, tmp_path: Path) -> None:
    async with fastmcp_server(fastmcp_python, "--ttl-ms=1", log=tmp_path / "server.log") as url:
        seen = await fastmcp_client(fastmcp_python, url, "expiry", log=tmp_path / "client.log")
    assert seen["expiry"]["outcome"] == -32602


@pytest.mark.rule("DUR-4")
async def test_a_task_expires_behind_the_shim(
    fastmcp_python: Path, legacy_python: Path, tmp_path: Path
) -> None:
    tasks = {"default_ttl_ms": 300, "sweep_ms": 50}
    async with (
        legacy_server(legacy_python, log=tmp_path / "server.log") as url,
        running(config_for(url, tmp_path, tasks=tasks)) as app,
    ):
        seen = await fastmcp_client(
            fastmcp_python, app.url, "expiry", headers=ALICE, log=tmp_path / "client.log"
        )
    (last,) = seen["expiry"]["messages"][-1]["got"]
    assert seen["expiry"]["outcome"] == -32602
    assert last["error"]["message"] == "Failed to retrieve task: Task has expired"
