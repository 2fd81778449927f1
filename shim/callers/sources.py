"""Where a caller may come from; each source is one class, asked in the configured order (OWN-ID)."""

import base64
import hmac
import ipaddress
import json
from collections.abc import Mapping, Sequence
from typing import Protocol

from multidict import CIMultiDictProxy

from shim.callers.caller import Caller, Credential
from shim.callers.keys import Keys
from shim.wire.errors import unauthorized

_PURPOSE = "caller"
_BEARER = "bearer "
_JWT_PARTS = 3


Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Source(Protocol):
    """One way to tell who calls."""

    def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:
        """Give the caller; None if this source does not apply. Raises unauthorized for a bad credential."""


class ApiKeySource:
    """Named keys in a header (kind `api_key`); compared in constant time."""

    def __init__(self, keys: Keys, header: str, named: Mapping[str, str]) -> None:
        self._keys = keys
        self._header = header
        self._named = {name: value.encode() for name, value in named.items()}

    def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:  # noqa: ARG002
        """Give the caller whose key the request carries."""
        given = headers.get(self._header)
        if given is None:
            return None
        if self._header.lower() == "authorization":
            given = given[len(_BEARER) :] if given.lower().startswith(_BEARER) else ""
        found: str | None = None
        for name, value in self._named.items():
            if hmac.compare_digest(given.encode(), value):
                found = name
        if found is None:
            raise unauthorized(f"{self._header}: not a known key")
        return Caller(
            self._keys.hash(_PURPOSE, f"api_key:{found}"), "api_key", found, bearer(self._keys, headers)
        )


class HeaderSource:
    """A name set by a proxy in front, believed only from listed peers (kind `header`)."""

    def __init__(self, keys: Keys, header: str, trusted: Sequence[Network]) -> None:
        self._keys = keys
        self._header = header
        self._trusted = tuple(trusted)

    def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:
        """Give the caller that a trusted peer names."""
        names = set(headers.getall(self._header, ()))
        if not names or peer is None:
            return None
        address = ipaddress.ip_address(peer)
        if not any(address in net for net in self._trusted):
            raise unauthorized(f"{self._header}: not believed from this peer")
        if len(names) > 1 or not (name := names.pop().strip()):
            raise unauthorized(f"{self._header}: expected one name")
        return Caller(
            self._keys.hash(_PURPOSE, f"header:{name}"), "header", None, bearer(self._keys, headers)
        )


class TokenSource:
    """A bearer credential taken by what it says of itself (kind `token`); see OWN-VOUCH."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:  # noqa: ARG002
        """Give issuer and subject of a JWT, which survive a refresh, else the token itself, hashed."""
        credential = bearer(self._keys, headers)
        if credential is None:
            return None
        claims = _claims(credential.authorization[len(_BEARER) :])
        issuer, subject = claims.get("iss"), claims.get("sub")
        if isinstance(issuer, str) and isinstance(subject, str):
            identity = json.dumps(["jwt", issuer, subject])
        else:
            identity = f"token:{credential.fingerprint}"
        expires = claims.get("exp")
        if isinstance(expires, int | float) and not isinstance(expires, bool):
            credential = Credential(credential.authorization, credential.fingerprint, int(expires * 1000))
        return Caller(self._keys.hash(_PURPOSE, identity), "token", None, credential)


def bearer(keys: Keys, headers: CIMultiDictProxy[str]) -> Credential | None:
    """Give the request's bearer credential; doubled ones are refused."""
    values = set(headers.getall("Authorization", ()))
    if not values:
        return None
    if len(values) > 1:
        raise unauthorized("Authorization: stands twice with different values")
    value = values.pop()
    if not value.lower().startswith(_BEARER):
        return Credential(value, keys.hash("credential", value))
    return Credential(value, keys.hash("credential", value[len(_BEARER) :]))


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
