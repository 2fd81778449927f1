"""Standard input and output with the real SDKs at both ends: clients of both eras, a legacy server."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]

pytestmark = pytest.mark.peers


@pytest.mark.timeout(120)
@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_an_sdk_client_on_an_sdk_server_both_on_stdio(
    legacy_python: Path, modern_python: Path, tmp_path: Path, era: str
) -> None:
    config = tmp_path / "config.toml"
    command = [str(legacy_python), str(HERE / "legacy_server.py"), "--stdio"]
    config.write_text(f"[[upstream]]\ncommand = {json.dumps(command)}\ncwd = {json.dumps(str(HERE))}\n")
    shim = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, {str(ROOT)!r})\nfrom shim.cli.main import cli\ncli()",
    ]
    client = legacy_python if era == "legacy" else modern_python
    process = await asyncio.create_subprocess_exec(
        client, HERE / "stdio_client.py", "test_simple_text", *shim, "stdio", "--config", config, stdout=PIPE
    )
    out, _ = await process.communicate()
    assert process.returncode == 0
    seen = json.loads(out)
    assert "test_simple_text" in seen["tools"]
    assert seen["text"] == "This is a simple text response for testing."
