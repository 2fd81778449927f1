"""The GET stream of an upstream session: open before anything may be asked, and opened again (ML-STREAMS)."""

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable

from shim.clock import Clock, retry_ms
from shim.upstreams.authority import Authority
from shim.upstreams.base import Context
from shim.upstreams.broken import Denied
from shim.upstreams.client import Answer
from shim.upstreams.http import Link, media_type
from shim.wire.errors import UpstreamFault
from shim.wire.http import LAST_EVENT_ID, OK, SSE_TYPE, UNAUTHORIZED
from shim.wire.jsonrpc import Message, read_upstream

_RECONNECT_MS = (250, 1_000, 4_000, 15_000)
_BUSY = (409, 429)
_DOWN = 500


class GetStream:
    """Keeps one session's stream open; what comes on it is `heard`.

    `unheard` is told when it stays closed until the caller comes with a credential (OWN-CREDENTIAL).
    """

    def __init__(
        self, name: str, link: Link, authority: Authority, clock: Clock, *,
        headers: Callable[[Context, str], list[tuple[str, str]]],
        heard: Callable[[Context, Message], Awaitable[None]], unheard: Callable[[], Awaitable[None]],
    ) -> None:  # fmt: skip
        self.refused = False
        """True once the server said that it has no GET stream."""
        self._name = name
        self._link = link
        self._authority = authority
        self._clock = clock
        self._headers = headers
        self._heard = heard
        self._unheard = unheard
        self._over = False
        self._kept: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()
        self._last_event_id: str | None = None
        self._retry_ms: int | None = None
        """How long the server asks to wait before a stream that ended is opened again."""

    async def open(self, ctx: Context) -> None:
        """Open it and return once its headers are in; it is kept open from then on."""
        if self.refused:
            return
        if self._kept is None or self._kept.done():
            opened = self._opened = asyncio.Event()
            # the stream outlives the request that opens it: it keeps neither its credential nor its client
            lasting = dataclasses.replace(
                ctx, caller=dataclasses.replace(ctx.caller, credential=None), notify=None, asking=None,
                progress_token=None, log_level=None,
            )  # fmt: skip
            self._kept = asyncio.create_task(self._keep(lasting, opened), name=f"get-stream {self._name}")
            self._kept.add_done_callback(lambda _: opened.set())
        await self._opened.wait()

    async def over(self) -> None:
        """Wait until it is not opened again by itself."""
        if self._kept is not None:
            await asyncio.wait([self._kept])

    def lose(self) -> None:
        """Take it that the server forgot the session; nothing comes any more."""
        self._over = True
        if self._kept is not None and self._kept is not asyncio.current_task():
            self._kept.cancel()

    async def close(self) -> None:
        """Close it; the server is told nothing."""
        if self._kept is not None:
            self._kept.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._kept
            self._kept = None

    async def _keep(self, ctx: Context, opened: asyncio.Event) -> None:
        attempt = 0
        while not self._over:
            if self._authority.waiting(ctx):
                await self._unheard()
                return
            headers = self._headers(ctx, SSE_TYPE)
            if self._last_event_id is not None:
                headers.append((LAST_EVENT_ID, self._last_event_id))
            try:
                response = await self._link.send("GET", headers)
                async with response:
                    opened.set()
                    if response.status == OK and media_type(response.headers) == SSE_TYPE:
                        attempt = 0
                        await self._read(ctx, response)
                    elif response.status in UNAUTHORIZED:
                        self._authority.refused(ctx)
                        await self._unheard()
                        return
                    elif response.status not in _BUSY and response.status < _DOWN:
                        self.refused = True
                        return
            except (UpstreamFault, Denied):
                opened.set()
            wait_ms = self._retry_ms if attempt == 0 else None
            await self._clock.sleep_ms(wait_ms or retry_ms(_RECONNECT_MS, attempt))
            attempt += 1

    async def _read(self, ctx: Context, response: Answer) -> None:
        async for frame in self._link.frames(response):
            if frame.id is not None:
                self._last_event_id = frame.id or None
            if frame.retry_ms is not None:
                self._retry_ms = frame.retry_ms
            if frame.data:
                await self._heard(ctx, read_upstream(frame.data))
