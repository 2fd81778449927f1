"""Requests over aiohttp's pool of connections, without what its sessions do for each of them.

aiohttp resolves, connects, speaks TLS, keeps connections and reads answers. What a `ClientSession` adds to
an exchange is not wanted here (redirects, cookies, proxies, traces, a task for each body) and took longer
than all of the shim's own work on it (docs/performance.md). The calls into aiohttp are those that its
session makes.
"""

from collections.abc import Sequence
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp.connector import Connection
from aiohttp.http import HttpProcessingError
from multidict import CIMultiDictProxy
from yarl import URL

from shim.wire.http import UNSENDABLE

Headers = Sequence[tuple[str, str]]

_OWN_HEADERS = (("Accept", "*/*"), ("Accept-Encoding", "identity"), ("User-Agent", "taskshim"))
"""Sent, as `Host` is, unless the request brings its own."""
_FRAMING = frozenset({"content-length", "transfer-encoding"})
"""Made here, of the body that is sent."""
_BODILESS = frozenset({"GET", "HEAD", "OPTIONS"})
_REPEATABLE = _BODILESS | {"DELETE"}


class Answer:
    """An answer whose headers are in. With the end of `content` its connection is free for the next request.

    As a context manager it is released; what was not read of it then costs the connection.
    """

    __slots__ = ("_connection", "content", "headers", "status")

    def __init__(
        self, status: int, headers: CIMultiDictProxy[str], content: aiohttp.StreamReader,
        connection: Connection,
    ) -> None:  # fmt: skip
        self.status = status
        self.headers = headers
        self.content = content
        self._connection: Connection | None = connection
        content.on_eof(self.release)

    @property
    def content_length(self) -> int | None:
        """How many bytes are announced; None where that is not said."""
        length = self.headers.get("Content-Length")
        return None if length is None else int(length)

    def release(self) -> None:
        """Give the connection back; it is closed where more is to come or to be sent."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        transport = connection.transport
        if self.content.is_eof() and transport is not None and not transport.get_write_buffer_size():
            connection.release()
        else:
            self._cut(connection)

    def close(self) -> None:
        """Close the connection, whatever is still to come."""
        connection, self._connection = self._connection, None
        if connection is not None:
            self._cut(connection)

    def _cut(self, connection: Connection) -> None:
        if not self.content.is_eof():  # nothing more will come for who reads it now
            self.content.set_exception(aiohttp.ClientConnectionError("Connection closed"))
        connection.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Client:
    """Sends requests to one server."""

    def __init__(
        self, address: URL, connector: aiohttp.BaseConnector, *, connect_timeout_ms: int, line_bytes: int
    ) -> None:
        self.address = address
        self._connector = connector
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_timeout_ms / 1000)
        self._line_bytes = line_bytes
        self._place = aiohttp.ClientRequest("GET", address)
        """What tells the pool where to connect; it is never sent."""
        own = (("Host", self._place.headers["Host"]), *_OWN_HEADERS)
        self._own = tuple((name.lower(), f"{name}: {value}") for name, value in own)

    async def close(self) -> None:
        """Close all connections."""
        await self._connector.close()

    async def request(
        self, method: str, headers: Headers, body: bytes | None = None, *, at: URL | None = None
    ) -> Answer:
        """Send a request and give the answer once its headers are in; `at` is another path of the server.

        Raises ClientConnectorError, ConnectionTimeoutError where nothing was sent, else ClientError, OSError,
        ValueError. What can be repeated is, once, where a kept connection turns out to be closed.
        """
        sent = self._head(method, at or self.address, headers, body) + (body or b"")
        try:
            return await self._exchange(method, sent)
        except aiohttp.ClientConnectorError:
            raise
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            if method not in _REPEATABLE:
                raise
        return await self._exchange(method, sent)

    def _head(self, method: str, address: URL, headers: Headers, body: bytes | None) -> bytes:
        """Write the head of a request. Raises ValueError for what would be read as something else."""
        lines: list[str] = []
        given: set[str] = set()
        for name, value in headers:
            key = name.lower()
            if key not in _FRAMING:
                given.add(key)
                lines.append(f"{name}: {value}")
        if body is not None or method not in _BODILESS:
            lines.append(f"Content-Length: {len(body or b'')}")
        own = [line for name, line in self._own if name not in given]
        said = [f"{method} {address.raw_path_qs} HTTP/1.1", *own, *lines]
        if not all(map(str.isprintable, said)) and UNSENDABLE.search("\t".join(said)):
            raise ValueError("a control character in a header")
        return ("\r\n".join(said) + "\r\n\r\n").encode(errors="ignore")  # without halves of surrogates

    async def _exchange(self, method: str, sent: bytes) -> Answer:
        try:
            connection = await self._connector.connect(self._place, [], self._timeout)
        except TimeoutError as exc:
            raise aiohttp.ConnectionTimeoutError("no connection in time") from exc
        try:
            protocol, transport = connection.protocol, connection.transport
            if protocol is None or transport is None:
                raise aiohttp.ClientConnectionResetError("the connection is lost already")
            protocol.set_response_params(
                skip_payload=method == "HEAD", read_until_eof=True, auto_decompress=False,
                max_line_size=self._line_bytes, max_field_size=65_536,
            )  # fmt: skip
            transport.write(sent)
            message, content = await protocol.read()
            while message.code < 200 and message.code != 101:  # noqa: PLR2004 - what is said in between
                message, content = await protocol.read()
            return Answer(message.code, message.headers, content, connection)
        except HttpProcessingError as exc:
            connection.close()
            raise aiohttp.ClientResponseError(
                self._place.request_info, (), status=exc.code, message=exc.message, headers=exc.headers
            ) from exc
        except BaseException:
            connection.close()
            raise
