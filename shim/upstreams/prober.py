"""What an upstream was last found to be, since when, and when it is asked again (ERA-PROBE)."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from shim.clock import Clock
from shim.upstreams.probing import Probed
from shim.wire.era import Era

log = structlog.get_logger("shim.upstreams")

_UNSURE_MS = 15_000
"""An answer that proves nothing is not kept: the server is asked again this soon, then ever more rarely."""
_UNSURE_TRIES = 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """An era that was proved, and when."""

    era: Era
    evidence: str
    at_ms: int


class Prober:
    """Asks one upstream for its era: at the start, after a while, and when it answers as the other era.

    `again_ms` is the age at which a verdict is asked for again.
    """

    def __init__(
        self,
        name: str,
        ask: Callable[[], Awaitable[Probed]],
        clock: Clock,
        *,
        again_ms: int,
    ) -> None:
        self.verdict: Verdict | None = None
        """The last one that proved something; what proves nothing changes it not."""
        self._name = name
        self._ask = ask
        self._clock = clock
        self._again_ms = again_ms
        self._doubted = asyncio.Event()
        self._trusted = True

    @property
    def era(self) -> Era:
        """What the server is taken for: what was proved last, and a legacy one until then."""
        return self.verdict.era if self.verdict is not None else Era.LEGACY

    async def probe(self) -> Probed:
        """Ask once, now, and give the answer."""
        probed = await self._ask()
        if probed.era is None:
            log.warning(
                "the upstream's era could not be told", upstream=self._name, evidence=probed.verdict.evidence
            )
            return probed
        self.verdict = Verdict(probed.era, probed.verdict.evidence, self._clock.now_ms())
        return probed

    def doubt(self, evidence: str) -> None:
        """Take it that the server answered as the other era: ask again, once until it is due anyway."""
        if self._trusted:
            self._trusted = False
            log.info("the upstream answers as another era", upstream=self._name, evidence=evidence)
            self._doubted.set()

    async def run(self, turned: Callable[[Probed], None]) -> None:
        """Ask again and again until the shim stops; `turned` hears of every new era."""
        unsure = 0 if self.verdict is not None else 1
        while True:
            due = await self._pause(
                min(_UNSURE_MS * 2 ** (unsure - 1), self._again_ms) if unsure else self._again_ms
            )
            self._trusted = self._trusted or due
            taken = self.era
            probed = await self.probe()
            found = probed.era
            unsure = 0 if found is not None else min(unsure + 1, _UNSURE_TRIES)
            if found is not None and found is not taken:
                log.warning("the upstream speaks another era now", upstream=self._name, era=found.value)
                self._trusted = True
                turned(probed)

    async def _pause(self, at_most_ms: float) -> bool:
        """Wait for a doubt, or until the next probe is due; True for that."""
        nap = asyncio.ensure_future(self._clock.sleep_ms(at_most_ms))
        doubt = asyncio.ensure_future(self._doubted.wait())
        try:
            await asyncio.wait((nap, doubt), return_when=asyncio.FIRST_COMPLETED)
        finally:
            nap.cancel()
            doubt.cancel()
        due = not self._doubted.is_set()
        self._doubted.clear()
        return due
