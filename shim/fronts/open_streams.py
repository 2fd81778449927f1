"""The subscriptions that are open: how many a caller may have, and their end with the shim's (ML-LISTEN)."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from shim.callers.caller import Caller
from shim.config import Config
from shim.wire.errors import UpstreamFault, too_many

_END_S = 2
"""How long the ends of subscriptions are waited for when the shim stops."""


class OpenStreams:
    """Counts subscriptions, and ends them all."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._of: Counter[str] = Counter()
        self._wakes: set[asyncio.Event] = set()
        self._none_left = asyncio.Event()
        self.stopping = False
        """True once every subscription has to end."""

    @contextmanager
    def opening(self, caller: Caller, wake: asyncio.Event) -> Iterator[None]:
        """Hold a place for a subscription, which `wake` wakes when it has to end. Raises ShimError.

        Those that equal nobody are not counted together (OWN-NONE).
        """
        if self.stopping:
            raise UpstreamFault(-32603, "the shim is stopping", 503)
        if caller.kind != "none" and self._of[caller.key] >= self._config.limits.streams_per_caller:
            raise too_many("limits.streams_per_caller is reached: close a subscription", retry_after_s=1)
        self._of[caller.key] += 1
        self._wakes.add(wake)
        try:
            yield
        finally:
            self._wakes.discard(wake)
            self._of[caller.key] -= 1
            if not self._of[caller.key]:
                del self._of[caller.key]
            if not self._wakes:
                self._none_left.set()

    async def close(self) -> None:
        """Let every subscription end, and wait a while for that."""
        self.stopping = True
        if self._wakes:
            self._none_left.clear()
            for wake in self._wakes:
                wake.set()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_END_S):
                    await self._none_left.wait()
