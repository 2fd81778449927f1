"""Where a caller may come from; each source is one class, asked in the configured order (OWN-ID)."""

import base64
import ipaddress
import json
from collections.abc import Mapping, Sequence
from typing import Protocol

import structlog
from multidict import CIMultiDictProxy

from shim.callers.caller import Caller, Credential
from shim.callers.keys import Keys
from shim.wire.errors import unauthorized

log = structlog.get_logger("shim.callers")

_PURPOSE = "caller"
_KEY_PURPOSE = "api_key"
_BEARER = "bearer "
_JWT_PARTS = 3


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Source(Protocol):
    """One way to tell who calls."""

    def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:
        """Give the caller; None if this source does not apply. Raises unauthorized for a bad credential."""


class ApiKeySource:
    """Named keys in a header (kind `api_key`).

    They are looked up by a keyed hash, so the time it takes says nothing about any key.
    """

    def __init__(self, keys: Keys, header: str, named: Mapping[str, str]) -> None:
        self._keys = keys
        self._header = header
        self._shared = header.lower() == "authorization"
        self._callers = {
            keys.hash(_KEY_PURPOSE, value): (keys.hash(_PURPOSE, f"api_key:{name}"), name)
            for name, value in named.items()
        }

    def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:  # noqa: ARG002
        """Give the caller whose key the request carries."""
        given = _only(headers, self._header)
        if given is None:
            return None
        key = _token(given) if self._shared else given.strip()
        found = None if key is None else self._callers.get(self._keys.hash(_KEY_PURPOSE, key))
        if found is None:
            if self._shared:  # it may be another source's; with none that takes it, it is a 401 all the same
                return None
            raise unauthorized(f"{self._header}: not a known key")
        return Caller(found[0], "api_key", found[1], credential_of(self._keys, headers))


class HeaderSource:
    """A name set by a proxy in front, believed only from listed peers (kind `header`)."""

    def __init__(self, keys: Keys, header: str, trusted: Sequence[Network]) -> None:
        self._keys = keys
        self._header = header
        self._trusted = tuple(trusted)

    def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:
        """Give the caller that a trusted peer names."""
        name = _only(headers, self._header)
        if name is None:
            return None
        if not self._trusts(peer):
            raise unauthorized(f"{self._header}: not believed from this peer")
        if not name.strip():
            raise unauthorized(f"{self._header}: holds no name")
        key = self._keys.hash(_PURPOSE, f"header:{name.strip()}")
        return Caller(key, "header", None, credential_of(self._keys, headers))

    def _trusts(self, peer: str | None) -> bool:
        if peer is None:
            return False
        address = ipaddress.ip_address(peer)
        mapped = getattr(address, "ipv4_mapped", None)  # what a dual-stack socket shows of an IPv4 peer
        return any((mapped or address) in net for net in self._trusted)


class TokenSource:
    """A bearer credential taken by what it says of itself (kind `token`); see OWN-VOUCH.

    `judged` is False where no upstream sees it: then nothing it claims is believed, and it stands for itself.
    """

    def __init__(self, keys: Keys, *, judged: bool = True) -> None:
        self._keys = keys
        self._judged = judged
        self._warned = False

    def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:  # noqa: ARG002
        """Give issuer and subject of a JWT, which survive a refresh, else the token itself, hashed."""
        credential = credential_of(self._keys, headers)
        if credential is None:
            return None
        claims = _claims(_token(credential.authorization) or "") if self._judged else {}
        issuer, subject = claims.get("iss"), claims.get("sub")
        if isinstance(issuer, str) and isinstance(subject, str):
            identity = json.dumps(["jwt", issuer, subject])
        else:
            identity = f"token:{credential.fingerprint}"
            self._warn()
        return Caller(self._keys.hash(_PURPOSE, identity), "token", None, credential)

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            log.warning("a token without iss and sub: its caller loses its tasks with the next token")


def credential_of(keys: Keys, headers: CIMultiDictProxy[str]) -> Credential | None:
    """Give the request's own credential, whatever its scheme. Raises unauthorized for two of them."""
    value = _only(headers, "Authorization")
    if value is None:
        return None
    token = _token(value)
    fingerprint = keys.hash("credential", value if token is None else _BEARER + token)
    return Credential(value, fingerprint, None if token is None else _expires_ms(_claims(token)))


def _only(headers: CIMultiDictProxy[str], name: str) -> str | None:
    """Give a header that may not say two things at once; None without it."""
    values = headers.getall(name, ())
    if len(set(values)) > 1:
        raise unauthorized(f"{name}: stands twice with different values")
    return values[0] if values else None


def _token(authorization: str) -> str | None:
    """Give the token of a bearer credential; None for another scheme."""
    return authorization[len(_BEARER) :].strip() if authorization[: len(_BEARER)].lower() == _BEARER else None


def _claims(token: str) -> dict[str, object]:
    """Read a JWT's claims without checking them; {} for what is no JWT."""
    parts = token.split(".")
    if len(parts) != _JWT_PARTS:
        return {}
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except (ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}


def _expires_ms(claims: Mapping[str, object]) -> int | None:
    expires = claims.get("exp")
    if not isinstance(expires, int | float):
        return None
    try:
        return int(expires * 1000)
    except (OverflowError, ValueError):  # Infinity, NaN
        return None
