"""The HTTP server under an endpoint; its answers do not say what it is built on."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http_exceptions import LineTooLong

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class _Request(web.BaseRequest):
    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        # the one place that every answer passes, also those to what is no HTTP
        response.headers.popall(hdrs.SERVER, None)


class _Connection(web.RequestHandler):
    too_long: Callable[[], None]

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:  # fmt: skip
        if isinstance(exc, LineTooLong):
            self.too_long()
        return super().handle_error(request, status, exc, message)


class _Server(web.Server):
    def __init__(
        self, handler: Handler, too_long: Callable[[], None], *, request_factory: Any,
        handler_cancellation: bool, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(handler, request_factory=request_factory, handler_cancellation=handler_cancellation)
        self._options = {"loop": asyncio.get_running_loop(), "access_log": None, **options}
        self._too_long = too_long

    def __call__(self) -> web.RequestHandler:
        connection = _Connection(self, **self._options)
        connection.too_long = self._too_long
        return connection


def server_of(
    handler: Handler,
    *,
    too_long: Callable[[], None] = lambda: None,
    handler_cancellation: bool = False,
    **options: Any,
) -> web.Server:
    """Make a server; `options` are aiohttp's, `too_long` hears of a header field beyond them."""
    loop = asyncio.get_running_loop()

    def request_of(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        return _Request(message, payload, protocol, writer, task, loop)

    return _Server(
        handler, too_long, request_factory=request_of, handler_cancellation=handler_cancellation, **options
    )
