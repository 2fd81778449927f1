"""What Prometheus can read of the shim. Label values are bounded: what is not known is `other`."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily
from prometheus_client.registry import Collector

from shim.audit.tally import Tally
from shim.audit.trace import Trace


class _Reading(Collector):
    """A counter that something else counts."""

    def __init__(self, name: str, help_text: str, read: Callable[[], int]) -> None:
        self._family = (name, help_text)
        self._read = read

    def collect(self) -> Iterable[Metric]:
        """Give the count as it is now."""
        yield CounterMetricFamily(*self._family, value=self._read())


class _Shadowed(Collector):
    """What became of the calls that were sampled for the shadow comparison."""

    def __init__(self, counts: Mapping[tuple[str, str], int]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        """Give the counts as they are now."""
        family = CounterMetricFamily(
            "taskshim_shadow_calls", "Calls sampled for the shadow comparison", labels=("upstream", "outcome")
        )
        for labels, count in self._counts.items():
            family.add_metric(labels, count)
        yield family


class _Reached(Collector):
    """How often each bound was reached."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts

    def collect(self) -> Iterable[Metric]:
        """Give the counts as they are now."""
        family = CounterMetricFamily(
            "taskshim_limit_reached", "Times that a bound was reached", labels=("limit",)
        )
        for limit, count in list(self._counts.items()):
            family.add_metric((limit,), count)
        yield family


class Metrics:
    """The process's metrics, in a registry of their own."""

    def __init__(self, methods: Iterable[str]) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self._tally = Tally(methods)
        registry.register(self._tally)
        self.tasks = Gauge("taskshim_tasks", "Tasks in the ledger", ("upstream", "status"), registry=registry)
        self.sessions = Gauge(
            "taskshim_upstream_sessions",
            "Upstream sessions the shim drives",
            ("upstream",),
            registry=registry,
        )
        self.up = Gauge(
            "taskshim_upstream_up", "Whether an upstream can be reached", ("upstream",), registry=registry
        )
        self.under_way = Gauge(
            "taskshim_open_requests", "Client requests under way, streams included", registry=registry
        )
        self.legacy_callers = Gauge(
            "taskshim_legacy_callers", "Callers of the old API in the last 15 minutes", registry=registry
        )
        self.buffered = Gauge(
            "taskshim_buffer_bytes", "Bytes of requests, answers and waiting messages in memory",
            registry=registry,
        )  # fmt: skip
        self.parked = Gauge(
            "taskshim_parked_calls", "Calls that wait for their client's answers", registry=registry
        )
        self.providers = Counter(
            "taskshim_identity_requests", "Requests to identity providers", ("source", "outcome"),
            registry=registry,
        )  # fmt: skip
        self.commit_batch = Histogram(
            "taskshim_ledger_commit_operations", "Operations that shared one commit",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128, 256), registry=registry,
        )  # fmt: skip
        self.ledger_failed = Counter(
            "taskshim_ledger_failed", "Reads and writes that the ledger could not do", registry=registry
        )

    def provider(self, source: str, outcome: str) -> None:
        """Count a request to an identity provider at its end."""
        self.providers.labels(source, outcome).inc()

    def request(self, trace: Trace) -> None:
        """Count a request at its end."""
        self._tally.add(trace)

    def exchange(self, upstream: str, method: str, outcome: str) -> None:
        """Count an exchange with an upstream at its end."""
        self._tally.exchange(upstream, method, outcome)

    def watch(
        self, *, dropped: Callable[[], int], under_way: Callable[[], int],
        shadowed: Mapping[tuple[str, str], int], legacy_callers: Callable[[], int],
        reached: Mapping[str, int], buffered: Callable[[], int],
    ) -> None:  # fmt: skip
        """Read these at every scrape: audit events lost so far, client requests under way, and so on."""
        self.under_way.set_function(under_way)
        self.buffered.set_function(buffered)
        self.legacy_callers.set_function(legacy_callers)
        self.registry.register(_Shadowed(shadowed))
        self.registry.register(_Reached(reached))
        self.registry.register(_Reading("taskshim_audit_dropped", "Audit events lost", dropped))

    def text(self) -> bytes:
        """Give everything in Prometheus' text format."""
        return generate_latest(self.registry)
