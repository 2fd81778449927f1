"""The streams that stay open: how many subscriptions a caller may have, and when each has to end.

That is when the shim stops, and when the credential expires that the stream was opened with (OWN-VOUCH).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from shim.callers.caller import Caller
from shim.clock import Clock
from shim.config import Config
from shim.wire.errors import stopping, too_many

_END_S = 2
"""How long the ends of streams are waited for when the shim stops."""
_NAP_MS = 3_600_000
"""Nobody sleeps longer in one go: a token may say that it counts for a million years."""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Held:
    """A stream that is open."""

    clock: Clock
    expires_ms: int | None
    """When the credential expires that it was opened with."""

    @property
    def expired(self) -> bool:
        """True once another credential has to ask for it again."""
        return self.expires_ms is not None and self.clock.now_ms() >= self.expires_ms

    async def expiring(self, wake: asyncio.Event) -> None:
        """Wake the stream when it has expired."""
        while self.expires_ms is not None and not self.expired:
            await self.clock.sleep_ms(min(self.expires_ms - self.clock.now_ms(), _NAP_MS))
        wake.set()


class OpenStreams:
    """Counts subscriptions, and ends them and the GET streams of sessions (ML-LISTEN, LM-STREAM)."""

    def __init__(self, config: Config, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._of: Counter[str] = Counter()
        self._wakes: set[asyncio.Event] = set()
        self._none_left = asyncio.Event()
        self.stopping = False
        """True once every stream has to end."""

    @contextmanager
    def ending(self, caller: Caller, wake: asyncio.Event) -> Iterator[Held]:
        """Hold a stream, which `wake` wakes when it has to end. Raises UpstreamFault while the shim stops."""
        if self.stopping:
            raise stopping()
        held = Held(self._clock, caller.credential.expires_ms if caller.credential is not None else None)
        expiring = asyncio.create_task(held.expiring(wake)) if held.expires_ms is not None else None
        self._wakes.add(wake)
        try:
            yield held
        finally:
            if expiring is not None:
                expiring.cancel()
            self._wakes.discard(wake)
            if not self._wakes:
                self._none_left.set()

    @contextmanager
    def opening(self, caller: Caller, wake: asyncio.Event) -> Iterator[Held]:
        """Hold a place for a subscription, which `wake` wakes when it has to end. Raises ShimError.

        Those that equal nobody are not counted together (OWN-NONE).
        """
        if caller.kind != "none" and self._of[caller.key] >= self._config.limits.streams_per_caller:
            raise too_many(
                "limits.streams_per_caller is reached: close a subscription",
                limit="limits.streams_per_caller", retry_after_s=1,
            )  # fmt: skip
        with self.ending(caller, wake) as held:
            self._of[caller.key] += 1
            try:
                yield held
            finally:
                self._of[caller.key] -= 1
                if not self._of[caller.key]:
                    del self._of[caller.key]

    async def close(self) -> None:
        """Let every stream end, and wait a while for that."""
        self.stopping = True
        if self._wakes:
            self._none_left.clear()
            for wake in self._wakes:
                wake.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_S):
                    await self._none_left.wait()


async def unless(stop: asyncio.Event, work: Coroutine[Any, Any, T]) -> T | None:
    """Give what comes of some work; None where `stop` came first, which ends it. Raises what it raises."""
    working, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return await working
    finally:
        stopped.cancel()
        working.cancel()
    await asyncio.wait((working,))
    return None
