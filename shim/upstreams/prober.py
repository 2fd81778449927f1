"""What an upstream was last found to be, since when, and when it is asked again (ERA-PROBE)."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from shim.clock import Clock
from shim.upstreams.probing import Probed
from shim.wire.era import Era

log = structlog.get_logger("shim.upstreams")

_UNSURE_MS = 15_000
"""An answer that proves nothing is not kept: the server is asked again this soon, then ever more rarely."""
_UNSURE_TRIES = 20
_LEARN_MS = 1_000
"""Milliseconds between two questions that are asked with callers' credentials."""

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """An era that was proved, and when."""

    era: Era
    evidence: str
    at_ms: int


class Prober:
    """Asks one upstream for its era: at the start, after a while, and when it answers as the other era.

    `ask` asks with the headers given, None for the shim's own. `again_ms` is the age at which a verdict is
    asked for again.
    """

    def __init__(
        self,
        name: str,
        ask: Callable[[Headers | None], Awaitable[Probed]],
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
        self.denied = False
        """True while nothing is known because the server wants to know who asks."""
        self._learning = asyncio.Lock()
        self._learned_ms: float | None = None
        self.on_turn: Callable[[Probed], None] = lambda _: None
        """Hears of every new era."""

    @property
    def era(self) -> Era:
        """What the server is taken for: what was proved last, and a legacy one until then."""
        return self.verdict.era if self.verdict is not None else Era.LEGACY

    async def probe(self, headers: Headers | None = None) -> Probed:
        """Ask once, now, and give the answer."""
        probed = await self._ask(headers)
        self.denied = self.verdict is None and probed.verdict.denied
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

    async def learn(self, headers: Headers) -> None:
        """Ask as part of a caller's own request; requests of one moment wait for one question."""
        async with self._learning:
            now_ms = self._clock.ticks_ms()
            lately = self._learned_ms is not None and now_ms - self._learned_ms < _LEARN_MS
            if not self.denied or lately:
                return
            self._learned_ms = now_ms
            taken = self.era
            self._take(await self.probe(headers), taken)

    async def run(self) -> None:
        """Ask again and again until the shim stops."""
        unsure = 0 if self.verdict is not None else 1
        while True:
            due = await self._pause(
                min(_UNSURE_MS * 2 ** (unsure - 1), self._again_ms) if unsure else self._again_ms
            )
            self._trusted = self._trusted or due
            taken = self.era
            probed = await self.probe()
            unsure = 0 if probed.era is not None else min(unsure + 1, _UNSURE_TRIES)
            self._take(probed, taken)

    def _take(self, probed: Probed, taken: Era) -> None:
        """Tell of a new era."""
        if probed.era is not None and probed.era is not taken:
            log.warning("the upstream speaks another era now", upstream=self._name, era=probed.era.value)
            self._trusted = True
            self.on_turn(probed)

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
