"""What is going on right now, told once a minute as `instance.alive`.

A `request` event is written when a request ends, and a stream can last for weeks: without this the log
would not show who is connected.
"""

from collections import Counter
from collections.abc import Sequence

from shim.audit.events import Connected, InstanceAlive, Waiting
from shim.audit.trace import Trace

ALIVE_EVERY_MS = 60_000
_WAITING_AFTER_MS = 1_000
"""A request younger than this is no wait worth telling."""
_GROUPS = 500
_STREAMS = frozenset(("GET", "subscriptions/listen"))


class Activity:
    """Counts requests that ended and holds those that have not."""

    def __init__(self) -> None:
        self._ended: Counter[str] = Counter()
        self._open: set[Trace] = set()

    def began(self, trace: Trace) -> None:
        """Take up a request."""
        self._open.add(trace)

    def ended(self, trace: Trace) -> None:
        """Count a request that ended."""
        self._open.discard(trace)
        self._ended[trace.corner or "none"] += 1

    @property
    def under_way(self) -> int:
        """How many requests have not ended, open streams included."""
        return len(self._open)

    def at(self, upstream: str) -> int:
        """Count what is under way at an upstream and will end by itself, or may yet go there."""
        return sum(
            trace.upstream in {upstream, None} and trace.method not in _STREAMS for trace in self._open
        )

    def alive(self, *, connected: Sequence[Connected], dropped: int) -> InstanceAlive:
        """Tell the minute that passed and begin the next one; `connected` are the open legacy sessions."""
        requests, self._ended = dict(self._ended), Counter()
        groups: dict[tuple[object, ...], list[Trace]] = {}
        for trace in self._open:
            if trace.age_ms >= _WAITING_AFTER_MS:
                kind = (trace.caller, trace.client_name, trace.client_version, trace.era, trace.method)
                groups.setdefault(kind, []).append(trace)
        largest = sorted(groups.values(), key=len, reverse=True)[:_GROUPS]
        return InstanceAlive(
            requests=requests,
            sessions=sum(one.count for one in connected),
            connected=tuple(sorted(connected, key=lambda one: -one.count)[:_GROUPS]),
            waiting=tuple(map(_waiting, largest)),
            dropped=dropped,
        )


def _waiting(traces: list[Trace]) -> Waiting:
    one = traces[0]
    return Waiting(
        caller=one.caller,
        caller_kind=one.caller_kind,
        client=one.client,
        era=one.era,
        method=one.method[:200] if one.method else None,
        count=len(traces),
        oldest_ms=int(max(trace.age_ms for trace in traces)),
    )
