"""The HTTP server under an endpoint; its answers do not say what it is built on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import hdrs, web

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _Request(web.BaseRequest):
    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        # the one place that every answer passes, also those to what is no HTTP
        response.headers.popall(hdrs.SERVER, None)


def server_of(handler: Handler, **options: Any) -> web.Server:
    """Make a server for a handler; `options` are aiohttp's."""
    loop = asyncio.get_running_loop()

    def request_of(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return _Request(message, payload, protocol, writer, task, loop)

    return web.Server(handler, request_factory=request_of, access_log=None, **options)
