"""What of the shim one caller may have at a time: requests under way, and polls by the second (LIMITS).

Those that equal nobody are not counted together (OWN-NONE).
"""

import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from shim.callers.caller import Caller
from shim.clock import Clock
from shim.config import Config
from shim.recent import Recent
from shim.wire.errors import too_many

_REMEMBERED = 10_000
"""Callers whose polls are counted; who is forgotten has its whole burst again."""


class Shares:
    """Counts the requests and polls of each caller."""

    def __init__(self, config: Config, clock: Clock, polls: frozenset[str]) -> None:
        self._config = config
        self._clock = clock
        self._methods = polls
        """Methods that look at a task once."""
        self._under_way: Counter[str] = Counter()
        self._polls: Recent[str, tuple[float, float]] = Recent(_REMEMBERED)
        """Caller -> polls that it has in hand, and when that was so, in ticks."""

    @contextmanager
    def taking(self, caller: Caller, method: str | None) -> Iterator[None]:
        """Hold a caller's place for a request while the block runs. Raises ClientFault 429."""
        if caller.kind == "none":
            yield
            return
        if self._under_way[caller.key] >= self._config.limits.requests_per_caller:
            raise too_many(
                "too many requests of this caller are under way (limits.requests_per_caller)",
                limit="limits.requests_per_caller", retry_after_s=1,
            )  # fmt: skip
        if method in self._methods:
            self._poll(caller.key)
        self._under_way[caller.key] += 1
        try:
            yield
        finally:
            self._under_way[caller.key] -= 1
            if not self._under_way[caller.key]:
                del self._under_way[caller.key]

    def _poll(self, caller: str) -> None:
        limits, now_ms = self._config.limits, self._clock.ticks_ms()
        whole_again_ms = limits.poll_burst / limits.polls_per_second * 1000
        while self._polls and next(iter(self._polls.values()))[1] + whole_again_ms <= now_ms:
            self._polls.popitem(last=False)
        had, at_ms = self._polls.get(caller, (float(limits.poll_burst), now_ms))
        has = min(float(limits.poll_burst), had + (now_ms - at_ms) * limits.polls_per_second / 1000)
        if has < 1:
            self._polls[caller] = (has, now_ms)
            raise too_many(
                "this caller polls too often (limits.polls_per_second): heed the poll interval of its tasks",
                limit="limits.polls_per_second",
                retry_after_s=max(1, math.ceil((1 - has) / limits.polls_per_second)),
            )
        self._polls[caller] = (has - 1, now_ms)
