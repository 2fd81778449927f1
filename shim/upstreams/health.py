"""Whether an upstream can be reached; one that cannot is looked for until it can (CUTOVER-FALLBACK)."""

import asyncio
from collections.abc import Callable, Sequence

from shim.clock import Clock
from shim.upstreams.http import Link
from shim.wire.errors import UpstreamFault

_AT_MOST_MS = 60_000
_LOOK = "OPTIONS"
"""A request that changes nothing and opens nothing at any server; whatever it answers, it is there."""


class Health:
    """What an upstream's link was last found to be. Only a connection that fails makes it down."""

    def __init__(self, clock: Clock) -> None:
        self.up = True
        """True as long as nothing else is known."""
        self.since_ms = clock.now_ms()
        self.evidence = "not asked yet"
        self._clock = clock
        self._went_down = asyncio.Event()

    def changed(self, *, up: bool, evidence: str) -> None:
        """Take up what an exchange showed."""
        self.up, self.since_ms, self.evidence = up, self._clock.now_ms(), evidence
        if up:
            self._went_down.clear()
        else:
            self._went_down.set()

    def told(self) -> dict[str, object]:
        """Give it as it is shown to the operator."""
        return {"up": self.up, "since_ms": self.since_ms, "evidence": self.evidence}

    async def run(
        self, link: Link, headers: Callable[[], Sequence[tuple[str, str]]], pause_ms: Callable[[], int]
    ) -> None:
        """Look for it while it is down, ever more rarely, until the shim stops."""
        while True:
            await self._went_down.wait()
            wait_ms = pause_ms()
            while not self.up:
                await self._clock.sleep_ms(min(wait_ms, _AT_MOST_MS))
                wait_ms = min(wait_ms * 2, _AT_MOST_MS)
                if not self.up:
                    await _look(link, headers())


async def _look(link: Link, headers: Sequence[tuple[str, str]]) -> None:
    """Ask once; the link itself reports what it finds."""
    try:
        response = await link.send(_LOOK, headers)
    except UpstreamFault:
        return
    response.close()
