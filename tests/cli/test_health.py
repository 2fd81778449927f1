"""`taskshim health`: what a container's health check runs."""

import asyncio
from pathlib import Path

import pytest
from click.testing import CliRunner

from shim.app import running
from shim.cli.health import health
from tests.ports import free_port
from tests.scripted import Scripted
from tests.shim import config_for


def asked(folder: Path, admin: str, *arguments: str):
    file = folder / "shim.toml"
    file.write_text(f"[admin]\n{admin}\n")
    return CliRunner().invoke(health, ["--config", str(file), *arguments])


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
async def test_tells_that_a_shim_is_ready(upstream: Scripted, tmp_path, host):
    port = free_port()
    admin = f'host = "{host}"\nport = {port}'
    async with running(config_for(upstream.url, tmp_path, admin={"host": host, "port": port})):
        for arguments, said in [([], "ready\n"), (["--live"], "ok\n")]:
            result = await asyncio.to_thread(asked, tmp_path, admin, *arguments)
            assert (result.exit_code, result.output) == (0, said)


async def test_tells_that_a_shim_is_stopping(tmp_path):
    async def stopping(_: asyncio.StreamReader, out: asyncio.StreamWriter) -> None:
        out.write(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 9\r\n\r\nstopping\n")
        out.close()

    async with await asyncio.start_server(stopping, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        result = await asyncio.to_thread(asked, tmp_path, f"port = {port}")
    assert (result.exit_code, result.output) == (1, "stopping\n")


def test_tells_one_that_is_not_there(tmp_path):
    port = free_port()
    result = asked(tmp_path, f"port = {port}")
    assert result.exit_code == 1
    assert f"http://127.0.0.1:{port}/readyz" in result.output


@pytest.mark.parametrize(
    ("admin", "fault"),
    [
        ("enabled = false", "admin.enabled: false, so there is no address to ask"),
        ("port = 0", "admin.port: 0 takes any free port"),
        ("prot = 1", "admin.prot: unknown key; did you mean admin.port?"),
    ],
)
def test_says_why_it_cannot_ask(tmp_path, admin, fault):
    result = asked(tmp_path, admin)
    assert result.exit_code == 2
    assert fault in result.output
