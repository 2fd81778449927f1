"""The way to a server that is a command: a bridge on a socket that nobody else can open."""

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from aiohttp import web

from shim.clock import Clock
from shim.config import Config
from shim.config.service import UpstreamConfig
from shim.ledger.protocol import Ledger
from shim.upstreams.authority import Authority
from shim.upstreams.base import Context
from shim.upstreams.stdio.bridge import CALLER, Bounds, Bridge
from shim.upstreams.stdio.legacy import LegacyPeer
from shim.upstreams.stdio.peer import Peer
from shim.upstreams.stdio.process import Command

BRIDGE_URL = "http://localhost/mcp"
"""The bridge's address over its socket."""


class CallerAuthority(Authority):
    """Says whose each request is, in place of a credential; what is nobody's says nothing."""

    def headers(self, ctx: Context) -> list[tuple[str, str]]:
        """Give the header that the bridge looks at."""
        return [(CALLER, ctx.caller.key)]


def bridge_of(config: Config, settings: UpstreamConfig, ledger: Ledger | None, clock: Clock) -> Bridge:
    """Make the bridge to an upstream; a process that holds an open task of the ledger is not idle."""

    async def needed(peer: Peer) -> bool:
        if ledger is None:
            return False
        if isinstance(peer, LegacyPeer):
            return bool(await ledger.open_tasks(upstream=settings.name, session_id=peer.name, limit=1))
        return await ledger.open_count_by_caller(peer.name) > 0

    def bounds() -> Bounds:
        return Bounds(
            processes=config.sessions.total,
            frame_bytes=config.limits.frame_bytes,
            idle_ms=config.sessions.idle_ms + 2 * config.tasks.sweep_ms,  # the pool drops its own before
            probe_ms=settings.answer_timeout_ms // 2,
        )

    command = Command(settings.command, settings.environment(), settings.cwd)
    return Bridge(command, settings.name, bounds, clock, needed)


@contextlib.asynccontextmanager
async def serving(bridge: Bridge) -> AsyncIterator[str]:
    """Serve a bridge while the block runs and give its socket; then every process is ended."""
    server = web.Server(bridge.handle, handler_cancellation=True, access_log=None)
    with tempfile.TemporaryDirectory(prefix="taskshim-") as folder:  # of mode 0700
        socket = str(Path(folder, "bridge"))
        runner = web.ServerRunner(server, shutdown_timeout=0)
        await runner.setup()
        await web.UnixSite(runner, socket).start()
        sweeping = asyncio.create_task(bridge.run(), name="sweep processes")
        try:
            yield socket
        finally:
            sweeping.cancel()
            await bridge.close()
            await runner.cleanup()
