"""What of the shim requests may have: all together, and those of one caller, at a time and by the second.

Those that equal nobody are not counted together (OWN-NONE).
"""

import math
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType

from shim.callers.caller import Caller
from shim.clock import Clock
from shim.config import Config
from shim.recent import Recent
from shim.wire.budget import Budget, Holding
from shim.wire.errors import too_many

_REMEMBERED = 10_000
"""Callers whose polls are counted; who is forgotten has its whole burst again."""
_NONE = nullcontext()


class _Place(AbstractContextManager[None]):
    """One request of a caller that is under way."""

    __slots__ = ("_caller", "_under_way")

    def __init__(self, under_way: dict[str, int], caller: str) -> None:
        self._under_way = under_way
        self._caller = caller

    def __enter__(self) -> None:
        self._under_way[self._caller] = self._under_way.get(self._caller, 0) + 1

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        left = self._under_way[self._caller] - 1
        if left:
            self._under_way[self._caller] = left
        else:
            del self._under_way[self._caller]


class _Entered(AbstractContextManager[Holding]):
    """Any request that is under way."""

    __slots__ = ("_held", "_shares")

    def __init__(self, shares: "Shares", budget: Budget) -> None:
        self._shares = shares
        self._held = budget.holding()

    def __enter__(self) -> Holding:
        self._shares.all_under_way += 1
        return self._held

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._shares.all_under_way -= 1
        self._held.set(0)


class Shares:
    """Counts what is under way, and the requests and polls of each caller."""

    def __init__(self, config: Config, clock: Clock, polls: frozenset[str], budget: Budget) -> None:
        self._config = config
        self._clock = clock
        self._budget = budget
        self.all_under_way = 0
        self._methods = polls
        """Methods that look at a task once."""
        self._under_way: dict[str, int] = {}
        self._polls: Recent[str, tuple[float, float]] = Recent(_REMEMBERED)
        """Caller -> polls that it has in hand, and when that was so, in ticks."""

    def entering(self) -> AbstractContextManager[Holding]:
        """Count a request while a block runs, and give what it holds of the memory."""
        return _Entered(self, self._budget)

    def room_for_all(self) -> None:
        """See that not too many have entered. Raises ClientFault 429."""
        if self.all_under_way > self._config.limits.concurrent_requests:
            raise too_many(
                "limits.concurrent_requests is reached", limit="limits.concurrent_requests", retry_after_s=1
            )

    def taking(self, caller: Caller, method: str | None) -> AbstractContextManager[None]:
        """Hold a caller's place for a request while a block runs. Raises ClientFault 429."""
        if caller.kind == "none":
            return _NONE
        if self._under_way.get(caller.key, 0) >= self._config.limits.requests_per_caller:
            raise too_many(
                "too many requests of this caller are under way (limits.requests_per_caller)",
                limit="limits.requests_per_caller", retry_after_s=1,
            )  # fmt: skip
        if method in self._methods:
            self._poll(caller.key)
        return _Place(self._under_way, caller.key)

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
