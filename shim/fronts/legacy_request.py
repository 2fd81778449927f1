"""One request of a legacy client, and what its headers say of it."""

from dataclasses import dataclass

from aiohttp import web

from shim.fronts.reply import Reply
from shim.hub.dialect import Dialect
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context
from shim.wire.errors import invalid_request
from shim.wire.http import SESSION_ID
from shim.wire.jsonrpc import Message, Request, Response


@dataclass(slots=True, eq=False)
class Asked:
    """A request with the session and the dialect it is in, and where its answer goes."""

    http: web.BaseRequest
    message: Request
    ctx: Context
    reply: Reply
    session: SessionRow | None
    dialect: Dialect


def session_header(http: web.BaseRequest) -> str | None:
    """Give the session id of a request; a doubled header is refused."""
    values = http.headers.getall(SESSION_ID, ())
    if len(set(values)) > 1:
        raise invalid_request(f"{SESSION_ID}: stands twice with different values")
    return values[0] if values else None


def exchange_name(http: web.BaseRequest, message: Message | None) -> str | None:
    """Give what the log calls the exchange; an answer to a server's request has no name."""
    if message is None:
        return http.method
    return None if isinstance(message, Response) else message.method
