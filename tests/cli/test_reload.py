"""SIGHUP: the config is read again by the running process; a bad file changes nothing."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from shim.reload import is_live
from tests.client import ModernClient
from tests.crash.serving import events, shim
from tests.ports import free_port
from tests.scripted import Scripted, text

ORIGIN = {"Origin": "https://app.example"}


@asynccontextmanager
async def served(upstream: Scripted, folder: Path) -> AsyncIterator[tuple[ModernClient, Any]]:
    upstream.on("tools/list", {"tools": []})
    upstream.on("tools/call", text("hi"))
    port = free_port()
    async with (
        shim(upstream.url, folder, port) as process,
        ModernClient(f"http://127.0.0.1:{port}/mcp", headers={"Authorization": "Bearer alice"}) as client,
    ):
        yield client, process


async def until(client: ModernClient, found: Callable[[], Awaitable[bool]]) -> None:
    """Send requests until something is so; the test's time limit ends a wait in vain."""
    while not await found():
        await client.call("plain")


async def test_what_can_be_swapped_is_swapped_and_told_by_name(upstream: Scripted, tmp_path: Path) -> None:
    async with served(upstream, tmp_path) as (client, process):
        assert (await client.call("plain", headers=ORIGIN)).status == 403
        config = (tmp_path / "shim.toml").read_text()
        config = config.replace("[listen]\n", '[listen]\nallowed_origins = ["https://app.example"]\n')
        config = config.replace("[ledger]\n", "[ledger]\nlock_wait_ms = 77\n")
        (tmp_path / "shim.toml").write_text(config + "[limits]\nbody_bytes = 600\n[identity.api_key]\n"
                                            'keys = { team = "s3cret-of-the-team" }\n')  # fmt: skip
        process.send_signal(signal.SIGHUP)

        async def allowed() -> bool:
            return (await client.call("plain", headers=ORIGIN)).status == 200

        await until(client, allowed)
        assert (await client.call("plain", {"long": "x" * 600})).status == 413
        process.send_signal(signal.SIGTERM)
        await process.wait()
    [told] = events(tmp_path, "config.reloaded")
    assert told["changed"] == ["identity.api_key.keys", "limits.body_bytes", "listen.allowed_origins"]
    assert "s3cret" not in (tmp_path / "audit.jsonl").read_text()


@pytest.mark.parametrize(
    "bad", ["[limits]\nbody_bytes = -1\n", "[nothing]\n", "]]", '[identity.api_key]\nfile = "not/there"\n']
)
async def test_a_bad_file_keeps_the_old_config(upstream: Scripted, tmp_path: Path, bad: str) -> None:
    async with served(upstream, tmp_path) as (client, process):
        before = (tmp_path / "shim.toml").read_text()
        more = '[modern]\ncreate_result = "both"\n' + bad
        sources = before.replace("[identity]\n", '[identity]\nsources = ["api_key"]\n')
        (tmp_path / "shim.toml").write_text(sources + more)
        process.send_signal(signal.SIGHUP)
        assert (await client.call("plain")).result["content"]
        (tmp_path / "shim.toml").write_text(before)
        process.send_signal(signal.SIGHUP)

        async def told() -> bool:
            return bool(events(tmp_path, "config.reloaded"))

        await until(client, told)
        assert process.returncode is None
    [told_once] = events(tmp_path, "config.reloaded")
    assert not told_once.get("changed")


@pytest.mark.parametrize(
    ("key", "live"),
    [
        ("limits.body_bytes", True),
        ("limits.header_bytes", False),
        ("listen.allowed_hosts", True),
        ("listen.port", False),
        ("ledger.path", False),
        ("identity.sources", True),
        ("identity.key_file", False),
        ("upstream[0].url", False),
        ("upstream[0].service_token_file", True),
        ("tasks.undeclared", True),
        ("legacy.page_size", True),
        ("modern.create_result", True),
    ],
)
def test_what_waits_for_a_restart(key: str, *, live: bool) -> None:
    assert is_live(key) is live
