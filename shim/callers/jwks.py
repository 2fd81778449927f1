"""The keys of a provider, kept: fetched when they are needed, held over an outage, rotated.

A key counts from when it is listed until `retired_keys_ms` after a fetch that no longer lists it, and the
whole set until `jwks_keep_ms` after the last fetch that came to something.
"""

import asyncio
import math
from dataclasses import dataclass

import structlog

from shim.callers.jwk import Key, KeySetError, read_keys
from shim.callers.provider import JWKS, NoAnswer, Providers
from shim.callers.refused import Undecided
from shim.config.identity import JwtIdentity

log = structlog.get_logger("shim.callers")

_RETIRED = 100


@dataclass(slots=True)
class _Kept:
    key: Key
    until_ms: float | None = None
    """When a key that is no longer listed ceases to count."""


class KeySet:
    """The keys that a token may be signed with now. Implements `Keyring`."""

    def __init__(self, settings: JwtIdentity, providers: Providers) -> None:
        self.settings = settings
        self._providers = providers
        self._keys: list[_Kept] = []
        self._fetched_ms: float | None = None
        self._tried_ms: float | None = None
        self._answers = True
        self._fetching: asyncio.Task[None] | None = None

    def renew(self, settings: JwtIdentity) -> None:
        """Go on under a new config: keys that are no longer listed are given up now."""
        self.settings = settings
        self._keys = [one for one in self._keys if one.until_ms is None]
        self._tried_ms = None

    def counts(self, key: Key) -> bool:
        """Tell whether a key that was found counts still."""
        return any(one.key is key and self._counts(one) for one in self._keys)

    async def find(self, kid: str | None, algorithm: str) -> list[Key]:
        """Give the keys that a token may be signed with, from the provider if need be.

        Raises Undecided where there are none, because the provider does not answer.
        """
        if self._age_ms(self._fetched_ms) >= self.settings.jwks_refresh_ms:
            self._begin()  # what there is will do until it is done
        if not any(map(self._counts, self._keys)):
            await self._fetched()
        if not (found := self._fitting(kid, algorithm)):
            await self._fetched()
            found = self._fitting(kid, algorithm)
        if not found and not self._answers:
            raise Undecided("the identity provider's keys cannot be had now", self._again_s())
        return found

    async def another(self, kid: str | None, algorithm: str, tried: list[Key]) -> list[Key]:
        """Give the keys that were not tried, after a fetch if one may be made."""
        await self._fetched()
        return [key for key in self._fitting(kid, algorithm) if key not in tried]

    def _fitting(self, kid: str | None, algorithm: str) -> list[Key]:
        return [
            one.key
            for one in self._keys
            if self._counts(one) and algorithm in one.key.algorithms and (kid is None or one.key.kid == kid)
        ]

    def _counts(self, one: _Kept) -> bool:
        now_ms = self._providers.clock.ticks_ms()
        if one.until_ms is not None and now_ms >= one.until_ms:
            return False
        return self._age_ms(self._fetched_ms) < self.settings.jwks_keep_ms

    def _age_ms(self, since_ms: float | None) -> float:
        return float("inf") if since_ms is None else self._providers.clock.ticks_ms() - since_ms

    def _again_s(self) -> int:
        """Give the time after which another fetch may be made."""
        # a reload forgets when the last one was tried: its age has no end then
        left_ms = max(0.0, self.settings.jwks_refetch_ms - self._age_ms(self._tried_ms))
        return max(1, math.ceil(left_ms / 1000))

    def _begin(self) -> asyncio.Task[None] | None:
        """Begin a fetch, or join the one under way; None where it is too early for another."""
        if self._fetching is None and self._age_ms(self._tried_ms) >= self.settings.jwks_refetch_ms:
            self._tried_ms = self._providers.clock.ticks_ms()
            self._fetching = self._providers.start(self._fetch())
        return self._fetching

    async def _fetched(self) -> None:
        """Wait for a fetch, if one may be made; a request that leaves does not end it for others."""
        if (fetching := self._begin()) is not None:
            await asyncio.shield(fetching)

    async def _fetch(self) -> None:
        assert self.settings.jwks_url is not None  # noqa: S101 - a set of a file is no KeySet
        try:
            body = await self._providers.ask(
                JWKS, self.settings.jwks_url,
                timeout_ms=self.settings.timeout_ms, at_most=self.settings.answer_bytes,
            )  # fmt: skip
            self._take(read_keys(body))
            self._providers.answered(JWKS)
        except NoAnswer:
            self._answers = False
        except KeySetError as exc:
            self._providers.failed(JWKS, str(exc))
            self._answers = False
        finally:
            self._fetching = None

    def _take(self, listed: tuple[Key, ...]) -> None:
        """Take the listed keys for those that count; the others are retired."""
        now_ms = self._providers.clock.ticks_ms()
        known = {(one.key.kid, one.key.material, one.key.algorithms): one for one in self._keys}
        names = [(key.kid, key.material, key.algorithms) for key in listed]
        current = [
            known.pop(name) if name in known else _Kept(key) for name, key in zip(names, listed, strict=True)
        ]
        for one in current:
            one.until_ms = None
        retired = []
        for one in known.values():
            if one.until_ms is None:
                one.until_ms = now_ms + self.settings.retired_keys_ms
                log.info("a key of the identity provider is no longer listed", kid=one.key.kid)
            if one.until_ms > now_ms:
                retired.append(one)
        self._keys = [*current, *retired[-_RETIRED:]]
        self._fetched_ms = now_ms
        self._answers = True


class FileKeys:
    """The keys of a file. Implements `Keyring`."""

    def __init__(self, listed: tuple[Key, ...]) -> None:
        self._listed = listed

    def counts(self, key: Key) -> bool:
        """Tell whether a key that was found counts still."""
        return key in self._listed

    async def find(self, kid: str | None, algorithm: str) -> list[Key]:
        """Give the keys that a token may be signed with."""
        return [
            key for key in self._listed if algorithm in key.algorithms and (kid is None or key.kid == kid)
        ]

    async def another(self, kid: str | None, algorithm: str, tried: list[Key]) -> list[Key]:  # noqa: ARG002
        """Give none: the file is read again at SIGHUP only."""
        return []
