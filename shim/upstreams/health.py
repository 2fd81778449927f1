"""Whether an upstream can be reached; one that cannot is looked for until it can (CUTOVER-FALLBACK).

A connection that fails tells it at once. A request without an answer does not: a tool may take hours, and
what breaks off may be that one call. It is asked then, and down if that gets no answer either.
"""

import asyncio
from collections.abc import Callable, Sequence

from shim.clock import Clock
from shim.upstreams.broken import NeverSent
from shim.upstreams.http import Link
from shim.wire.errors import UpstreamFault

_AT_MOST_MS = 60_000
_LOOK = "OPTIONS"
"""A request that changes nothing and opens nothing at any server; whatever it answers, it is there."""


class Health:
    """What an upstream's link was last found to be."""

    def __init__(self, clock: Clock) -> None:
        self.up = True
        """True as long as nothing else is known."""
        self.since_ms = clock.now_ms()
        self.evidence = "not asked yet"
        self._clock = clock
        self._doubted = asyncio.Event()

    def changed(self, *, up: bool, evidence: str) -> None:
        """Take up what an exchange showed."""
        self.up, self.since_ms, self.evidence = up, self._clock.now_ms(), evidence
        if not up:
            self._doubted.set()

    def doubt(self) -> None:
        """Have the upstream asked: it left a request without an answer."""
        self._doubted.set()

    def told(self) -> dict[str, object]:
        """Give it as it is shown to the operator."""
        return {"up": self.up, "since_ms": self.since_ms, "evidence": self.evidence}

    async def run(
        self, link: Link, headers: Callable[[], Sequence[tuple[str, str]]], pause_ms: Callable[[], int]
    ) -> None:
        """Ask it once it is doubted, and while it is down ever more rarely, until the shim stops."""
        while True:
            await self._doubted.wait()
            if self.up:
                await _look(link, headers())
            wait_ms = pause_ms()
            while True:
                await self._clock.sleep_ms(min(wait_ms, _AT_MOST_MS))
                if self.up:
                    break
                wait_ms = min(wait_ms * 2, _AT_MOST_MS)
                await _look(link, headers())
            self._doubted.clear()  # a doubt in a pause comes again with the next request in vain


async def _look(link: Link, headers: Sequence[tuple[str, str]]) -> None:
    """Ask once; the link itself reports what it finds, but for an answer that does not come."""
    try:
        response = await link.send(_LOOK, headers)
    except NeverSent:
        return
    except UpstreamFault as exc:
        link.is_down(str(exc))
        return
    response.close()
