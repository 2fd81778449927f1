"""`taskshim probe`, against servers of both eras and things that are no server."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from shim.cli.probe import probe_command
from shim.demo import experimental, four_state
from shim.demo.tools import TOOLS
from tests.scripted import Raw, Seen

DISCOVERED = {
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "new", "version": "3"}},
}


async def run(*arguments):
    """Run the command beside this test's event loop, which serves what it asks."""
    return await asyncio.to_thread(CliRunner().invoke, probe_command, arguments)


@pytest.mark.rule("ERA-PROBE")
@pytest.mark.parametrize(
    ("server", "options", "dialect", "has_tasks"),
    [
        (experimental, {}, "experimental", True),
        (experimental, {"page_size": 2}, "experimental", True),
        (four_state, {}, "create-status", False),
        (four_state, {"sessions": False}, "create-status", False),
    ],
)
async def test_tells_what_a_legacy_server_is(server, options, dialect, has_tasks):
    runner, url = await server.start(**options)
    try:
        result = await run(url, "--json")
    finally:
        await runner.cleanup()
    found = json.loads(result.output)
    assert result.exit_code == 0
    assert (found["era"], found["version"], found["dialect"]) == ("legacy", "2025-11-25", dialect)
    assert (found["tasks"], found["sessions"]) == (has_tasks, options.get("sessions", True))
    support = {name: tool.support if has_tasks else "optional" for name, tool in TOOLS.items()}
    assert found["tools"] == support


async def test_reads_for_people():
    runner, url = await four_state.start()
    try:
        result = await run(url)
    finally:
        await runner.cleanup()
    lines = result.output.splitlines()
    assert "dialect          create-status" in lines
    assert 'Its task methods were answered: say dialect = "create-status" for this upstream.' in lines
    assert "greet          optional" in lines


async def test_tells_a_modern_server(modern_upstream):
    modern_upstream.on("server/discover", DISCOVERED)
    result = await run(modern_upstream.url, "--json")
    found = json.loads(result.output)
    assert result.exit_code == 0
    assert (found["era"], found["tasks"], found["server"]) == ("modern", True, "new 3")
    assert [seen.method for seen in modern_upstream.requests] == ["server/discover", "initialize"]


@pytest.mark.rule("ERA-PROBE")
@pytest.mark.parametrize(
    ("tasks", "line"),
    [
        (True, "old clients      relayed (2025-11-25, with tasks)"),
        (
            False,
            "old clients      served by the shim, not by the server's old side (2025-11-25, without tasks)",
        ),
    ],
)
async def test_tells_a_server_of_both_eras(modern_upstream, tasks, line):
    capabilities = {"tasks": {"requests": {"tools": {"call": {}}}}} if tasks else {}
    modern_upstream.on("server/discover", DISCOVERED)
    modern_upstream.on("initialize", {"protocolVersion": "2025-11-25", "capabilities": capabilities})
    result = await run(modern_upstream.url)
    assert result.exit_code == 0
    assert line in result.output.splitlines()
    assert "dialect          sep-2663" in result.output.splitlines()


async def test_finds_no_dialect_where_no_task_method_is_known(upstream):
    upstream.init_result["capabilities"] = {"tools": {}}
    upstream.on("tools/list", {"tools": [{"name": "only"}]})
    found = json.loads((await run(upstream.url, "--json")).output)
    assert (found["era"], found["dialect"], found["tools"]) == ("legacy", None, {"only": "none"})


async def test_follows_the_pages_of_the_list(upstream):
    def page(seen: Seen):
        at = int(seen.params.get("cursor", "0"))
        return {"tools": [{"name": f"tool{at}"}], **({"nextCursor": str(at + 1)} if at < 3 else {})}

    upstream.on("tools/list", page)
    found = json.loads((await run(upstream.url, "--json")).output)
    assert found["tools"] == {f"tool{at}": "forbidden" for at in range(4)}


async def test_sends_the_given_headers_with_every_request(upstream):
    upstream.on("tools/list", {"tools": []})
    result = await run(upstream.url, "--header", "Authorization: Bearer mine")
    assert result.exit_code == 0
    assert {seen.headers.get("Authorization") for seen in upstream.requests} == {"Bearer mine"}


@pytest.mark.rule("ERA-PROBE")
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (401, "HTTP 401: it wants a credential"),
        (403, "HTTP 403: it does not let this credential in"),
        (429, "HTTP 429: it is asked more than it allows"),
        (500, "HTTP 500"),
        (503, "HTTP 503"),
    ],
)
async def test_says_what_proves_nothing(modern_upstream, status, said):
    modern_upstream.on("server/discover", Raw("no", status))
    result = await run(modern_upstream.url)
    assert result.exit_code == 1
    assert f"evidence  {said}" in result.output.splitlines()


async def test_says_why_the_tools_are_not_told(upstream):
    upstream.on("tools/list", Raw("<html>", 200, {"Content-Type": "text/html"}))
    result = await run(upstream.url, "--json")
    assert result.exit_code == 1
    assert json.loads(result.output)["fault"]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["ftp://x"], "ftp://x: must be an http:// or https:// URL"),
        (["http://x", "--header", "secret"], "--header: expected 'NAME: VALUE'"),
    ],
)
async def test_says_in_one_line_what_it_could_not_do(arguments, line):
    result = await run(*arguments)
    assert (result.exit_code, result.stderr) == (2, f"taskshim: {line}\n")
