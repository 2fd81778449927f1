"""docs/crossing.md says what is so: each method goes through each corner, each loss stands there."""

import re
from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from shim.hub.losses import INWARDS, OUTWARDS
from shim.hub.registry import load_dialects
from tests.client import LegacyClient, ModernClient
from tests.corners import lm, ml, mm
from tests.scripted import Scripted, scripted, task, tool
from tests.shim import config_for

PAGE = (Path(__file__).parents[2] / "docs" / "crossing.md").read_text()
ROW = re.compile(r"^\| `(?P<method>[a-zA-Z/]+)` \| (?P<cells>.*?) \|[^|]*\|$", re.MULTILINE)
CORNERS = ("ML", "LL", "LM", "MM")
TABLE = {
    row["method"]: dict(zip(CORNERS, row["cells"].split(" | "), strict=True)) for row in ROW.finditer(PAGE)
}
PARAMS: dict[str, Any] = {"name": "run", "arguments": {}, "uri": "file:///a", "level": "info"}
TASK = "3f0f7f3e-5f6c-4a52-9d56-2a5d3f7f0c11"
NOT_FOUND = -32601


def answers(upstream: Scripted, *, modern: bool) -> None:
    """Let the server answer all there is, with what the shim can read."""
    result: dict[str, Any] = {"resultType": "complete"} if modern else {}
    shown = lm.seen_as(TASK) if modern else task(TASK)
    made = lm.made(TASK) if modern else {"task": task(TASK)}
    special: dict[str, Any] = {
        "tools/list": {**result, "tools": [tool("run", None if modern else "optional")]},
        "tools/call": made,
        "tasks/get": shown,
        "tasks/cancel": result if modern else task(TASK, "cancelled"),
        "tasks/result": {"content": []},
        "tasks/list": {"tasks": []},
        "server/discover": mm.discovered(),
    }
    for method in TABLE:
        if method != "initialize" or modern:
            upstream.on(method, special.get(method, result))


async def crossed(upstream: Scripted, client: ModernClient | LegacyClient, method: str) -> str:
    """Send a method on a task of the client's own, and tell what became of it."""
    modern = isinstance(client, ModernClient)
    options: dict[str, Any] = {} if modern else {"task": {}}
    made = (await client.call("run", **options)).result
    params = {**PARAMS, "taskId": made["taskId"] if modern else made["task"]["taskId"]}
    if method == "tasks/update":
        params["inputResponses"] = {}
    if method == "subscriptions/listen":
        params["notifications"] = {}
    if method == "initialize":
        params |= {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c"}}
    before = len(upstream.seen(method))
    async with client.stream(method, params) as stream:
        streamed = stream.headers["Content-Type"].startswith("text/event-stream")
        if not streamed and (await stream.json()).get("error", {}).get("code") == NOT_FOUND:
            return "-"
    return "passes" if len(upstream.seen(method)) > before else "exists"


def check(method: str, corner: str, found: str) -> None:
    said = TABLE[method][corner]
    if found == "-" or said == "-":
        assert found == said, f"{method} in {corner}: the page says {said!r}"
    elif said == "passes":
        assert found == "passes", f"{method} in {corner} does not pass"
    else:
        assert said in {"turned", "shim"}


@pytest.mark.rule("ML-GONE")
@pytest.mark.parametrize("method", TABLE)
async def test_ml(tmp_path: Path, method: str) -> None:
    async with scripted() as upstream, ml.corner(upstream, tmp_path) as here:
        answers(upstream, modern=False)
        check(method, "ML", await crossed(upstream, here.client, method))


@pytest.mark.rule("LL-1")
@pytest.mark.parametrize("method", TABLE)
async def test_ll(tmp_path: Path, method: str) -> None:
    async with (
        scripted() as upstream,
        running(config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})) as app,
        LegacyClient(app.url) as client,
    ):
        answers(upstream, modern=False)
        await client.initialize()
        check(method, "LL", await crossed(upstream, client, method))


@pytest.mark.rule("LM-LOCAL")
@pytest.mark.parametrize("method", TABLE)
async def test_lm(tmp_path: Path, method: str) -> None:
    async with scripted(sessions=False) as upstream, lm.corner(upstream, tmp_path) as here:
        answers(upstream, modern=True)
        check(method, "LM", await crossed(upstream, here.client, method))


@pytest.mark.rule("MM-1")
@pytest.mark.parametrize("method", TABLE)
async def test_mm(tmp_path: Path, method: str) -> None:
    async with mm.corner(tmp_path) as here:
        answers(here.upstream, modern=True)
        check(method, "MM", await crossed(here.upstream, here.client, method))


def test_the_page_names_every_method_of_the_published_dialects() -> None:
    dialects = load_dialects(())
    published = dialects["experimental"].methods.names() | dialects["sep-2663"].methods.names()
    requests = {name for name in published if not name.startswith("notifications/")}
    assert requests <= TABLE.keys()
    others = dialects["create-status"].methods.names() - requests
    assert not [name for name in others if f"`{name}`" not in PAGE and not name.startswith("notifications/")]


def test_the_page_has_the_losses_of_the_tables_and_no_others() -> None:
    told = {dialect: dict(losses) for dialect, losses in OUTWARDS.items()}
    out, _, inwards = PAGE.partition("and a dialect's object")
    for text, table in ((out, told), (inwards, INWARDS)):
        rows = set(re.findall(r"^\| ([a-z0-9-]+) \| ([^|`]+) \| ([^|]+) \|$", text, re.MULTILINE))
        rows = {row for row in rows if row[0] in table}
        assert rows == {(name, key, put) for name, losses in table.items() for key, put in losses.items()}
