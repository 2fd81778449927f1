"""Callers of signed tokens, checked here (kind `jwt`). Imported only where it is configured: extra `jwt`."""

from pathlib import Path
from typing import Any, Protocol

from multidict import CIMultiDictProxy

from shim.callers.caller import Caller
from shim.callers.claims import caller_of, label_of, until_ms
from shim.callers.credentials import JWT_DOTS, bearer_token, check_size, credential_of, fingerprint_of, only
from shim.callers.encoded import object_in, unpadded
from shim.callers.jwk import Key, KeySetError, read_keys
from shim.callers.jwks import FileKeys, KeySet
from shim.callers.keys import Keys
from shim.callers.provider import Providers
from shim.callers.refused import Refused
from shim.callers.sources import CALLER_PURPOSE
from shim.clock import Clock
from shim.config import ConfigError, read_file
from shim.config.identity import JwtIdentity
from shim.recent import Recent

_REMEMBERED = 4_096
_TRIED = 8
"""Keys that a token which names none is tried with at most."""
_UNDERSTOOD_NOWHERE = ("crit", "b64")


class Keyring(Protocol):
    """Where the keys come from."""

    def counts(self, key: Key) -> bool:
        """Tell whether a key that was found counts still."""

    async def find(self, kid: str | None, algorithm: str) -> list[Key]:
        """Give the keys that a token may be signed with. Raises Undecided."""

    async def another(self, kid: str | None, algorithm: str, tried: list[Key]) -> list[Key]:
        """Give keys that were not tried, if there may be news of them."""


class JwtSource:
    """Issuer and subject, or the claims that the config names, of a token that the provider signed.

    A bearer token of three parts is this source's to judge. One that was found good is not checked again
    while it has not expired and its key counts.
    """

    def __init__(
        self, settings: JwtIdentity, keys: Keys, ring: Keyring, clock: Clock, token_bytes: int
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._ring = ring
        self._clock = clock
        self._token_bytes = token_bytes
        self._good: Recent[str, tuple[Caller, Key, int]] = Recent(_REMEMBERED)

    async def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:  # noqa: ARG002
        """Give the caller that the provider vouches for. Raises Refused, Undecided."""
        authorization = only(headers, "Authorization")
        token = None if authorization is None else bearer_token(authorization)
        if authorization is None or token is None or token.count(".") != JWT_DOTS:
            return None
        check_size(token, self._token_bytes)
        fingerprint = fingerprint_of(self._keys, authorization)
        known = self._good.get(fingerprint)
        if known is not None and self._clock.now_ms() < known[2] and self._ring.counts(known[1]):
            return known[0]
        claims, key = await self._verified(token)
        ends_ms = until_ms(claims, self._settings, self._clock.now_ms())
        if ends_ms is None:
            raise Refused("token_claims", "the token has no exp")
        caller = Caller(
            self._keys.hash(CALLER_PURPOSE, caller_of(claims, self._settings)),
            "jwt", label_of(claims, self._settings),
            credential_of(self._keys, headers),
        )  # fmt: skip
        self._good[fingerprint] = caller, key, ends_ms
        return caller

    async def _verified(self, token: str) -> tuple[dict[str, Any], Key]:
        """Give the claims of a token and the key that signed it. Raises Refused, Undecided."""
        algorithm, kid = self._header(token)
        found = (await self._ring.find(kid, algorithm))[:_TRIED]
        if not found:
            raise Refused("token_key", "the token is signed by no key of the provider's")
        signed = _signed(token, algorithm, found)
        if signed is None and kid is None:
            signed = _signed(token, algorithm, (await self._ring.another(kid, algorithm, found))[:_TRIED])
        if signed is None:
            raise Refused("token_signature", "the token's signature is not good")
        payload, key = signed
        return _object(payload), key

    def _header(self, token: str) -> tuple[str, str | None]:
        """Give algorithm and key name of a token; nothing else in its header is followed. Raises Refused."""
        header = _object(unpadded(token.partition(".")[0]))
        if any(name in header for name in _UNDERSTOOD_NOWHERE):
            raise Refused("token_form", "the token asks for an extension that is not served")
        kind = header.get("typ", "JWT")
        if not isinstance(kind, str) or _kind(kind) not in map(_kind, self._settings.types):
            raise Refused("token_type", "the token is of a kind that is not served")
        algorithm, kid = header.get("alg"), header.get("kid")
        if not isinstance(algorithm, str) or algorithm not in self._settings.algorithms:
            raise Refused("token_algorithm", "the token is signed by an algorithm that is not served")
        if not isinstance(kid, str | None):
            raise Refused("token_form", "the token's kid is no text")
        return algorithm, kid


def jwt_source(settings: JwtIdentity, keys: Keys, providers: Providers, token_bytes: int) -> JwtSource:
    """Make the source; keys fetched before a reload are kept. Raises ConfigError."""
    ring: Keyring
    if settings.jwks_file is not None:
        ring = FileKeys(file_keys(settings.jwks_file))
    else:
        kept = providers.kept.get(str(settings.jwks_url))
        ring = kept if isinstance(kept, KeySet) else KeySet(settings, providers)
        ring.renew(settings)
        providers.kept = {str(settings.jwks_url): ring}
    return JwtSource(settings, keys, ring, providers.clock, token_bytes)


def file_keys(path: Path) -> tuple[Key, ...]:
    """Read the keys of a file. Raises ConfigError."""
    try:
        return read_keys(read_file(path, "identity.jwt.jwks_file").encode())
    except KeySetError as exc:
        raise ConfigError(f"identity.jwt.jwks_file: {path}: {exc}") from exc


def _signed(token: str, algorithm: str, tried: list[Key]) -> tuple[bytes, Key] | None:
    for key in tried:
        payload = key.verifies(token, algorithm)
        if payload is not None:
            return payload, key
    return None


def _kind(typ: str) -> str:
    """Give a `typ` as it compares: RFC 7515 lets "application/" be left out."""
    return typ.lower().removeprefix("application/")


def _object(data: bytes | None) -> dict[str, Any]:
    found = object_in(data)
    if found is None:
        raise Refused("token_form", "the token cannot be read")
    return found
