"""Addresses as settings: what may be served from or sent to, and which are this machine's own."""

from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator


def web_url(url: str) -> str:
    """Give an address that can be served from or sent to as it is. Raises ValueError."""
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError("must be an http:// or https:// URL")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not hold a user or password")
    if parts.fragment:
        raise ValueError("must not have a #fragment")
    return url


def is_loopback(host: str) -> bool:
    """Tell whether a name or address is this machine's own only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


WebUrl = Annotated[str, AfterValidator(web_url)]
