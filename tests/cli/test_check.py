"""`taskshim check`."""

import asyncio
import json
import re
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from shim.callers.keys import Keys
from shim.cli.check import check
from shim.demo import experimental, four_state
from tests.corners.lm import DISCOVER
from tests.scripted import Raw, tool


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Give a function that writes a config file and gives its path."""
    monkeypatch.chdir(tmp_path)

    def write(text="", url="http://127.0.0.1:1/mcp", upstream=""):
        path = tmp_path / "config.toml"
        path.write_text(f'[[upstream]]\nurl = "{url}"\n{upstream}\n{text}\n')
        path.chmod(0o600)
        return str(path)

    return write


def run(*arguments):
    return CliRunner().invoke(check, ["--config", *arguments])


async def online(*arguments):
    return await asyncio.to_thread(run, *arguments, "--online")


def test_prints_the_effective_config_as_toml(config):
    result = run(config("[listen]\nport = 4000"))
    assert result.exit_code == 0
    effective = tomllib.loads(result.stdout)
    assert effective["listen"]["port"] == 4000
    assert effective["upstream"][0]["name"] == "main"


def test_a_variable_may_name_the_file(config, monkeypatch):
    monkeypatch.setenv("TASKSHIM_CONFIG", config("[listen]\nport = 4000"))
    result = CliRunner().invoke(check)
    assert result.exit_code == 0
    assert tomllib.loads(result.stdout)["listen"]["port"] == 4000


@pytest.mark.rule("OWN-STORE")
def test_masks_every_secret(config):
    keys = '[identity]\nsources = ["api_key"]\n[identity.api_key.keys]\nann = "SECRET-1"'
    upstream = 'credentials = "service"\nservice_token = "SECRET-2"\nheaders = { X-Door = "SECRET-3" }'
    result = run(config(keys, upstream=upstream))
    assert result.exit_code == 0
    assert "SECRET" not in result.output
    assert 'ann = "********"' in result.output.replace('"ann"', "ann")


def test_makes_nothing(config, tmp_path):
    path = config()
    assert run(path).exit_code == 0
    assert [one.name for one in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.rule("OWN-STORE")
def test_warns_of_a_key_file_that_others_can_read(config, tmp_path):
    key_file = tmp_path / "key"
    Keys.load(key_file)
    path = config('[identity]\nkey_file = "key"')
    assert "others can read" not in run(path).output
    key_file.chmod(0o644)
    result = run(path)
    assert result.exit_code == 0
    assert "others can read" in result.stderr
    assert "others can read" not in result.stdout


@pytest.mark.rule("ORIGIN")
@pytest.mark.parametrize(
    ("listen", "warned"),
    [
        ('host = "0.0.0.0"', True),
        ('host = "0.0.0.0"\nallowed_hosts = ["mcp.example.org"]', False),
        ('host = "127.0.0.1"', False),
    ],
)
def test_warns_where_the_host_header_is_not_checked(config, listen, warned):
    result = run(config(f"[listen]\n{listen}"))
    assert result.exit_code == 0
    assert ("the Host header is not checked" in result.stderr) is warned


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[listn]\nport = 1", "config.toml:4: listn: unknown key"),
        (
            '[legacy]\ndialect = "x"',
            "legacy.dialect: no legacy dialect is called 'x'; there are create-status",
        ),
        ('[legacy]\ndialect = "sep-2663"', "legacy.dialect: no legacy dialect is called 'sep-2663'"),
        ('[identity]\nkey_file = "gone/key"', "identity.key_file: gone is no directory"),
        ('[identity]\nkey_file = "config.toml"', "identity.key_file: config.toml: expected"),
        ('[mappings]\nfiles = ["none.toml"]', "none.toml: cannot be read"),
        ('[mappings]\nfiles = ["config.toml"]', "config.toml:"),
        (
            '[identity]\nsources = ["api_key"]\n[identity.api_key]\nfile = "keys"',
            "identity.api_key.file: keys cannot",
        ),
    ],
)
def test_says_in_one_line_what_is_wrong(config, text, line):
    result = run(config(text))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert line in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("server", "upstream", "code"),
    [
        (experimental, "", 0),
        (experimental, 'dialect = "create-status"', 1),
        (four_state, 'dialect = "create-status"', 0),
        (four_state, "", 1),
    ],
)
async def test_online_holds_the_dialect_against_the_server(config, server, upstream, code):
    runner, url = await server.start()
    try:
        result = await online(config(url=url, upstream=upstream))
    finally:
        await runner.cleanup()
    assert result.exit_code == code
    assert "[upstream main]" in result.stdout
    assert ("fault: upstream 'main'" in result.stderr) is bool(code)


@pytest.mark.rule("ERA-PROBE")
@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Raw("", 503), "what it is cannot be told: HTTP 503"),
        (
            {"supportedVersions": ["2026-07-28"], "capabilities": {}},
            'it is a modern server and speaks no experimental: say dialect = "auto"',
        ),
    ],
)
async def test_online_finds_what_cannot_be_served(config, modern_upstream, answer, fault):
    modern_upstream.on("server/discover", answer)
    result = await online(config(url=modern_upstream.url, upstream='dialect = "experimental"'))
    assert result.exit_code == 1
    assert fault in result.stderr


@pytest.mark.rule("ERA-PROBE")
@pytest.mark.parametrize("dialect", ["auto", "sep-2663"])
async def test_online_takes_a_modern_server(config, modern_upstream, dialect):
    modern_upstream.on("server/discover", {"supportedVersions": ["2026-07-28"], "capabilities": {}})
    result = await online(config(url=modern_upstream.url, upstream=f'dialect = "{dialect}"'))
    assert result.exit_code == 0
    assert "fault" not in result.stderr
    assert "old clients      served by the shim itself" in result.stdout


@pytest.mark.rule("OWN-CREDENTIAL")
async def test_online_asks_with_the_services_credential(config, upstream):
    upstream.on("tools/list", {"tools": []})
    service = 'credentials = "service"\nservice_token = "mine"\nheaders = { X-Door = "3" }'
    result = await online(config(url=upstream.url, upstream=service))
    assert result.exit_code == 0
    seen = {(one.headers.get("Authorization"), one.headers.get("X-Door")) for one in upstream.requests}
    assert seen == {("Bearer mine", "3")}


def test_accepts_the_example(config):
    config()
    example = Path(__file__).parents[2] / "config.example.toml"
    result = run(str(example))
    assert result.exit_code == 0
    assert tomllib.loads(result.stdout)["listen"]["path"] == "/mcp"


async def test_online_asks_a_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    server = Path(__file__).parents[1] / "stdio_server.py"
    path = tmp_path / "config.toml"
    path.write_text(f"[[upstream]]\ncommand = {json.dumps([sys.executable, str(server), 'legacy'])}\n")
    result = await online(str(path))
    assert result.exit_code == 0
    assert re.search(r"^dialect +experimental$", result.stdout, re.MULTILINE)
    assert re.search(r"^job +required$", result.stdout, re.MULTILINE)


async def test_online_compares_two_servers(tmp_path, upstream, modern_upstream):
    schema = {"type": "object", "properties": {"x": {"type": "string"}}}
    upstream.on("tools/list", {"tools": [tool("run", "optional", inputSchema=schema), tool("gone")]})
    modern_upstream.on("server/discover", DISCOVER)
    modern_upstream.on("tools/list", {"resultType": "complete", "tools": [tool("run", inputSchema={})]})
    file = tmp_path / "two.toml"
    file.write_text(
        f'[[upstream]]\nname = "old"\nurl = "{upstream.url}"\n'
        f'[[upstream]]\nname = "new"\nurl = "{modern_upstream.url}"\n'
    )
    result = await asyncio.to_thread(CliRunner().invoke, check, ["--config", str(file), "--online"])
    assert result.exit_code == 0, result.output
    assert "[old and new]\nTOOL  DIFFERS\ngone  only on old\n" in result.output
    assert "run   inputSchema differs at properties, type\n" in result.output


@pytest.mark.rule("SHADOW")
async def test_online_names_the_copied_tools_that_do_not_only_read(tmp_path, upstream, modern_upstream):
    def hinted(name, **hints):
        return tool(name, annotations=hints)

    reads, both = (
        hinted("search", readOnlyHint=True),
        hinted("get_all", readOnlyHint=True, destructiveHint=True),
    )
    upstream.on("tools/list", {"tools": [reads, hinted("get_one", readOnlyHint=False), tool("drop")]})
    modern_upstream.on("server/discover", DISCOVER)
    tools = [reads, both, hinted("get_one", destructiveHint=True), tool("get_two")]
    modern_upstream.on("tools/list", {"resultType": "complete", "tools": tools})
    file = tmp_path / "two.toml"
    file.write_text(
        f'[[upstream]]\nname = "old"\nurl = "{upstream.url}"\ndialect = "experimental"\n'
        f'[[upstream]]\nname = "new"\nurl = "{modern_upstream.url}"\ndialect = "sep-2663"\n'
        '[cutover.shadow]\ntools = ["search", "get_*", "no_such"]\n'
    )
    arguments = ["--config", str(file), "--online"]
    result = await asyncio.to_thread(CliRunner().invoke, check, arguments)
    told = {line for line in result.stderr.splitlines() if "cutover.shadow.tools" in line}
    assert told == {
        "warning: cutover.shadow.tools: 'get_one' is named, and 'old' says not that it only reads",
        "warning: cutover.shadow.tools: 'get_one' is named, and 'new' says that it is destructive",
        "warning: cutover.shadow.tools: 'get_all' is named, and 'new' says that it is destructive",
        "warning: cutover.shadow.tools: 'get_two' is named, and 'new' says not that it only reads",
        "warning: cutover.shadow.tools: 'no_such' names no tool of any upstream",
    }
    accepted = await asyncio.to_thread(
        CliRunner().invoke, check, [*arguments, "--accept", "cutover.shadow.tools"]
    )
    assert "cutover.shadow.tools: '" not in accepted.stderr
