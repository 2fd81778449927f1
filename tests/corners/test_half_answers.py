"""ERRORS: a server that begins an answer and says no more, or puts into its headers what none may hold."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from shim.app import running
from tests.client import LegacyClient, ModernClient, Reply
from tests.corners.ml import ALICE
from tests.shim import config_for

pytestmark = pytest.mark.rule("ERRORS")

SOON: dict[str, Any] = {"answer_timeout_ms": 100}
CHALLENGE = b"WWW-Authenticate: Bearer\r\n"
SILENT = b"Content-Length: 100\r\n\r\n{"
KINDS = [ModernClient, LegacyClient]
DIALECTS = ["experimental", "sep-2663"]


@asynccontextmanager
async def server(status: int, *rest: bytes) -> AsyncIterator[str]:
    """Run one that answers every request by these bytes; gives its address."""
    answer = b"HTTP/1.1 %d Any\r\nContent-Type: application/json\r\n" % status + b"".join(rest)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:] if line)
                await reader.readexactly(int(fields.get(b"content-length", b"0")))
                writer.write(answer)
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as listening:
        host, port = listening.sockets[0].getsockname()
        yield f"http://{host}:{port}/mcp"


async def began(kind: type[ModernClient] | type[LegacyClient], url: str) -> Reply:
    """Send what a client of that kind sends first."""
    async with kind(url, headers=ALICE) as client:
        return await client.request("tools/list" if kind is ModernClient else "initialize")


@pytest.mark.rule("ERA-PROBE")
async def test_the_shim_starts_before_a_server_that_begins_an_answer_and_says_no_more(tmp_path: Path) -> None:
    async with server(200, SILENT) as url, running(config_for(url, tmp_path, upstream=SOON)) as app:
        assert app.prober.verdict is None


@pytest.mark.rule("ML-SESSION")
async def test_a_handshake_ends_in_time(tmp_path: Path) -> None:
    old = {"dialect": "experimental", **SOON}
    async with server(200, SILENT) as url, running(config_for(url, tmp_path, upstream=old)) as app:
        assert (await began(ModernClient, app.url)).status == 504


async def test_metadata_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    old = {"dialect": "experimental", **SOON}
    async with (
        server(200, SILENT) as url,
        running(config_for(url, tmp_path, upstream=old)) as app,
        aiohttp.ClientSession() as http,
        http.get(app.url.removesuffix("/mcp") + "/.well-known/oauth-protected-resource") as answer,
    ):
        assert answer.status == 504


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_refusal_is_not_waited_for_for_ever(
    kind: type[ModernClient] | type[LegacyClient], dialect: str, tmp_path: Path
) -> None:
    settings = {"dialect": dialect, **SOON}
    async with (
        server(401, CHALLENGE, SILENT) as url,
        running(config_for(url, tmp_path, upstream=settings)) as app,
    ):
        assert (await began(kind, app.url)).status == 504


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", KINDS)
async def test_a_header_that_none_may_send_is_sent_without_what_may_not_be(
    kind: type[ModernClient] | type[LegacyClient], dialect: str, tmp_path: Path
) -> None:
    rest = (b'WWW-Authenticate: Bearer realm="\x1b[31m\x07red\x7f"\r\n', b"Content-Length: 2\r\n\r\n{}")
    async with (
        server(401, *rest) as url,
        running(config_for(url, tmp_path, upstream={"dialect": dialect})) as app,
    ):
        refused = await began(kind, app.url)
    assert (refused.status, refused.headers["WWW-Authenticate"]) == (401, 'Bearer realm="[31mred"')
