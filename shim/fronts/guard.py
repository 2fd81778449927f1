"""What is looked at before a body is parsed: address, origin, host, media type, size (ORIGIN, VALIDATE)."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import hdrs, web

from shim.config import Config
from shim.config.address import is_loopback
from shim.wire.budget import Holding
from shim.wire.era import Era
from shim.wire.errors import (
    expectation_failed,
    forbidden_origin,
    no_such_endpoint,
    not_allowed,
    too_large,
    too_slow,
    unsupported_coding,
    unsupported_media,
)
from shim.wire.http import JSON_TYPE

_LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")
_ALLOW = "GET, POST, DELETE, OPTIONS"


@dataclass(frozen=True, slots=True)
class Route:
    """What an address pins: an era, a legacy dialect, or nothing."""

    era: Era | None = None
    dialect: str | None = None


def routes(path: str) -> Mapping[str, Route]:
    """Give the served addresses: the one that decides itself, and the pinned ones."""
    return {
        path: Route(),
        "/legacy": Route(era=Era.LEGACY),
        "/modern": Route(era=Era.MODERN),
        "/create-status": Route(era=Era.LEGACY, dialect="create-status"),
    }


class Guard:
    """Refuses what must not reach the parsers."""

    def __init__(self, config: Config) -> None:
        self._routes = routes(config.listen.path)
        self._origins = frozenset(config.listen.allowed_origins)
        hosts = {*config.listen.allowed_hosts}
        if config.listen.public_url is not None:
            hosts.add(urlsplit(config.listen.public_url).netloc)
        self._hosts = frozenset(map(str.lower, hosts))
        self.checks_host = bool(config.listen.allowed_hosts) or is_loopback(config.listen.host)
        self._body_bytes = config.limits.body_bytes
        self._patience_ms = config.limits.slow_sender_ms

    def route(self, http: web.BaseRequest) -> Route:
        """Give what the address pins. Raises ClientFault."""
        route = self._routes.get(http.path)
        if route is None:
            raise no_such_endpoint(http.path)
        if http.method not in _ALLOW:
            raise not_allowed(_ALLOW)
        return route

    def origin(self, http: web.BaseRequest) -> str | None:
        """Check Origin and Host and give the origin to allow, if there is one. Raises ClientFault."""
        origin = http.headers.get(hdrs.ORIGIN)
        if origin is not None and origin not in self._origins:
            raise forbidden_origin("Origin")
        if self.checks_host and not names_this(http, self._hosts):
            raise forbidden_origin("Host")
        return origin

    async def body(self, http: web.BaseRequest, held: Holding) -> bytes:
        """Read a POST's body within the bounds, its own and that of all. Raises ClientFault."""
        if http.content_type.lower() != JSON_TYPE:
            raise unsupported_media(http.headers.get(hdrs.CONTENT_TYPE, ""))
        if any(coding.lower() != "identity" for coding in http.headers.getall(hdrs.CONTENT_ENCODING, ())):
            raise unsupported_coding()
        limit = self._body_bytes
        length = http.content_length
        if (length or 0) > limit:
            raise too_large(limit)
        held.add(length or 0)
        if (expected := http.headers.get(hdrs.EXPECT)) is not None:
            await _go_on(http, expected)
        if length is not None and http.content.is_eof():
            return http.content.read_nowait()  # it came with its head, as most do
        try:
            async with asyncio.timeout(self._patience_ms / 1000):
                return await _come(http, held, length, limit)
        except TimeoutError:
            raise too_slow(self._patience_ms) from None


def names_this(http: web.BaseRequest, hosts: Iterable[str]) -> bool:
    """Tell whether a request's Host is a loopback name or one of these (ORIGIN).

    They are host or host:port, in lower case.
    """
    host = http.headers.get(hdrs.HOST, "").lower()
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return name in _LOOPBACK or host in hosts or name in hosts


async def _come(http: web.BaseRequest, held: Holding, length: int | None, limit: int) -> bytes:
    """Wait for a body. Raises ClientFault."""
    if length is not None:
        return await http.content.read()  # what is announced is all there can be
    chunks: list[bytes] = []
    size = 0
    async for chunk in http.content.iter_any():
        size += len(chunk)
        if size > limit:
            raise too_large(limit)
        held.add(len(chunk))
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


async def _go_on(http: web.BaseRequest, expected: str) -> None:
    """Ask for the body that a client holds back until it is wanted. Raises ClientFault."""
    if expected.lower() != "100-continue":
        raise expectation_failed()
    await http.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    http.writer.output_size = 0  # nothing of the answer was sent yet


def cors(origin: str) -> tuple[tuple[str, str], ...]:
    """Give the headers that let an allowed origin's page read the answer."""
    return (
        ("Access-Control-Allow-Origin", origin),
        ("Access-Control-Expose-Headers", "Mcp-Session-Id, WWW-Authenticate, X-Request-Id, Retry-After"),
        ("Vary", "Origin"),
    )


def preflight(origin: str | None, asked: str) -> web.Response:
    """Answer an OPTIONS request."""
    headers = [("Allow", _ALLOW)]
    if origin is not None:
        headers += [
            *cors(origin),
            ("Access-Control-Allow-Methods", _ALLOW),
            ("Access-Control-Allow-Headers", asked),
            ("Access-Control-Max-Age", "600"),
        ]
    return web.Response(status=204, headers=headers)
