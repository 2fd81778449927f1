"""The HTTP server under an endpoint; its answers do not say what it is built on, nor repeat what came."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import hdrs, web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong

from shim.config import Config

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_BAD_REQUEST = "this is no request that can be read\n"


class _Request(web.BaseRequest):
    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        # the one place that every answer passes, also those to what is no HTTP
        response.headers.popall(hdrs.SERVER, None)
        if hdrs.TRANSFER_ENCODING in self.headers:
            # a trailer would be read as a header of the connection's next request (aiohttp 3.14, compiled
            # parser), and behind a proxy that may be another client's
            response.headers[hdrs.CONNECTION] = "close"
            response.force_close()


class _Connection(web.RequestHandler):
    reached: Counter[str]
    patience_s: float
    _waiting: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._waiting = asyncio.get_running_loop().call_later(self.patience_s, self._nothing_came)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.came()
        super().connection_lost(exc)

    def came(self) -> None:
        """Note that a request has come: who made one may be idle until the next."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    async def shutdown(self, timeout: float | None = 15.0) -> None:  # noqa: ASYNC109 - as aiohttp has it
        """Let what is under way end within `timeout`; aiohttp would cut it off after twice as long."""
        handler = self._task_handler
        cut = None
        if handler is not None and timeout is not None:
            cut = asyncio.get_running_loop().call_later(timeout, handler.cancel)
        try:
            await super().shutdown(timeout)
        finally:
            if cut is not None:
                cut.cancel()

    def _nothing_came(self) -> None:
        self.reached["limits.slow_sender_ms"] += 1
        self.force_close()

    def handle_error(
        self, request: web.BaseRequest, status: int = 500, exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:  # fmt: skip
        if isinstance(exc, LineTooLong):
            self.reached["limits.header_bytes"] += 1
        if isinstance(exc, HttpProcessingError):
            # it quotes what came, and on a proxy's connection that may be another client's
            message = _BAD_REQUEST
        return super().handle_error(request, status, exc, message)


class _Server(web.Server):
    def __init__(
        self, handler: Handler, config: Config, reached: Counter[str], *,
        request_factory: Any, handler_cancellation: bool, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(handler, request_factory=request_factory, handler_cancellation=handler_cancellation)
        self._options = {"loop": asyncio.get_running_loop(), "access_log": None, **options}
        self._config = config
        self._reached = reached

    def __call__(self) -> web.RequestHandler:
        connection = _Connection(self, **self._options)
        connection.reached = self._reached
        connection.patience_s = self._config.limits.slow_sender_ms / 1000
        return connection


def server_of(
    handler: Handler,
    config: Config,
    reached: Counter[str],
    *,
    handler_cancellation: bool = False,
    **options: Any,
) -> web.Server:
    """Make a server that decompresses nothing; `options` are aiohttp's.

    `reached` counts the bounds that connections come to, by their keys in the config.
    """
    loop = asyncio.get_running_loop()

    def request_of(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
        protocol.came()
        return _Request(message, payload, protocol, writer, task, loop)

    return _Server(
        handler, config, reached, request_factory=request_of,
        handler_cancellation=handler_cancellation, auto_decompress=False, **options,
    )  # fmt: skip
