"""One upstream's HTTP side: what leaves and what comes back, within bounds.

No cookies, no redirects, no compression, no total timeout on streams (HEADERS, DESIGN "Decisions").
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
from multidict import CIMultiDictProxy
from yarl import URL

from shim.upstreams.broken import (
    BROKEN_OFF,
    NEVER_SENT,
    Denied,
    Interrupted,
    NeverSent,
    interrupted,
    no_descriptor,
    outcome_of,
    unreached,
)
from shim.upstreams.client import Answer, Client, Headers
from shim.wire.budget import KEY as BUFFERS
from shim.wire.budget import Budget, Holding
from shim.wire.era import Era
from shim.wire.errors import UpstreamFault, frame_too_large
from shim.wire.http import JSON_TYPE, SERVER_ERROR
from shim.wire.probe import contradicts, of_status
from shim.wire.sse import Frame, SseFrameTooLarge, SseParser

_KEEPALIVE_S = 4
"""Shorter than the 5 s after which common servers close: a request sent on a closing connection is lost."""

_FOREVER = contextlib.nullcontext()


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one exchange."""

    frame_bytes: int = 4 * 1024 * 1024
    connect_timeout_ms: int = 5_000
    answer_timeout_ms: int = 60_000


class Counted:
    """What became of an exchange; as a context manager it tells method and outcome at the end."""

    __slots__ = ("_method", "_tell", "outcome")

    def __init__(self, tell: Callable[[str, str], None] | None, method: str) -> None:
        self._tell = tell
        self._method = method
        self.outcome = "ok"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if exc is not None:
            self.outcome = outcome_of(exc)
        if self._tell is not None:
            self._tell(self._method, self.outcome)


def open_client(address: str, limits: Limits, socket: str | None = None) -> Client:
    """Make the HTTP client of one server, over a Unix socket if one is named; close it at the end."""
    connector: aiohttp.BaseConnector
    if socket is None:
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=_KEEPALIVE_S)
    else:
        connector = aiohttp.UnixConnector(socket, limit=0, keepalive_timeout=_KEEPALIVE_S)
    return Client(
        URL(address), connector,
        connect_timeout_ms=limits.connect_timeout_ms, line_bytes=min(65_536, limits.frame_bytes),
    )  # fmt: skip


