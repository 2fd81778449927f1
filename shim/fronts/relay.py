"""Passing an exchange of two sides that speak alike through, byte for byte (LL-1, MM-1).

The request is re-built from its parsed members; the answer and its streams go back as they came. A
`Tap` sees each message on the way and may hold it until something is on disk.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from aiohttp import hdrs, web

from shim.fronts.reply import Reply
from shim.upstreams.authority import Authority
from shim.upstreams.base import Context
from shim.upstreams.broken import Interrupted, outcome_of
from shim.upstreams.client import Answer
from shim.upstreams.http import Counted, Link, media_type
from shim.wire.era import Era
from shim.wire.http import (
    JSON_TYPE,
    LAST_EVENT_ID,
    PROTOCOL_VERSION,
    SESSION_ID,
    SSE_TYPE,
    UNAUTHORIZED,
    is_refusal,
    is_success,
)
from shim.wire.jsonrpc import is_error

Tap = Callable[[bytes], Awaitable[bytes | None]]
"""Sees one message before it passes; None lets it pass as it is, bytes replace it, DROPPED keeps it back."""
DROPPED = b""
Beside = Callable[[], Coroutine[Any, Any, None]]
"""Says more on the stream, between its messages, for as long as that is open."""
Opened = Callable[[Answer, bytes], Awaitable[bytes | None]]
"""Sees a whole answer with its headers; bytes replace it."""


@dataclass(frozen=True, slots=True)
class Passed:
    """The headers that pass as they are between two sides of one era (HEADERS)."""

    era: Era
    onwards: tuple[str, ...]
    back: tuple[str, ...]


LEGACY_HEADERS = Passed(
    Era.LEGACY,
    ("Accept", SESSION_ID, PROTOCOL_VERSION, LAST_EVENT_ID),
    (SESSION_ID, "WWW-Authenticate", "Retry-After", "Allow", PROTOCOL_VERSION),
)
MODERN_HEADERS = Passed(Era.MODERN, ("Accept",), ("WWW-Authenticate", "Retry-After", "Allow"))

_JSON = b"{"


class Relay:
    """Forwards exchanges to one upstream."""

    def __init__(self, link: Link, authority: Authority, passed: Passed = LEGACY_HEADERS) -> None:
        self._link = link
        self._authority = authority
        self._passed = passed

    async def forward(
        self,
        http: web.BaseRequest,
        ctx: Context,
        reply: Reply,
        body: bytes | None,
        *,
        mirrored: Sequence[tuple[str, str]] = (),
        tap: Tap | None = None,
        opened: Opened | None = None,
        beside: Beside | None = None,
    ) -> web.StreamResponse:
        """Send the request on and the answer back. Raises NeverSent, Interrupted.

        `mirrored` are headers that say what the body says; `opened` sees a whole JSON answer together with
        its headers (a session being opened).
        """
        headers = [*mirrored, *self._headers(http, ctx, has_body=body is not None)]
        with self._link.counting(ctx.trace.method or "other") as counted:
            return await self._exchange(http, headers, ctx, reply, body, tap, opened, beside, counted)

    async def _exchange(
        self, http: web.BaseRequest, headers: Sequence[tuple[str, str]], ctx: Context, reply: Reply,
        body: bytes | None, tap: Tap | None, opened: Opened | None, beside: Beside | None, counted: Counted,
    ) -> web.StreamResponse:  # fmt: skip
        ctx.trace.upstream_calls += 1
        response = await self._link.send(http.method, headers, body, patient=True)
        async with response:
            ctx.trace.http_status = response.status
            if refused := is_refusal(response.status):
                counted.outcome = "denied" if response.status in UNAUTHORIZED else "error"
            if is_success(response.status):
                self._authority.accepted(ctx)
            elif response.status in UNAUTHORIZED:
                self._authority.refused(ctx)
            for name in self._passed.back:
                for value in response.headers.getall(name, ()):
                    reply.add_header(name, value)
            if media_type(response.headers) == SSE_TYPE:
                await reply.open_stream(response.status)
                async with _while_open(beside):
                    try:
                        await self._stream(response, reply, tap, counted)
                    except Interrupted as exc:
                        if self._passed.era is not Era.LEGACY or not reply.resumable:
                            raise
                        counted.outcome = outcome_of(exc)  # its client takes it up again, as without a shim
                    return await reply.end_stream()
            # a tool may take hours, a refusal may not
            answer = await (self._link.read_in_time if refused else self._link.read)(response)
            if not answer and http.method == hdrs.METH_POST and is_success(response.status):
                return reply.empty(202)  # any empty 2xx will do (NOTIFY)
            if is_error(answer):
                reply.failed()
                counted.outcome = "error"
                self._link.judge(self._passed.era, response.status, answer)
            if opened is not None:
                if is_success(response.status):
                    answer = await opened(response, answer) or answer
            elif tap is not None and answer.lstrip()[:1] == _JSON:
                answer = await tap(answer) or answer
            if not refused:  # what is refused is no answer of the call
                await reply.answering(answer)
            return reply.raw(response.status, answer, response.headers.get(hdrs.CONTENT_TYPE))

    async def _stream(self, response: Answer, reply: Reply, tap: Tap | None, counted: Counted) -> None:
        async for frame in self._link.frames(response):
            reply.resumable |= frame.id is not None
            raw, shown = frame.raw, frame.data or b""
            if tap is not None and frame.data and frame.data.lstrip()[:1] == _JSON:
                replaced = await tap(frame.data)
                if replaced == DROPPED:
                    continue
                if replaced is not None:
                    raw, shown = frame.with_data(replaced), replaced
            if is_error(shown):
                counted.outcome = "error"
            await reply.answering(shown)
            await reply.raw_frame(raw)

    def _headers(self, http: web.BaseRequest, ctx: Context, *, has_body: bool) -> list[tuple[str, str]]:
        headers = [(name, value) for name in self._passed.onwards for value in http.headers.getall(name, ())]
        if has_body:
            headers.append((hdrs.CONTENT_TYPE, JSON_TYPE))
        headers.extend(self._authority.headers(ctx))
        return headers


@contextlib.asynccontextmanager
async def _while_open(beside: Beside | None) -> AsyncIterator[None]:
    """Let more be said while the block runs; what goes wrong there is not the stream's."""
    if beside is None:
        yield
        return
    saying = asyncio.create_task(beside(), name="beside a stream")
    try:
        yield
    finally:
        saying.cancel()
        await asyncio.wait((saying,))
