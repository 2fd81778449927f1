"""What Prometheus can read of the shim. Label values are bounded: what is not known is `other`."""

from collections.abc import Callable, Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from shim.audit.trace import Trace

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


_POLLS = frozenset({"tasks/get", "tasks/status"})


class _Reading(Collector):
    """A counter that something else counts."""

    def __init__(self, name: str, help_text: str, read: Callable[[], int]) -> None:
        self._family = (name, help_text)
        self._read = read

    def collect(self) -> Iterable[Metric]:
        """Give the count as it is now."""
        yield CounterMetricFamily(*self._family, value=self._read())


class Metrics:
    """The process's metrics, in a registry of their own."""

    def __init__(self, methods: Iterable[str]) -> None:
        self._methods = frozenset(methods)
        self.registry = CollectorRegistry()
        registry = self.registry
        self.requests = Counter(
            "taskshim_requests", "Client requests", ("corner", "method", "outcome"), registry=registry
        )
        self.seconds = Histogram(
            "taskshim_request_seconds",
            "Time to answer a client request",
            ("corner",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.upstream_requests = Counter(
            "taskshim_upstream_requests",
            "Requests sent to upstreams on behalf of clients",
            ("upstream",),
            registry=registry,
        )
        self.legacy = Counter("taskshim_legacy_requests", "Requests that end at sunset", registry=registry)
        self.denied = Counter("taskshim_denied", "Requests denied", registry=registry)
        self.tasks = Gauge("taskshim_tasks", "Tasks in the ledger", ("upstream", "status"), registry=registry)
        self.sessions = Gauge(
            "taskshim_upstream_sessions",
            "Upstream sessions the shim drives",
            ("upstream",),
            registry=registry,
        )
        self.under_way = Gauge(
            "taskshim_open_requests", "Client requests under way, streams included", registry=registry
        )
        self.polls_saved = Counter(
            "taskshim_polls_saved", "Polls of tasks answered without asking the upstream", registry=registry
        )
        self.commit_batch = Histogram(
            "taskshim_ledger_commit_operations", "Operations that shared one commit",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256), registry=registry,
        )  # fmt: skip
        self._by_labels: dict[tuple[str, str, str], Counter] = {}
        self._by_corner: dict[str, Histogram] = {}

    def request(self, trace: Trace) -> None:
        """Count a request at its end."""
        method = trace.method if trace.method in self._methods else "other"
        corner = trace.corner or "none"
        key = (corner, method or "other", trace.outcome or "ok")
        counter = self._by_labels.get(key)
        if counter is None:
            counter = self._by_labels[key] = self.requests.labels(*key)
            self._by_corner.setdefault(corner, self.seconds.labels(corner))
        counter.inc()
        self._by_corner[corner].observe(trace.age_ms / 1000)
        if trace.upstream_calls and trace.upstream is not None:
            self.upstream_requests.labels(trace.upstream).inc(trace.upstream_calls)
        elif trace.method in _POLLS and trace.outcome == "ok":
            self.polls_saved.inc()
        if trace.legacy:
            self.legacy.inc()
        if trace.outcome == "denied":
            self.denied.inc()

    def watch(self, *, dropped: Callable[[], int], under_way: Callable[[], int]) -> None:
        """Read these at every scrape: audit events lost so far, client requests under way."""
        self.under_way.set_function(under_way)
        self.registry.register(_Reading("taskshim_audit_dropped", "Audit events lost", dropped))

    def text(self) -> bytes:
        """Give everything in Prometheus' text format."""
        return generate_latest(self.registry)