class Link:
    """The address of one upstream and how it is spoken to over HTTP.

    `on_change` hears when the server stops answering at all, and when it answers again: up, evidence.
    `on_silence` hears of each request without an answer, or not in time, although there was a connection.
    `on_doubt` hears when it answers as a server of the other era: evidence. `on_exchange` hears of the end
    of each exchange: method, outcome (ok, error, denied, unreachable, broken, cancelled). `on_drop` hears
    of each session that the shim will not use again.
    """

    def __init__(
        self,
        client: Client,
        limits: Limits,
        on_change: Callable[[bool, str], None] | None = None,
    ) -> None:
        self.url = str(client.address)
        self.limits = limits
        self._client = client
        self.on_change = on_change
        self.on_silence: Callable[[], None] | None = None
        self.on_doubt: Callable[[str], None] | None = None
        self.on_exchange: Callable[[str, str], None] | None = None
        self.on_drop: Callable[[str], None] | None = None
        self._up = True
        self.budget = Budget()
        """What answers may take of the memory."""

    async def send(
        self,
        method: str,
        headers: Headers,
        body: bytes | None = None,
        *,
        patient: bool = False,
        at: str | None = None,
    ) -> Answer:
        """Send a request and give the answer once its headers are in. Raises NeverSent, Interrupted.

        `patient` waits for them without a limit: a tool may take hours. `at` is another path of the server.
        """
        address = None if at is None else self._client.address.origin().join(URL(at, encoded=True))
        try:
            if patient:
                response = await self._client.request(method, headers, body, at=address)
            else:
                async with self._in_time():
                    response = await self._client.request(method, headers, body, at=address)
        except NEVER_SENT as exc:
            if no_descriptor(exc):  # which says nothing of the upstream
                raise NeverSent("the shim has too many open files to ask the upstream", 503) from exc
            why = unreached(exc)
            self._health(up=False, evidence=why)
            raise NeverSent(f"the upstream cannot be reached: {why}") from exc
        except BROKEN_OFF as exc:
            self._silent()
            raise interrupted(exc) from exc
        if not self._up:
            self._health(up=True, evidence=f"HTTP {response.status}")
        return response

    def in_time(self, *, patient: bool) -> contextlib.AbstractAsyncContextManager[None]:
        """Bound what is done with the upstream, unless `patient`. Raises Interrupted."""
        return _FOREVER if patient else self._in_time()

    @contextlib.asynccontextmanager
    async def _in_time(self) -> AsyncIterator[None]:
        bound = asyncio.timeout(self.limits.answer_timeout_ms / 1000)
        try:
            async with bound:
                yield
        except TimeoutError as exc:
            if not bound.expired():
                raise
            self._silent()
            raise Interrupted("the upstream did not answer in time", 504) from exc

    def counting(self, method: str) -> Counted:
        """Count an exchange at its end; who reads an error in the answer says so."""
        return Counted(self.on_exchange, method)

    def judge(self, era: Era, status: int, body: bytes) -> None:
        """Look at an error of a server that is taken for one of an era (ERA-PROBE)."""
        if contradicts(era, status, body):
            self.doubt(f"HTTP {status} as no {era.value} server answers")

    def doubt(self, evidence: str) -> None:
        """Report an answer that a server of the other era would give."""
        if self.on_doubt is not None:
            self.on_doubt(evidence)

    def drop(self, session_id: str) -> None:
        """Report a session that will not be used again."""
        if self.on_drop is not None:
            self.on_drop(session_id)

    def is_down(self, evidence: str) -> None:
        """Take it that the server cannot be reached, until it answers."""
        self._health(up=False, evidence=evidence)

    def _silent(self) -> None:
        if self.on_silence is not None:
            self.on_silence()

    def _health(self, *, up: bool, evidence: str) -> None:
        """Report when the server stops answering at all, and when it answers again."""
        if up is not self._up:
            self._up = up
            if self.on_change is not None:
                self.on_change(up, evidence)

    async def read_in_time(self, response: Answer) -> bytes:
        """Read a whole body as `read` does, and do not wait for it for ever."""
        async with self._in_time():
            return await self.read(response)

    async def read(self, response: Answer) -> bytes:
        """Read a whole body within the frame bound. Raises Interrupted, UpstreamFault."""
        with self.budget.holding() as held:
            return await self._read(response, held)

    async def _read(self, response: Answer, held: Holding) -> bytes:
        length = response.content_length
        if length is not None and length <= self.limits.frame_bytes:  # what is announced is all there can be
            self._hold(response, held, length)
            try:
                content = response.content
                return content.read_nowait() if content.is_eof() else await content.read()
            except BROKEN_OFF as exc:
                raise interrupted(exc) from exc
        chunks: list[bytes] = []
        size = 0
        async for chunk in chunks_of(response):
            size += len(chunk)
            if size > self.limits.frame_bytes:
                response.close()
                raise frame_too_large("the upstream's answer is larger than limits.frame_bytes")
            self._hold(response, held, len(chunk))
            chunks.append(chunk)
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def frames(self, response: Answer) -> AsyncIterator[Frame]:
        """Read an event stream frame by frame. Raises Interrupted, UpstreamFault."""
        parser = SseParser(self.limits.frame_bytes)
        with self.budget.holding() as held:
            async for chunk in chunks_of(response):
                try:
                    frames = parser.feed(chunk)
                except SseFrameTooLarge as exc:
                    response.close()
                    raise frame_too_large(
                        "a frame of the upstream is larger than limits.frame_bytes"
                    ) from exc
                held.set(0)
                self._hold(response, held, parser.waiting)
                for frame in frames:
                    yield frame
        for frame in parser.finish():
            yield frame

    def _hold(self, response: Answer, held: Holding, more: int) -> None:
        """Count what of an answer has come. Raises UpstreamFault where there is no room for it."""
        if not held.fits(more):
            response.close()
            raise UpstreamFault("no room for the upstream's answer (limits.buffer_bytes)", 503, limit=BUFFERS)


async def chunks_of(response: Answer) -> AsyncIterator[bytes]:
    """Give the body as it comes; a broken one raises Interrupted."""
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except BROKEN_OFF as exc:
        raise interrupted(exc) from exc


def media_type(headers: CIMultiDictProxy[str]) -> str:
    """Give the media type without its parameters, in lower case."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def odd_answer(response: Answer) -> UpstreamFault:
    """Say that an answer is none of MCP's: what its status means, else what it brought."""
    status = of_status(response.status)
    if ":" in status or response.status >= SERVER_ERROR:
        return UpstreamFault(f"the upstream answered {status}")
    kind = media_type(response.headers) or "no media type"
    return UpstreamFault(
        f"the upstream answered {status}, which is no MCP answer ({kind})",
        recorded=f"the upstream answered {status}, which is no MCP answer",
    )


async def denied(link: Link, response: Answer) -> Denied:
    """Turn a 401 or 403 into what is relayed to the client. Raises Interrupted, UpstreamFault."""
    body = await link.read_in_time(response)  # a tool may take hours, a refusal may not
    return Denied(
        response.status,
        tuple(response.headers.getall("WWW-Authenticate", ())),
        body,
        response.headers.get("Content-Type", JSON_TYPE),
    )
