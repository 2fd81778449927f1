"""What breaks an exchange with an upstream: aiohttp's errors, mapped at this border."""

import asyncio
import errno
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

import aiohttp

from shim.wire.errors import UpstreamFault

NEVER_SENT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
BROKEN_OFF = (aiohttp.ClientError, OSError, ValueError)

_BREAKS: Mapping[type[Exception], str] = {
    aiohttp.ServerDisconnectedError: "it closed the connection without an answer",
    aiohttp.ClientPayloadError: "it closed the connection in the middle",
    aiohttp.ClientOSError: "the connection was lost",
    ConnectionResetError: "the connection was lost",
}


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
        case aiohttp.ClientConnectorCertificateError(
            certificate_error=ssl.SSLCertVerificationError() as fault
        ):
            why = fault.verify_message.partition(",")[0]  # what follows names the address
            return f"its certificate does not hold: {why} (trusted ones: {_trusted()})"
        case aiohttp.ClientConnectorSSLError():
            return "it does not speak TLS there, or not as it must; look at the scheme and port of its URL"
        case aiohttp.ClientConnectorError(os_error=OSError(errno=int(number))):
            return os.strerror(number)
    return type(exc).__name__


def _trusted() -> str:
    """Name what says which certificates are trusted; a file that is not there is passed over in silence."""
    named = os.environ.get("SSL_CERT_FILE")
    return "SSL_CERT_FILE" if not named or Path(named).is_file() else "SSL_CERT_FILE, which names no file"


def no_descriptor(exc: Exception) -> bool:
    """Tell a want of file descriptors of our own."""
    why = exc.os_error if isinstance(exc, aiohttp.ClientConnectorError) else None
    return why is not None and why.errno in {errno.EMFILE, errno.ENFILE}


def interrupted(exc: Exception) -> Interrupted:
    """Say that an answer broke off, and how."""
    why = _BREAKS.get(type(exc), type(exc).__name__)
    return Interrupted(f"the upstream's answer broke off: {why}")


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
