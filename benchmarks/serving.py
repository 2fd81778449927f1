"""The cheapest aiohttp server: no application, no router, no access log."""

import asyncio
import resource
import signal
from collections.abc import Awaitable, Callable

from aiohttp import web

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
HOST = "127.0.0.1"


async def serve_forever(handler: Handler, port: int) -> None:
    """Serve on the loopback until SIGTERM; open streams are cut."""
    raise_file_limit()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    runner = web.ServerRunner(web.Server(handler, access_log=None), shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, HOST, port, backlog=2048).start()
    await stopped.wait()
    await runner.cleanup()


def raise_file_limit() -> None:
    """Allow as many open sockets as the machine lets this user have."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
