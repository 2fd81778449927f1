"""Standard input and output with the real SDKs at both ends: clients and servers of both eras."""

import asyncio
import json
import re
import sys
from asyncio.subprocess import PIPE
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.peers.processes import legacy_server, modern_server

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SHIM = [
    sys.executable,
    "-c",
    f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom shim.cli.main import cli\ncli()",
]
ERAS = ("legacy", "modern")
SERVE = {"legacy": legacy_server, "modern": modern_server}
SAID = {
    "legacy": ("test_simple_text", "This is a simple text response for testing."),
    "modern": ("greet", "Hello, world!"),
}
"""A tool of each server's, and what it says."""

pytestmark = pytest.mark.peers


@pytest.fixture
def pythons(legacy_python: Path, modern_python: Path) -> dict[str, Path]:
    """The interpreter with the SDK of each era."""
    return {"legacy": legacy_python, "modern": modern_python}


def config_of(folder: Path, python: Path, era: str) -> Path:
    """Write a config with a server that is a command."""
    config = folder / "config.toml"
    command = [str(python), str(HERE / f"{era}_server.py"), "--stdio"]
    config.write_text(f"[[upstream]]\ncommand = {json.dumps(command)}\ncwd = {json.dumps(str(HERE))}\n")
    return config


@pytest.mark.rule("ERA-PROBE")
@pytest.mark.parametrize("client", ERAS)
@pytest.mark.parametrize("server", ERAS)
@pytest.mark.parametrize("by", ["command", "address"])
async def test_an_sdk_client_on_an_sdk_server(
    pythons: dict[str, Path], tmp_path: Path, client: str, server: str, by: str
) -> None:
    """The client runs `taskshim stdio`; the server is a command too, or stands at an address."""
    tool, text = SAID[server]
    async with AsyncExitStack() as stack:
        if by == "command":
            behind = ["--config", str(config_of(tmp_path, pythons[server], server))]
        else:
            log = tmp_path / "server.log"
            behind = ["--upstream", await stack.enter_async_context(SERVE[server](pythons[server], log=log))]
        process = await asyncio.create_subprocess_exec(
            pythons[client],
            HERE / "stdio_client.py",
            tool,
            *SHIM,
            "stdio",
            *behind,
            stdout=PIPE,
            cwd=tmp_path,
        )
        out, _ = await process.communicate()
    assert process.returncode == 0
    seen = json.loads(out)
    assert tool in seen["tools"]
    assert seen["text"] == text


@pytest.mark.rule("ERA-PROBE")
@pytest.mark.parametrize(
    ("server", "dialect"), [("legacy", "experimental"), ("modern", "none that is known")]
)
async def test_check_tells_what_a_command_speaks(
    pythons: dict[str, Path], tmp_path: Path, server: str, dialect: str
) -> None:
    config = config_of(tmp_path, pythons[server], server)
    process = await asyncio.create_subprocess_exec(
        *SHIM, "check", "--config", config, "--online", stdout=PIPE, cwd=tmp_path
    )
    said = (await process.communicate())[0].decode()
    assert process.returncode == 0, said
    assert re.search(rf"^era +{server}\b", said, re.MULTILINE), said
    assert re.search(rf"^dialect +{dialect}$", said, re.MULTILINE), said
