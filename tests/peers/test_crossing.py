"""Real clients of both eras use all that real servers have beside tasks, as docs/crossing.md says.

A row is a feature, a column a client on a server: by itself, or behind the shim. Each cell is what the
client's own callbacks and results said. `python -m pytest tests/peers/test_crossing.py -s` prints the table.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from shim.app import running
from tests.peers.crossing_jobs import CHANGES, JOBS, PAGE, WATCHED
from tests.peers.processes import crossing_client, legacy_server, modern_server
from tests.peers.test_fastmcp import ALICE
from tests.shim import config_for, events

pytestmark = pytest.mark.peers


@dataclass(frozen=True)
class Client:
    """A client, and the era it is told to speak."""

    environment: str
    script: str
    mode: str = "auto"

    @property
    def new(self) -> bool:
        """Whether it speaks the new era where it can."""
        return self.mode == "auto"


@dataclass(frozen=True)
class Way:
    """A server, and how the shim in front of it is told to speak to it; None: there is none."""

    server: str
    dialect: str | None = None


CLIENTS = {
    "mcp 1.30": Client("legacy", "crossing_legacy.py", "legacy"),
    "mcp 2.3": Client("modern", "crossing_modern.py"),
    "mcp 2.3 (old)": Client("modern", "crossing_modern.py", "legacy"),
    "fastmcp 4": Client("fastmcp", "crossing_fastmcp.py"),
    "fastmcp 4 (old)": Client("fastmcp", "crossing_fastmcp.py", "legacy"),
}
WAYS = {
    "mcp 1.30": Way("mcp 1.30"),
    "mcp 2.3": Way("mcp 2.3"),
    "shim, mcp 1.30": Way("mcp 1.30", "auto"),
    "shim, mcp 2.3": Way("mcp 2.3", "sep-2663"),
    "shim (auto), mcp 2.3": Way("mcp 2.3", "auto"),
}


def corner(client: Client, way: Way) -> str:
    """Which corner the two meet in. Without the shim both speak one era; so does mcp 2.3, which has both."""
    new_server = way.server == "mcp 2.3" and (client.new or way.dialect == "sep-2663")
    new_client = client.new and (way.dialect is not None or new_server)
    return ("M" if new_client else "L") + ("M" if new_server else "L")


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": {"type": "text", "text": text}}


def field(**more: Any) -> dict[str, Any]:
    return {"type": "string", **more}


FORM = {
    "mode": "form",
    "message": "Well?",
    "requestedSchema": {
        "type": "object",
        "properties": {"response": field(description="User's response"), "email": field()},
        "required": ["response"],
    },
}
ADA = '{"response": "yes", "email": "ada@example.com"}'
LEVELS = ["debug", "info", "warning", "error"]


def prompts(unknown: int) -> Any:
    """What is seen of the prompts; an unknown one's code."""
    return [["arg1", "arg2"], [user("Prompt with arguments: arg1='a', arg2='b'")], unknown]


def resources(missing: int) -> Any:
    """What is seen of the resources; a missing one's code."""
    text = "This is the content of the static text resource."
    read = {"uri": "test://static-text", "mimeType": "text/plain", "text": text}
    return ["static-text", [read], missing]


def visit(page: str, **more: str) -> Any:
    params = {"mode": "url", "message": "Please sign in", "url": page, **more}
    return ["elicitation/create", params]


EXPECTED: dict[str, Any] = {
    "tools": [True, "Hello, Ada!"],
    "prompts": prompts(-32602),
    "resources": resources(-32002),
    "templates": [True, "application/json", {"id": "17", "templateTest": True, "data": "Data for ID: 17"}],
    "completion": [
        {"values": ["paris", "park", "party"], "total": 3, "hasMore": False},
        {"values": ["paris!"], "total": 1, "hasMore": False},
        ["17", "171"],
    ],
    "form": [[["elicitation/create", FORM]], f"User response: action=accept, content={ADA}"],
    "form_declined": [[["elicitation/create", FORM]], "User response: action=decline, content={}"],
    "url": [[visit(PAGE, elicitationId="<id>")], f"visited {PAGE}: accept"],
    "url_required": [[], -32042, "let in"],
    "sampling": [
        [["sampling/createMessage", {"messages": [user("Well?")], "maxTokens": 100}]],
        "LLM response: Bonjour",
    ],
    "roots": [[["roots/list", {}]], '["file:///project"]'],
    "all_at_once": [
        ["elicitation/create", "roots/list", "sampling/createMessage"],
        {"greeting": "Bonjour", "name": {"name": "Ada"}, "roots": ["file:///project"]},
    ],
    "two_rounds": [
        ["Step 1: What is your name?", "Step 2: What is your favorite color?"],
        "Ada likes blue",
    ],
    "asking_prompt": [1, "Use this context: the sea"],
    "asking_resource": [1, "read by Ada"],
    "progress": [[done, 100, f"Completed step {done} of 100"] for done in (0, 50, 100)],
    "logging": [[level, {"said": level}, "peer"] for level in ("warning", "error")],
    "logging_unasked": LEVELS,
    "cancelling": "cancelled",
    "changes": sorted([method, WATCHED if method.endswith("updated") else None] for method in CHANGES),
}
"""What each job comes to for a legacy client of mcp 1.30."""

