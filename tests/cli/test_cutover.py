"""`taskshim cutover`: moves callers on a running shim, and says what is left."""

import asyncio
import getpass
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from shim.app import running
from shim.cli.cutover import with_rule
from shim.cli.main import cli
from shim.config import load_config
from shim.config.routing import parse_rule
from tests.client import ModernClient
from tests.corners.lm import DISCOVER, made
from tests.corners.ml import ALICE
from tests.ports import free_port
from tests.scripted import scripted, text, tool

TOKEN = "a-long-admin-token"


@pytest.fixture
def admin_port():
    return free_port()


def write_config(folder: Path, old: str, new: str, admin_port: int, *, token: bool = True) -> Path:
    config = folder / "shim.toml"
    said = f'token = "{TOKEN}"\n' if token else ""
    config.write_text(
        f'[[upstream]]\nname = "old"\nurl = "{old}"\ndialect = "experimental"\n'
        f'[[upstream]]\nname = "new"\nurl = "{new}"\ndialect = "sep-2663"\n'
        f"[listen]\nport = 0\n[admin]\nport = {admin_port}\n{said}"
        f'[ledger]\npath = "{folder / "ledger.db"}"\n[identity]\nkey_file = "{folder / "shim.key"}"\n'
        f'[audit]\npath = "{folder / "audit.jsonl"}"\n'
    )
    return config


async def run(*args: str):
    """Run a command in a thread of its own: it asks the shim that runs here."""
    return await asyncio.to_thread(CliRunner().invoke, cli, list(args))


async def test_a_cutover_from_the_command_line(tmp_path, admin_port):
    async with scripted() as old, scripted(sessions=False) as new:
        old.on("tools/list", {"tools": [tool("plain")]})
        old.on("tools/call", text("old"))
        new.on("server/discover", DISCOVER)
        new.on("tools/call", made("new-1"))
        file = write_config(tmp_path, old.url, new.url, admin_port)
        config = ["--config", str(file)]
        async with (
            running(load_config(file, {}, {})) as app,
            ModernClient(app.url, headers=ALICE) as client,
        ):
            assert (await client.call("plain")).result["resultType"] == "complete"
            first = await run("cutover", "status", *config)
            assert first.exit_code == 0
            assert "old cannot be switched off: new calls go to it by default." in first.output
            assert "new can be switched off now." in first.output

            moved = await run("cutover", "set", *config, "--percent", "100")
            assert moved.exit_code == 0
            assert "  1. new\n" in moved.output
            assert (await client.call("plain")).result["resultType"] == "task"

            drained = await run("cutover", "drain", *config)
            assert drained.exit_code == 0
            assert "old can be switched off now." in drained.output

            back = await run("cutover", "set", *config, "--percent", "0")
            assert "  1. new 0%\n" in back.output
            assert (await client.call("plain")).result["resultType"] == "complete"

            one_tool = await run(
                "cutover", "set", *config, "--percent", "25", "--tool", "dep*", "--to", "old"
            )
            assert "  1. old 25% tool=dep*\n  2. new 0%\n" in one_tool.output
            told = json.loads((await run("cutover", "status", *config, "--json")).output)
            assert told["upstreams"]["new"]["open_tasks"] == 1
            assert told["upstreams"]["old"]["requests"] >= 2
            table = (await run("cutover", "status", *config)).output
            assert re.search(
                r"^upstream +is +share +requests +legacy +errors +open +oldest", table, re.MULTILINE
            )
            assert re.search(r"^new +up +\d+\.\d% +\d+ +0 +0 +1 +\d+ m?s +0 +0$", table, re.MULTILINE)
            refused = await run("cutover", "set", *config, "--percent", "5", "--to", "nowhere")
            assert refused.exit_code == 2
            assert "no upstream is called 'nowhere'" in refused.stderr
    events = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert {event["by"] for event in events if event["event"] == "cutover.changed"} == {
        f"{getpass.getuser()} from 127.0.0.1"
    }
    changes = [
        (event["rules"], event.get("drain", [])) for event in events if event["event"] == "cutover.changed"
    ]
    assert changes == [
        (["new"], []), (["new"], ["old"]), (["new 0%"], ["old"]), (["old 25% tool=dep*", "new 0%"], ["old"]),
    ]  # fmt: skip


async def test_nobody_changes_it_without_the_token(tmp_path, admin_port):
    async with scripted() as old, scripted(sessions=False) as new:
        file = write_config(tmp_path, old.url, new.url, admin_port, token=False)
        async with running(load_config(file, {}, {})):
            refused = await run("cutover", "set", "--config", str(file), "--percent", "10")
            assert (refused.exit_code, "needs [admin] token" in refused.stderr) == (2, True)
            write_config(tmp_path, old.url, new.url, admin_port)
            refused = await run("cutover", "set", "--config", str(file), "--percent", "10")
            assert (refused.exit_code, "answered 403" in refused.stderr) == (2, True)


async def test_a_shim_that_is_not_there(tmp_path, admin_port):
    file = write_config(tmp_path, "http://127.0.0.1:1/mcp", "http://127.0.0.1:2/mcp", admin_port)
    gone = await run("cutover", "status", "--config", str(file))
    assert gone.exit_code == 2
    assert "cannot be reached: Connection refused; start the shim" in gone.stderr


@pytest.mark.parametrize(
    ("rules", "rule", "then"),
    [
        ([], "new 10%", ["new 10%"]),
        (["new 10% fallback=old"], "new 20%", ["new 20% fallback=old"]),
        (["old era=legacy", "new 10%"], "new 20%", ["old era=legacy", "new 20%"]),
        (["new 10%", "old tool=x"], "new", ["new", "old tool=x"]),
        (["old 10%"], "new 20%", ["new 20%"]),
        (["new 10%"], "new 5% tool=d*", ["new 5% tool=d*", "new 10%"]),
    ],
)
def test_a_new_percentage_takes_the_place_of_the_one_before(rules, rule, then):
    assert with_rule(rules, parse_rule(rule)) == then
