"""What a modern server announces, for the GET stream of a legacy session (LM-STREAM)."""

import asyncio

from shim.clock import Clock
from shim.fronts.hosted.sessions import resources
from shim.fronts.hosted.streams import Open
from shim.ledger.protocol import Ledger
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context, Upstream
from shim.wire.errors import ShimError
from shim.wire.hosting import without_subscription
from shim.wire.jsonrpc import Notification, write_notification
from shim.wire.subscriptions import ANNOUNCED, FILTER, offered, write_filter

_RETRY_MS = (1_000, 5_000, 30_000)


class Listening:
    """Keeps the subscriptions behind GET streams."""

    def __init__(self, upstream: Upstream, ledger: Ledger, clock: Clock) -> None:
        self._upstream = upstream
        self._ledger = ledger
        self._clock = clock

    async def run(self, ctx: Context, session_id: str, stream: Open) -> None:
        """Listen for a stream until it is cancelled, or the server turns out to have no subscriptions.

        What the client subscribed to may change meanwhile; then the server is asked anew.
        """
        attempt = 0
        while (session := await self._ledger.session(session_id)) is not None:
            wanted = await self._wanted(ctx, session)
            if wanted is None:
                await self._changed(session_id, session.settings, stream)
                continue
            listening = asyncio.ensure_future(self._listen(ctx, wanted, stream))
            changed = asyncio.ensure_future(self._changed(session_id, session.settings, stream))
            try:
                await asyncio.wait((listening, changed), return_when=asyncio.FIRST_COMPLETED)
            finally:
                for work in (listening, changed):
                    work.cancel()
            if listening.done() and not listening.cancelled():
                fault = listening.exception()
                if fault is None and listening.result() is False:
                    return
                if fault is not None and not isinstance(fault, ShimError):
                    raise fault
                await self._clock.sleep_ms(_RETRY_MS[min(attempt, len(_RETRY_MS) - 1)])
                attempt += 1

    async def _wanted(self, ctx: Context, session: SessionRow) -> bytes | None:
        """Give the filter: what the server offers, and the resources the client subscribed to."""
        lists, _ = offered((await self._upstream.facts(ctx)).init.get("capabilities", b"{}"))
        uris = resources(session)
        return write_filter(lists, uris) if lists or uris else None

    async def _listen(self, ctx: Context, wanted: bytes, stream: Open) -> bool:
        """Pass on what comes; False where the server has no subscriptions at all."""

        async def heard(message: Notification) -> None:
            if message.method in ANNOUNCED:
                stream.news.append(write_notification(message.method, without_subscription(message.params)))
                stream.wake.set()

        return await self._upstream.listen(ctx, {FILTER: wanted}, heard)

    async def _changed(self, session_id: str, settings: bytes, stream: Open) -> None:
        """Wait until the client asks for something else."""
        while True:
            await stream.asked.wait()
            stream.asked.clear()
            session = await self._ledger.session(session_id)
            if session is None or session.settings != settings:
                return
