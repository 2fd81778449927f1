"""Requests that ended, counted in plain numbers and shown to Prometheus when it asks.

Every request is counted and few scrapes come, so counting costs little and the families are made at a scrape.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import Metric
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from shim.audit.trace import Trace

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
_BOUNDS = (*map(str, map(float, _SECONDS)), "+Inf")
_POLLS = frozenset({"tasks/get", "tasks/status"})


class _Times:
    """How long the requests of one corner took."""

    __slots__ = ("counts", "seconds")

    def __init__(self) -> None:
        self.counts = [0] * len(_BOUNDS)
        self.seconds = 0.0


class Tally(Collector):
    """Counts requests at their end. Label values are bounded: a method that is not known is `other`."""

    def __init__(self, methods: Iterable[str]) -> None:
        self._methods = frozenset(methods)
        self._ended: Counter[tuple[str, str, str]] = Counter()
        self._times: dict[str, _Times] = {}
        self._upstream: Counter[tuple[str, str, str]] = Counter()
        self._denied: Counter[str] = Counter()
        self._legacy = self._saved = 0
        self._unidentified: Counter[str] = Counter()
        self._sunset: Counter[str] = Counter()
        self._rerouted: Counter[str] = Counter()

    def add(self, trace: Trace) -> None:
        """Count a request."""
        corner, method, outcome = trace.corner or "none", trace.method or "other", trace.outcome or "ok"
        self._ended[corner, self._known(method), outcome] += 1
        times = self._times.get(corner)
        if times is None:
            times = self._times[corner] = _Times()
        seconds = trace.age_ms / 1000
        times.counts[bisect_left(_SECONDS, seconds)] += 1
        times.seconds += seconds
        if not trace.upstream_calls and method in _POLLS and outcome == "ok":
            self._saved += 1
        if trace.unidentified:
            self._unidentified[trace.era or "none"] += 1
        else:
            self._legacy += trace.legacy
        if trace.rerouted_for is not None:
            self._rerouted[trace.rerouted_for] += 1
        if trace.sunset is not None:
            self._sunset[trace.sunset] += 1
        if outcome == "denied":
            self._denied[trace.refusal or "other"] += 1

    def exchange(self, upstream: str, method: str, outcome: str) -> None:
        """Count an exchange with an upstream."""
        self._upstream[upstream, self._known(method), outcome] += 1

    def _known(self, method: str) -> str:
        return method if method in self._methods else "other"

    def collect(self) -> Iterator[Metric]:
        """Give the families as they are now."""
        requests = CounterMetricFamily(
            "taskshim_requests", "Client requests", labels=("corner", "method", "outcome")
        )
        for labels, count in self._ended.items():
            requests.add_metric(labels, count)
        yield requests
        took = HistogramMetricFamily(
            "taskshim_request_seconds", "Time to answer a client request", labels=("corner",)
        )
        for corner, times in self._times.items():
            took.add_metric((corner,), [*zip(_BOUNDS, accumulate(times.counts), strict=True)], times.seconds)
        yield took
        upstream = CounterMetricFamily(
            "taskshim_upstream_requests",
            "Requests sent to upstreams",
            labels=("upstream", "method", "outcome"),
        )
        for labels, count in self._upstream.items():
            upstream.add_metric(labels, count)
        yield upstream
        yield CounterMetricFamily(
            "taskshim_legacy_requests", "Requests that end at sunset", value=self._legacy
        )
        unidentified = CounterMetricFamily(
            "taskshim_unidentified_requests",
            "Requests turned away before it was known who calls",
            labels=("era",),
        )
        for era, count in self._unidentified.items():
            unidentified.add_metric((era,), count)
        yield unidentified
        after = CounterMetricFamily(
            "taskshim_sunset_requests", "Requests of the old API after its end", labels=("action",)
        )
        for action, count in self._sunset.items():
            after.add_metric((action,), count)
        yield after
        elsewhere = CounterMetricFamily(
            "taskshim_rerouted", "Requests that went elsewhere than the rules name", labels=("reason",)
        )
        for reason, count in self._rerouted.items():
            elsewhere.add_metric((reason,), count)
        yield elsewhere
        denied = CounterMetricFamily("taskshim_denied", "Requests denied", labels=("reason",))
        for reason, count in self._denied.items():
            denied.add_metric((reason,), count)
        yield denied
        yield CounterMetricFamily(
            "taskshim_polls_saved", "Polls of tasks answered without asking the upstream", value=self._saved
        )
