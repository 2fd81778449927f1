"""Where a caller may come from; each source is one class, asked in the configured order (OWN-ID)."""

import ipaddress
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import structlog
from multidict import CIMultiDictProxy

from shim.callers.caller import Caller
from shim.callers.credentials import bearer_token, claims_of, credential_of, only
from shim.callers.keys import Keys
from shim.callers.refused import Refused

log = structlog.get_logger("shim.callers")

CALLER_PURPOSE = "caller"
_KEY_PURPOSE = "api_key"

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Source(Protocol):
    """One way to tell who calls."""

    async def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:
        """Give the caller; None if this source does not apply.

        Raises Refused for a credential that is this source's to judge and does not count, Undecided where
        that cannot be told now.
        """


class ApiKeySource:
    """Named keys in a header (kind `api_key`), by their SHA-256.

    They are looked up by a keyed hash, so the time it takes says nothing about any key.
    """

    def __init__(self, keys: Keys, header: str, digests: Mapping[str, str]) -> None:
        self._keys = keys
        self._header = header
        self._shared = header.lower() == "authorization"
        self._callers = {
            keys.hash(_KEY_PURPOSE, digest): Caller(
                keys.hash(CALLER_PURPOSE, f"api_key:{name}"), "api_key", name
            )
            for name, digest in digests.items()
        }

    async def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:  # noqa: ARG002
        """Give the caller whose key the request carries."""
        given = only(headers, self._header)
        if given is None:
            return None
        key = bearer_token(given) if self._shared else given.strip()
        found = None if key is None else self._callers.get(self._keys.hash(_KEY_PURPOSE, key, digested=True))
        if found is None:
            if self._shared:  # it may be another source's; with none that takes it, it is a 401 all the same
                return None
            raise Refused("api_key", f"{self._header}: not a known key")
        credential = credential_of(self._keys, headers)
        return found if credential is None else replace(found, credential=credential)


class HeaderSource:
    """A name set by a proxy in front, believed only from listed peers (kind `header`)."""

    def __init__(self, keys: Keys, header: str, trusted: Sequence[Network]) -> None:
        self._keys = keys
        self._header = header
        self._trusted = tuple(trusted)

    async def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:
        """Give the caller that a trusted peer names."""
        if self._header not in headers:
            return None
        if not self._trusts(peer):
            raise Refused("peer", f"{self._header}: not believed from this peer")
        name = (only(headers, self._header) or "").strip()
        if not name:
            raise Refused("header", f"{self._header}: holds no name")
        key = self._keys.hash(CALLER_PURPOSE, f"header:{name}")
        return Caller(key, "header", None, credential_of(self._keys, headers))

    def _trusts(self, peer: str | None) -> bool:
        if not peer:  # a Unix socket has none
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

    async def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:  # noqa: ARG002
        """Give issuer and subject of a JWT, which survive a refresh, else the token itself, hashed."""
        credential = credential_of(self._keys, headers)
        if credential is None:
            return None
        claims = claims_of(bearer_token(credential.authorization) or "") if self._judged else {}
        issuer, subject = claims.get("iss"), claims.get("sub")
        if isinstance(issuer, str) and isinstance(subject, str):
            identity = person(issuer, {"sub": subject})
        else:
            identity = f"token:{credential.fingerprint}"
            self._warn()
        return Caller(self._keys.hash(CALLER_PURPOSE, identity), "token", None, credential)

    def _warn(self) -> None:
        if not self._warned:
            self._warned = True
            log.warning("a token without iss and sub: its caller loses its tasks with the next token")


def person(issuer: str, claims: Mapping[str, object]) -> str:
    """Give what a caller of an issuer's is known by: the same, whichever way its token was checked."""
    if claims.keys() == {"sub"}:
        return json.dumps(["jwt", issuer, claims["sub"]])
    return json.dumps(["claims", issuer, dict(claims)], sort_keys=True)
