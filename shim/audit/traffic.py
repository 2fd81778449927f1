"""What went to each upstream in the last minutes, for who steers a cutover."""

from collections import Counter, deque
from dataclasses import dataclass, field
from time import monotonic

from shim.audit.trace import Trace

MINUTES = 15
_MINUTE_S = 60
_CALLERS = 10_000
"""Callers of a minute that are told apart at most."""
_NOBODY = frozenset({"token", "session", "none"})
"""Kinds of callers that are no person: each new token or session is another one."""


@dataclass(slots=True)
class _Minute:
    number: int
    requests: Counter[str] = field(default_factory=Counter)
    legacy: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    alone: Counter[str] = field(default_factory=Counter)
    legacy_callers: set[tuple[str | None, str | None]] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class Share:
    """An upstream's part of the last minutes."""

    requests: int
    legacy: int
    errors: int
    alone: int
    """Calls of tools that it alone has, which the rules send elsewhere."""


class Traffic:
    """Counts by upstream and minute; what is older is forgotten."""

    def __init__(self) -> None:
        self._minutes: deque[_Minute] = deque(maxlen=MINUTES)

    def ended(self, trace: Trace) -> None:
        """Count a request that ended."""
        number = int(monotonic()) // _MINUTE_S
        if not self._minutes or self._minutes[-1].number != number:
            self._minutes.append(_Minute(number))
        minute, name = self._minutes[-1], trace.upstream or ""
        minute.requests[name] += 1
        if trace.era == "legacy" and not trace.unidentified:
            minute.legacy[name] += 1
            if len(minute.legacy_callers) < _CALLERS:
                minute.legacy_callers.add(_who(trace))
        if trace.outcome == "error":
            minute.errors[name] += 1
        if trace.rerouted_for == "tool":
            minute.alone[name] += 1

    @property
    def legacy_callers(self) -> int:
        """How many called by the old API; who is known by a token or session only counts by its client."""
        return len(set().union(*(minute.legacy_callers for minute in self._young())))

    def of(self, upstream: str) -> Share:
        """Give an upstream's part."""
        young = self._young()
        return Share(
            sum(minute.requests[upstream] for minute in young),
            sum(minute.legacy[upstream] for minute in young),
            sum(minute.errors[upstream] for minute in young),
            sum(minute.alone[upstream] for minute in young),
        )

    def _young(self) -> list[_Minute]:
        oldest = int(monotonic()) // _MINUTE_S - MINUTES
        return [minute for minute in self._minutes if minute.number > oldest]


def _who(trace: Trace) -> tuple[str | None, str | None]:
    if trace.caller_kind in _NOBODY or trace.caller is None:
        return trace.client_name, trace.client_version
    return trace.caller, None