DIFFERS: dict[tuple[str, str, str], Any] = {
    # the SDK has no code of its own for it
    ("prompts", "LL", "mcp 2.3"): prompts(0),
    ("prompts", "LM", "mcp 2.3"): prompts(-32603),
    ("prompts", "MM", "mcp 2.3"): prompts(-32603),
    # the SDK answers legacy clients so too; the new era has one code, the shim gives each era its own
    ("resources", "LL", "mcp 2.3"): resources(-32602),
    ("resources", "ML", "mcp 1.30"): resources(-32602),
    ("resources", "MM", "mcp 2.3"): resources(-32602),
    # the new era has no id for it
    ("url", "ML", "mcp 1.30"): [[visit(PAGE)], f"visited {PAGE}: accept"],
    ("url", "MM", "mcp 2.3"): [[visit(PAGE)], f"visited {PAGE}: accept"],
    # in the new era it is a question like others
    ("url_required", "ML", "mcp 1.30"): [[visit("https://example.com/first")], None, "let in"],
    # log messages are for who asks for them; in the old era a server may send them all the same
    ("logging_unasked", "ML", "mcp 1.30"): [],
    ("logging_unasked", "LM", "mcp 2.3"): [],
    ("logging_unasked", "MM", "mcp 2.3"): [],
}
"""(job, corner, server) -> what it comes to instead, in front of the shim as without it."""

OF_FASTMCP = {("logging_unasked", "ML"): LEVELS, ("logging_unasked", "MM"): LEVELS}
"""(job, corner) -> what it comes to with a client that asks for every log message on each request."""

CANNOT = {("url_required", "mcp 2.3"): "its protocol has no -32042: a call asks for a visit as `url` does"}
"""(job, server) -> why there is nothing to see."""

Column = dict[str, dict[str, Any]]


def expected(job: str, client: str, way: str) -> Any:
    """What a cell says."""
    where, server = corner(CLIENTS[client], WAYS[way]), WAYS[way].server
    found = DIFFERS.get((job, where, server), EXPECTED[job])
    return OF_FASTMCP.get((job, where), found) if CLIENTS[client].environment == "fastmcp" else found


@asynccontextmanager
async def reached(way: Way, pythons: dict[str, Path], folder: Path) -> AsyncIterator[str]:
    """Run a server, and the shim in front of it where there is one; gives the URL to call."""
    serve, python = (legacy_server, "legacy") if way.server == "mcp 1.30" else (modern_server, "modern")
    async with serve(pythons[python], log=folder / "server.log") as url:
        if way.dialect is None:
            yield url
            return
        async with running(config_for(url, folder, upstream={"dialect": way.dialect})) as app:
            yield app.url


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=WAYS)
async def seen(
    request: pytest.FixtureRequest, legacy_python: Path, modern_python: Path, fastmcp_python: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[str, dict[str, Column], list[dict[str, Any]]]:  # fmt: skip
    """The way, what every client saw on it, and the shim's requests."""
    name: str = request.param
    pythons = {"legacy": legacy_python, "modern": modern_python, "fastmcp": fastmcp_python}
    folder = tmp_path_factory.mktemp("crossing")

    async def run(number: int, client: Client, url: str) -> Column:
        jobs = [job for job in JOBS if (job, WAYS[name].server) not in CANNOT]
        return await crossing_client(
            pythons[client.environment], client.script, url, *jobs,
            mode=client.mode, turns=folder / "turns", headers=ALICE, log=folder / f"client-{number}.log",
        )  # fmt: skip

    async with reached(WAYS[name], pythons, folder) as url:
        columns = await asyncio.gather(*(run(n, client, url) for n, client in enumerate(CLIENTS.values())))
    found = dict(zip(CLIENTS, columns, strict=True))
    _show(name, found)
    return name, found, events(folder)


def _show(way: str, found: dict[str, Column]) -> None:
    """Print the table of a way."""
    print("\n" + f"{way:>22}" + "".join(f"{name:>18}" for name in found))  # noqa: T201 - for people
    print(f"{'corner':>22}" + "".join(f"{corner(CLIENTS[name], WAYS[way]):>18}" for name in found))  # noqa: T201
    for job in JOBS:
        cells = [
            "" if job not in column else "ok" if column[job] == expected(job, client, way) else "NO"
            for client, column in found.items()
        ]
        print(f"{job:>22}" + "".join(f"{cell:>18}" for cell in cells))  # noqa: T201


Seen = tuple[str, dict[str, Column], list[dict[str, Any]]]


@pytest.mark.rule(
    "ML-MRTR", "ML-LISTEN", "ML-LOGGING", "ML-PROGRESS", "ML-CLOSE", "LM-MRTR", "LM-STREAM", "LM-LOCAL",
    "LL-1", "MM-1", "ERRORS",
)  # fmt: skip
@pytest.mark.parametrize("job", JOBS)
@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_has_what_the_server_offers(client: str, job: str, seen: Seen) -> None:
    way, found, _ = seen
    if (job, WAYS[way].server) in CANNOT:
        assert job not in found[client]
    else:
        assert found[client][job] == expected(job, client, way)


@pytest.mark.rule("ERA-DETECT", "ERA-PROBE")
def test_they_met_in_the_corners_that_the_table_names(seen: Seen) -> None:
    way, _, events = seen
    corners = {event["corner"] for event in events if event.get("corner")}
    by_table = {corner(client, WAYS[way]) for client in CLIENTS.values()}
    assert corners == (by_table if WAYS[way].dialect else set())
