"""What is written down and counted of each request that a client sends."""

from dataclasses import dataclass

from multidict import CIMultiDictProxy

from shim.audit.activity import Activity
from shim.audit.events import AuditSink
from shim.audit.metrics import Metrics
from shim.audit.notices import Notices
from shim.audit.trace import Trace
from shim.audit.traffic import Traffic


@dataclass(frozen=True, slots=True)
class RequestLog:
    """Begins and ends the trace of a request, for the audit log, the metrics and the cutover's status."""

    sink: AuditSink
    activity: Activity
    metrics: Metrics
    traffic: Traffic
    notices: Notices

    def begin(self, headers: CIMultiDictProxy[str]) -> Trace:
        """Give the trace of a request that has come."""
        trace = Trace.incoming(self.sink, headers)
        self.activity.began(trace)
        return trace

    def end(self, trace: Trace) -> None:
        """Write down and count a request that was answered or left."""
        self.activity.ended(trace)
        trace.finish()
        if trace.fault is not None:
            self.notices.warn(
                "requests fail", (trace.upstream, trace.fault), fault=trace.fault, upstream=trace.upstream,
                request_id=trace.request_id,
            )  # fmt: skip
        self.metrics.request(trace)
        self.traffic.ended(trace)
