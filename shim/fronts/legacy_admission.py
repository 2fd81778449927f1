"""What both fronts for legacy clients do with an exchange first, whoever answers it."""

from dataclasses import dataclass

from aiohttp import web

from shim.fronts.detect import Detector
from shim.fronts.legacy_request import Asked
from shim.fronts.reply import Reply
from shim.fronts.sessions import ClientSessions
from shim.fronts.vouching import Vouching
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context
from shim.wire.http import SESSION_ID
from shim.wire.jsonrpc import Request


@dataclass(frozen=True, slots=True)
class Admission:
    """Tells whose session an exchange is in, which dialect it speaks, and whether its credential counts."""

    sessions: ClientSessions
    detector: Detector
    vouching: Vouching

    async def session(self, http: web.BaseRequest, ctx: Context) -> SessionRow | None:
        """Give the caller's session that the exchange names, if it names one. Raises ClientFault."""
        return await self.sessions.require(http.headers.get(SESSION_ID), ctx)

    async def asked(
        self, http: web.BaseRequest, message: Request, ctx: Context, reply: Reply,
        session: SessionRow | None, pinned: str | None,
    ) -> Asked:  # fmt: skip
        """Give a request with the dialect it is in, which its session speaks from now on.

        Raises ClientFault.
        """
        dialect = await self.detector.of(message, ctx, session, pinned)
        ctx.trace.dialect = ctx.client_dialect = dialect.name
        if session is not None and self.detector.turns(session, message, dialect):
            await self.sessions.speaks(session, dialect.name)
        return Asked(http, message, ctx, reply, session, dialect)
