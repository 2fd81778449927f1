"""Which credentials an upstream accepted lately, and each caller's newest one (OWN-VOUCH, OWN-CREDENTIAL)."""

import asyncio

from shim.callers.caller import Caller, Credential
from shim.clock import Clock
from shim.recent import Recent

_REMEMBERED = 50_000
_BY_CREDENTIAL = ("token", "jwt", "introspection")
"""Kinds of callers whose every request carries a credential."""
_NEVER: tuple[int, Credential | None] = (0, None)


class VouchBook:
    """Believes an unverified claim only while an upstream's acceptance of that very credential is young.

    `judged` is False where the callers' credentials do not go upstream: nobody there can accept one.
    """

    def __init__(self, clock: Clock, vouch_ms: int, *, judged: bool = True) -> None:
        self._clock = clock
        self.vouch_ms = vouch_ms
        self._judged = judged
        self._until: Recent[str, int] = Recent(_REMEMBERED)

    def vouch(self, caller: Caller) -> None:
        """Note that an upstream accepted a request with this credential."""
        credential = caller.credential
        if credential is None:
            return
        until = self._clock.now_ms() + self.vouch_ms
        if credential.expires_ms is not None:
            until = min(until, credential.expires_ms)
        self._until[credential.fingerprint] = until

    def refuse(self, credential: Credential | None) -> None:
        """Note that an upstream refused this credential: it vouches for nothing any more."""
        if credential is not None:
            self._until.pop(credential.fingerprint, None)

    def is_vouched(self, caller: Caller) -> bool:
        """Tell whether what the caller says of itself may be believed now."""
        if caller.kind != "token" or not self._judged:
            return True
        credential = caller.credential
        return credential is not None and self._until.get(credential.fingerprint, 0) > self._clock.now_ms()


class CredentialStore:
    """Holds each caller's newest accepted credential for the shim's own work on that caller's tasks.

    A caller whose credential was refused is remembered as lacking one until a request of theirs is accepted.
    """

    def __init__(self, clock: Clock, hold_ms: int) -> None:
        self._clock = clock
        self.hold_ms = hold_ms
        self._held: Recent[str, tuple[int, Credential | None]] = Recent(_REMEMBERED)
        self._refused: Recent[str, str] = Recent(_REMEMBERED)
        self._told: Recent[str, set[int]] = Recent(_REMEMBERED)
        self._news: dict[str, asyncio.Event] = {}

    def hold(self, caller: Caller) -> None:
        """Keep a caller's credential, in memory only, and let the work go on that waits for it."""
        if caller.credential is None:
            if self._held.get(caller.key, _NEVER)[1] is None:
                self._held.pop(caller.key, None)
                self._resume(caller.key)
            return
        until = self._clock.now_ms() + self.hold_ms
        if caller.credential.expires_ms is not None:
            until = min(until, caller.credential.expires_ms)
        self._held[caller.key] = (until, caller.credential)
        self._resume(caller.key)

    def offer(self, caller: Caller) -> None:
        """Keep a credential that no upstream has judged yet, if there is no other and none has refused it.

        Only for a caller who is known otherwise than by what the credential says of itself.
        """
        credential = caller.credential
        if credential is None or self.get(caller.key) is not None:
            return
        if self._refused.get(caller.key) != credential.fingerprint:
            self.hold(caller)

    def refuse(self, key: str, credential: Credential | None) -> None:
        """Remember a caller's credential that an upstream refused."""
        if credential is not None:
            self._refused[key] = credential.fingerprint

    def get(self, key: str) -> Credential | None:
        """Give a caller's credential while it may be used."""
        until, credential = self._held.get(key, _NEVER)
        return credential if until > self._clock.now_ms() else None

    def drop(self, key: str) -> None:
        """Forget a credential that an upstream has refused."""
        self._held[key] = _NEVER

    def lacks(self, caller: Caller) -> bool:
        """Tell whether a caller's requests carry a credential, and none of theirs may be used now."""
        return (caller.kind in _BY_CREDENTIAL or caller.key in self._held) and self.get(caller.key) is None

    def pause(self, key: str, pk: int) -> bool:
        """Note that work on a task waits for a caller's credential; False if that was told already."""
        told = self._told.setdefault(key, set())
        if pk in told:
            return False
        told.add(pk)
        return True

    async def renewed(self, key: str) -> None:
        """Wait until the caller comes back with a credential that is accepted."""
        await self._news.setdefault(key, asyncio.Event()).wait()

    def _resume(self, key: str) -> None:
        if self._told:
            self._told.pop(key, None)
        if self._news and (news := self._news.pop(key, None)) is not None:
            news.set()
