"""What both fronts for legacy clients do with a request first, whoever answers it."""

from aiohttp import web

from shim.fronts.detect import Detector
from shim.fronts.legacy_verbs import Asked
from shim.fronts.reply import Reply
from shim.fronts.sessions import ClientSessions
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context
from shim.wire.errors import invalid_request
from shim.wire.jsonrpc import Message, Request, Response

SESSION = "Mcp-Session-Id"


def session_header(http: web.BaseRequest) -> str | None:
    """Give the session id of a request; a doubled header is refused."""
    values = http.headers.getall(SESSION, ())
    if len(set(values)) > 1:
        raise invalid_request(f"{SESSION}: stands twice with different values")
    return values[0] if values else None


def exchange_name(http: web.BaseRequest, message: Message | None) -> str | None:
    """Give what the log calls the exchange; an answer to a server's request has no name."""
    if message is None:
        return http.method
    return None if isinstance(message, Response) else message.method


async def asked_in(
    detector: Detector, sessions: ClientSessions, http: web.BaseRequest, message: Request, ctx: Context,
    reply: Reply, session: SessionRow | None, pinned: str | None,
) -> Asked:  # fmt: skip
    """Give a request with the dialect it is in, which its session speaks from now on. Raises ClientFault."""
    dialect = await detector.of(message, ctx, session, pinned)
    ctx.trace.dialect = ctx.client_dialect = dialect.name
    if session is not None and detector.turns(session, message, dialect):
        await sessions.speaks(session, dialect.name)
    return Asked(http, message, ctx, reply, session, dialect)
