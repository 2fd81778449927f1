"""What of the shim requests may have: all together, and those of one caller, at a time and by the second.

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
from shim.wire.budget import Budget, Holding
from shim.wire.errors import too_many

_REMEMBERED = 10_000
"""Callers whose polls are counted; who is forgotten has its whole burst again."""


class Shares:
    """Counts what is under way, and the requests and polls of each caller."""

    def __init__(self, config: Config, clock: Clock, polls: frozenset[str], budget: Budget) -> None:
        self._config = config
        self._clock = clock
        self._budget = budget
        self._all = 0
        self._methods = polls
        """Methods that look at a task once."""
        self._under_way: Counter[str] = Counter()
        self._polls: Recent[str, tuple[float, float]] = Recent(_REMEMBERED)
        """Caller -> polls that it has in hand, and when that was so, in ticks."""

    @contextmanager
    def entering(self) -> Iterator[Holding]:
        """Count a request while the block runs, and give what it holds of the memory."""
        self._all += 1
        try:
            with self._budget.holding() as held:
                yield held
        finally:
            self._all -= 1

    def room_for_all(self) -> None:
        """See that not too many have entered. Raises ClientFault 429."""
        if self._all > self._config.limits.concurrent_requests:
            raise too_many(
                "limits.concurrent_requests is reached", limit="limits.concurrent_requests", retry_after_s=1
            )

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
