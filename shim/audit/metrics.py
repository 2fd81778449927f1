"""What Prometheus can read of the shim. Label values are bounded: what is not known is `other`."""

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from shim.audit.trace import Trace

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)


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
        self.streams = Gauge(
            "taskshim_open_requests", "Client requests under way, streams included", registry=registry
        )
        self.commit_batch = Histogram(
            "taskshim_ledger_commit_operations", "Operations that shared one commit",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256), registry=registry,
        )  # fmt: skip
        self.audit_dropped = Counter("taskshim_audit_dropped", "Audit events lost", registry=registry)
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
        if trace.era == "legacy":
            self.legacy.inc()
        if trace.outcome == "denied":
            self.denied.inc()

    def text(self) -> bytes:
        """Give everything in Prometheus' text format."""
        return generate_latest(self.registry)
