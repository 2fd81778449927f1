"""The requests of sessions under way: called off by their client, or gone on with without it (LM-RESUME)."""

import asyncio
from collections.abc import Awaitable

import structlog
from aiohttp import web

from shim.fronts.hosted.replay import Replays
from shim.fronts.legacy_request import Asked
from shim.upstreams.faults import fault_of
from shim.wire.errors import internal
from shim.wire.jsonrpc import write_error

log = structlog.get_logger("shim")

Work = asyncio.Task[web.StreamResponse]


class UnderWay:
    """Runs the requests of the sessions of one upstream."""

    def __init__(self, upstream: str, replays: Replays) -> None:
        self._upstream = upstream
        self._replays = replays
        self._work: dict[tuple[str, bytes], Work] = {}
        """By session and request id; the first one where a client uses an id twice."""

    async def run(self, asked: Asked, answer: Awaitable[web.StreamResponse]) -> web.StreamResponse:
        """Answer a request. One that `cancel` ends gets no answer: an empty stream.

        A call whose stream its client can take up again goes on for a while when that leaves.
        """
        if asked.session is None:
            return await answer
        where = (asked.session.session_id, asked.message.id)
        lingers = False
        work = asyncio.ensure_future(answer)
        self._work.setdefault(where, work)
        # the task methods may be asked again; what another call gives can only be had once
        verb = asked.dialect.methods.verb(asked.message.method)
        kept = None
        if asked.session.upstream != self._upstream:  # a call of a tool here, in another server's session
            asked.reply.without_event_ids()
        elif verb is None:
            kept = self._replays.open(asked.session.session_id, asked.reply)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            if kept is not None and asked.reply.resumable and not work.done():
                asked.ctx.trace.rule("LM-RESUME")
                lingers = True
                self._replays.lingering(kept, work, lambda: self._ended(where, work))
                raise
            if not work.cancelled() or (own := asyncio.current_task()) is None or own.cancelling():
                work.cancel()
                raise
            asked.ctx.trace.outcome = "cancelled"
            await asked.reply.open_stream()
            return await asked.reply.end_stream()
        finally:
            if kept is not None and not lingers:
                self._replays.end(kept)
            if not lingers:
                self._over(where, work)

    def cancel(self, session_id: str, request_id: bytes) -> None:
        """End a request that its client calls off; one that is over is not there any more."""
        work = self._work.get((session_id, request_id))
        if work is not None:
            work.cancel()

    def _ended(self, where: tuple[str, bytes], work: Work) -> bytes | None:
        """Take it that a request is over whose client had left; give its error if it failed."""
        self._over(where, work)
        exc = None if work.cancelled() else work.exception()
        if not isinstance(exc, Exception):
            return None
        fault = fault_of(exc)
        if fault is None:
            log.error("a request failed whose client had left", exc_info=exc)
            fault = internal()
        return write_error(where[1], fault.code, fault.message, fault.data)

    def _over(self, where: tuple[str, bytes], work: Work) -> None:
        if self._work.get(where) is work:
            del self._work[where]
