"""What a modern server announces, for the GET stream of a legacy session (LM-STREAM)."""

import asyncio
import contextlib
from dataclasses import replace

from shim.clock import Clock, retry_ms
from shim.config import Config
from shim.fronts.hosted.sessions import resources
from shim.fronts.hosted.streams import Open
from shim.hub.rawjson import RawJsonError
from shim.ledger.protocol import Ledger
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context, Upstream
from shim.wire.errors import ShimError
from shim.wire.hosting import legacy_notice
from shim.wire.jsonrpc import Notification, write_notification
from shim.wire.subscriptions import ANNOUNCED, FILTER, offered, write_filter

_RETRY_MS = (1_000, 5_000, 30_000)


class Listening:
    """Keeps the subscriptions behind GET streams."""

    def __init__(self, config: Config, upstream: Upstream, ledger: Ledger, clock: Clock) -> None:
        self._config = config
        self._upstream = upstream
        self._ledger = ledger
        self._clock = clock

    async def run(self, ctx: Context, session_id: str, stream: Open) -> None:
        """Listen for a stream until it is cancelled, or the server turns out to have no subscriptions.

        What the client subscribed to may change meanwhile; then the server is asked anew. After the first
        time it is the shim's own work: by the caller's newest credential, or not (OWN-CREDENTIAL).
        """
        attempt = 0
        while (session := await self._ledger.session(session_id)) is not None:
            began = self._clock.ticks_ms()
            listening = asyncio.ensure_future(self._listen(ctx, session, stream))
            changed = asyncio.ensure_future(self._changed(session_id, session.settings, stream))
            try:
                await asyncio.wait((listening, changed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                listening.cancel()
                changed.cancel()
            ctx = replace(ctx, caller=replace(ctx.caller, credential=None))
            if not listening.done():
                continue
            with contextlib.suppress(ShimError, RawJsonError):
                if not listening.result():
                    return
            if self._clock.ticks_ms() - began > _RETRY_MS[-1]:
                attempt = 0
            await self._clock.sleep_ms(retry_ms(_RETRY_MS, attempt))
            attempt += 1
            while self._upstream.credentials.waiting(ctx):
                await self._upstream.credentials.renewed(ctx)

    async def _wanted(self, ctx: Context, session: SessionRow) -> bytes | None:
        """Give the filter: what the server offers, and the resources the client subscribed to."""
        lists, _ = offered((await self._upstream.facts(ctx)).init.get("capabilities", b"{}"))
        uris = resources(session)
        return write_filter(lists, uris) if lists or uris else None

    async def _listen(self, ctx: Context, session: SessionRow, stream: Open) -> bool:
        """Pass on what comes; False where the server has no subscriptions at all. Raises ShimError."""
        wanted = await self._wanted(ctx, session)
        while wanted is None:
            await asyncio.Event().wait()  # for the client to want something

        async def heard(message: Notification) -> None:
            if message.method in ANNOUNCED:
                notice = write_notification(message.method, legacy_notice(message.params))
                stream.announce(notice, self._config.limits.queue_per_stream)

        return await self._upstream.listen(ctx, {FILTER: wanted}, heard)

    async def _changed(self, session_id: str, settings: bytes, stream: Open) -> None:
        """Wait until the client asks for something else."""
        while True:
            await stream.asked.wait()
            stream.asked.clear()
            session = await self._ledger.session(session_id)
            if session is None or session.settings != settings:
                return
