"""What an upstream was last found to be, since when, and when it is asked again (ERA-PROBE)."""

import asyncio
from collections import OrderedDict
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
"""Milliseconds between two questions that are asked with one caller's credential."""
_REMEMBERED = 1_000

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
        """The last one that proved something; an answer that proves nothing leaves it as it is."""
        self._name = name
        self._ask = ask
        self._clock = clock
        self._again_ms = again_ms
        self._doubted = asyncio.Event()
        self._trusted = True
        self.denied = False
        """True while the server would not tell the shim, for want of a credential, what it speaks."""
        self._learning: dict[str, asyncio.Lock] = {}
        """By credential, for as long as requests with it ask or wait."""
        self._learned_ms: OrderedDict[str, float] = OrderedDict()
        """When a credential was last asked with to no end."""
        self.on_turn: Callable[[Probed], None] | None = None
        """Hears of every new era, once there is somebody to hear."""

    @property
    def era(self) -> Era:
        """What the server is taken for: what was proved last, and a legacy one until then."""
        return self.verdict.era if self.verdict is not None else Era.LEGACY

    async def probe(self, headers: Headers | None = None) -> Probed:
        """Ask once, now, and give the answer; `headers` are a caller's own. Tells of a new era."""
        probed = await self._ask(headers)
        if headers is None:
            self.denied = probed.verdict.denied
        if probed.era is None:
            log.warning(
                "the upstream's era could not be told", upstream=self._name, evidence=probed.verdict.evidence
            )
            return probed
        taken, self.denied = self.era, False
        self.verdict = Verdict(probed.era, probed.verdict.evidence, self._clock.now_ms())
        if probed.era is not taken and self.on_turn is not None:
            log.warning("the upstream speaks another era now", upstream=self._name, era=probed.era.value)
            self._trusted = True
            self.on_turn(probed)
        return probed

    def doubt(self, evidence: str) -> None:
        """Take it that the server answered as the other era: ask again, once until it is due anyway."""
        if self._trusted:
            self._trusted = False
            log.info("the upstream answers as another era", upstream=self._name, evidence=evidence)
            self._doubted.set()

    async def learn(self, fingerprint: str, headers: Headers) -> None:
        """Ask as part of a caller's own request; `fingerprint` tells its credential from others.

        Requests with one credential wait for one question, none waits for another caller's; what came to
        nothing is not asked again at once.
        """
        learning = self._learning.setdefault(fingerprint, asyncio.Lock())
        try:
            async with learning:
                if not self.denied or self._lately(fingerprint):
                    return
                if (await self.probe(headers)).era is None:
                    self._note(fingerprint)
        finally:
            if not learning.locked():
                self._learning.pop(fingerprint, None)

    def _lately(self, fingerprint: str) -> bool:
        asked_ms = self._learned_ms.get(fingerprint)
        return asked_ms is not None and self._clock.ticks_ms() - asked_ms < _LEARN_MS

    def _note(self, fingerprint: str) -> None:
        self._learned_ms[fingerprint] = self._clock.ticks_ms()
        self._learned_ms.move_to_end(fingerprint)
        if len(self._learned_ms) > _REMEMBERED:
            self._learned_ms.popitem(last=False)

    async def run(self) -> None:
        """Ask again and again until the shim stops."""
        unsure = 0 if self.verdict is not None else 1
        while True:
            due = await self._pause(
                min(_UNSURE_MS * 2 ** (unsure - 1), self._again_ms) if unsure else self._again_ms
            )
            self._trusted = self._trusted or due
            probed = await self.probe()
            unsure = 0 if probed.era is not None else min(unsure + 1, _UNSURE_TRIES)

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
