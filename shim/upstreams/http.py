"""One upstream's HTTP side: what leaves and what comes back, within bounds.

No cookies, no redirects, no compression, no total timeout on streams (HEADERS, DESIGN "Decisions").
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy
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
from shim.wire.budget import KEY as BUFFERS
from shim.wire.budget import Budget, Holding
from shim.wire.era import Era
from shim.wire.errors import UpstreamFault, frame_too_large
from shim.wire.http import JSON_TYPE, SERVER_ERROR
from shim.wire.probe import contradicts, of_status
from shim.wire.sse import Frame, SseFrameTooLarge, SseParser

_KEEPALIVE_S = 4
"""Shorter than the 5 s after which common servers close: a request sent on a closing connection is lost."""

_OWN_HEADERS = (("Accept-Encoding", "identity"), ("User-Agent", "taskshim"))
"""Sent unless the request brings its own; complete, so that the client library adds none of its defaults."""

_FOREVER = contextlib.nullcontext()


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one exchange."""

    frame_bytes: int = 4 * 1024 * 1024
    connect_timeout_ms: int = 5_000
    answer_timeout_ms: int = 60_000


@dataclass(slots=True)
class Counted:
    """What became of an exchange."""

    outcome: str = "ok"


def open_client(limits: Limits, socket: str | None = None) -> aiohttp.ClientSession:
    """Make the one HTTP client of the process, or one of a Unix socket; close it at the end."""
    connector: aiohttp.BaseConnector
    if socket is None:
        connector = aiohttp.TCPConnector(limit=0, ttl_dns_cache=60, keepalive_timeout=_KEEPALIVE_S)
    else:
        connector = aiohttp.UnixConnector(socket, limit=0, keepalive_timeout=_KEEPALIVE_S)
    return aiohttp.ClientSession(
        connector=connector,
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=limits.connect_timeout_ms / 1000),
        auto_decompress=False,
        max_line_size=min(65536, limits.frame_bytes),
        max_field_size=65_536,
    )


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
        client: aiohttp.ClientSession,
        url: str,
        limits: Limits,
        on_change: Callable[[bool, str], None] | None = None,
    ) -> None:
        self.url = url
        self.limits = limits
        self._client = client
        self._address = URL(url)
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
        headers: Mapping[str, str] | Iterable[tuple[str, str]],
        body: bytes | None = None,
        *,
        patient: bool = False,
        at: str | None = None,
    ) -> aiohttp.ClientResponse:
        """Send a request and give the answer once its headers are in. Raises NeverSent, Interrupted.

        `patient` waits for them without a limit: a tool may take hours. `at` is another path of the server.
        """
        address = self._address if at is None else self._address.origin().join(URL(at, encoded=True))
        sent = CIMultiDict(headers)
        for name, value in _OWN_HEADERS:
            sent.setdefault(name, value)
        try:
            async with self.in_time(patient=patient):
                response = await self._client.request(
                    method, address, data=body, headers=sent, allow_redirects=False
                )
                self._health(up=True, evidence=f"HTTP {response.status}")
                return response
        except NEVER_SENT as exc:
            if no_descriptor(exc):  # which says nothing of the upstream
                raise NeverSent("the shim has too many open files to ask the upstream", 503) from exc
            why = unreached(exc)
            self._health(up=False, evidence=why)
            raise NeverSent(f"the upstream cannot be reached: {why}") from exc
        except BROKEN_OFF as exc:
            self._silent()
            raise interrupted(exc) from exc

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

    @contextlib.contextmanager
    def counting(self, method: str) -> Iterator[Counted]:
        """Count an exchange at its end; who reads an error in the answer says so."""
        counted = Counted()
        try:
            yield counted
        except BaseException as exc:
            counted.outcome = outcome_of(exc)
            raise
        finally:
            if self.on_exchange is not None:
                self.on_exchange(method, counted.outcome)

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

    async def read(self, response: aiohttp.ClientResponse) -> bytes:
        """Read a whole body within the frame bound. Raises Interrupted, UpstreamFault."""
        with self.budget.holding() as held:
            return await self._read(response, held)

    async def _read(self, response: aiohttp.ClientResponse, held: Holding) -> bytes:
        length = response.content_length
        if length is not None and length <= self.limits.frame_bytes:  # what is announced is all there can be
            self._hold(response, held, length)
            try:
                return await response.content.read()
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

    async def frames(self, response: aiohttp.ClientResponse) -> AsyncIterator[Frame]:
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

    def _hold(self, response: aiohttp.ClientResponse, held: Holding, more: int) -> None:
        """Count what of an answer has come. Raises UpstreamFault where there is no room for it."""
        if not held.fits(more):
            response.close()
            raise UpstreamFault("no room for the upstream's answer (limits.buffer_bytes)", 503, limit=BUFFERS)


async def chunks_of(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Give the body as it comes; a broken one raises Interrupted."""
    try:
        async for chunk in response.content.iter_any():
            yield chunk
    except BROKEN_OFF as exc:
        raise interrupted(exc) from exc


def media_type(headers: CIMultiDictProxy[str]) -> str:
    """Give the media type without its parameters, in lower case."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def odd_answer(response: aiohttp.ClientResponse) -> UpstreamFault:
    """Say that an answer is none of MCP's: what its status means, else what it brought."""
    status = of_status(response.status)
    if ":" in status or response.status >= SERVER_ERROR:
        return UpstreamFault(f"the upstream answered {status}")
    kind = media_type(response.headers) or "no media type"
    return UpstreamFault(
        f"the upstream answered {status}, which is no MCP answer ({kind})",
        recorded=f"the upstream answered {status}, which is no MCP answer",
    )


async def denied(link: Link, response: aiohttp.ClientResponse) -> Denied:
    """Turn a 401 or 403 into what is relayed to the client. Raises Interrupted, UpstreamFault."""
    async with link.in_time(patient=False):  # a tool may take hours, a refusal may not
        body = await link.read(response)
    return Denied(
        response.status,
        tuple(response.headers.getall("WWW-Authenticate", ())),
        body,
        response.headers.get("Content-Type", JSON_TYPE),
    )
