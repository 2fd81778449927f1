"""The admin address of a running shim, as commands on the same machine reach it."""

import urllib.error
import urllib.request
from contextlib import AbstractContextManager
from http.client import HTTPException
from ipaddress import ip_address
from typing import IO, cast

from shim.cli.common import fail
from shim.config.operations import Admin

_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Heeds no proxy of the environment: a request may carry the admin token."""


def is_known(admin: Admin) -> bool:
    """Tell whether the config says where the admin address is."""
    return admin.enabled and admin.port != 0


def url_of(admin: Admin) -> str:
    """Give its URL. Ends the command with exit code 2 where the config does not say it."""
    if not admin.enabled:
        fail("admin.enabled: false, so there is no address to ask")
    if not is_known(admin):
        fail("admin.port: 0 takes any free port, so there is no address to ask: name one")
    host = _reached(admin.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{admin.port}"


def asked(request: str | urllib.request.Request, timeout_s: float) -> AbstractContextManager[IO[bytes]]:
    """Send a request and give the answer. Raises OSError, HTTPError for a status of 400 or more."""
    return cast("AbstractContextManager[IO[bytes]]", _DIRECT.open(request, timeout=timeout_s))


def why_not(exc: OSError | HTTPException) -> str:
    """Say in a few words why there was no answer."""
    cause = exc.reason if isinstance(exc, urllib.error.URLError) else exc
    return getattr(cause, "strerror", None) or str(cause) or type(cause).__name__


def _reached(host: str) -> str:
    """Give the address under which a listener on `host` is reached from its own machine."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    return "::1" if address.version == 6 else "127.0.0.1"  # noqa: PLR2004 - IPv6
