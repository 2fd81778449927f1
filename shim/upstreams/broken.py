"""What breaks an exchange with an upstream: aiohttp's errors, mapped at this border."""

import asyncio
import os

import aiohttp

from shim.wire.errors import UpstreamFault

NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
BROKEN_OFF = (aiohttp.ClientError, OSError, ValueError)


class NeverSent(UpstreamFault):
    """The request did not leave: the upstream cannot have run it."""


class Interrupted(UpstreamFault):
    """The exchange broke off: whether the upstream ran the request is not known."""


class Denied(UpstreamFault):
    """The upstream answered 401 or 403; relayed as it came (ERRORS)."""

    def __init__(self, status: int, challenge: tuple[str, ...], body: bytes, content_type: str) -> None:
        super().__init__("the upstream refused the credential", status)
        self.status = status
        self.challenge = challenge
        self.body = body
        self.content_type = content_type


def unreached(exc: Exception) -> str:
    """Say why there was no connection, without the address: clients read it."""
    match exc:
        case aiohttp.ClientConnectorDNSError():
            return "its name cannot be resolved"
        case aiohttp.ConnectionTimeoutError():
            return "no connection within connect_timeout_ms"
        case aiohttp.ClientConnectorCertificateError():
            return "its certificate does not hold (trusted ones: SSL_CERT_FILE)"
        case aiohttp.ClientConnectorError(os_error=OSError(errno=int(errno))):
            return os.strerror(errno)
    return type(exc).__name__


def interrupted(exc: Exception) -> Interrupted:
    """Say that an answer broke off, by aiohttp's name for it."""
    return Interrupted(f"the upstream's answer broke off: {type(exc).__name__}")


def outcome_of(exc: BaseException) -> str:
    """Name the end of an exchange that broke: denied, unreachable, broken, cancelled, error."""
    match exc:
        case asyncio.CancelledError():
            return "cancelled"
        case Denied():
            return "denied"
        case NeverSent():
            return "unreachable"
        case Interrupted():
            return "broken"
    return "error"
