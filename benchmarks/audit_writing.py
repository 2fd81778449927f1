"""What writing the audit log costs a request, with everything around it taken away.

Requests end one after the other in one process, some thousands a second, into a sink that keeps nothing, one
that writes, and one that chains what it writes. The sinks take turns; what counts is the process's own
processor time, the writer's thread included.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from shim.audit.chain import Signer
from shim.audit.sink import FileSink, NullSink
from shim.audit.trace import Trace

NOTHING = "no audit log"
REQUESTS = 5_000
_AT_ONCE = 20
_PAUSE_S = 0.004

Make = Callable[[Path], FileSink | NullSink]
SINKS: Mapping[str, Make] = {
    NOTHING: lambda _: NullSink(),
    "audit log": lambda path: FileSink(path, instance="0123456789abcdef"),
    "audit log, chained": lambda path: FileSink(path, instance="0123456789abcdef", signer=Signer(b"k" * 32)),
}


def costs_us(directory: Path, turns: int) -> dict[str, list[float]]:
    """Give what a request cost in each turn, by sink."""
    costs: dict[str, list[float]] = {name: [] for name in SINKS}
    for turn in range(turns):
        # each goes first in its turn
        for name in [*SINKS, *SINKS][turn % len(SINKS) :][: len(SINKS)]:
            path = directory / f"{name}-{turn}.jsonl"
            costs[name].append(_cost_us(SINKS[name], path))
            path.unlink(missing_ok=True)
    return costs


def _cost_us(make: Make, path: Path) -> float:
    sink = make(path)
    before = time.process_time()
    for number in range(REQUESTS):
        _request(sink)
        if number % _AT_ONCE == 0:
            time.sleep(_PAUSE_S)
    sink.close(60)
    spent_s = time.process_time() - before
    if sink.dropped:
        raise RuntimeError(f"{sink.dropped} events were lost")
    return spent_s / REQUESTS * 1e6


def _request(sink: FileSink | NullSink) -> None:
    trace = Trace.incoming(sink, {})
    trace.era, trace.method, trace.tool = "legacy", "tools/call", "report"
    trace.caller, trace.caller_kind, trace.caller_label = "a" * 32, "api_key", "bench"
    trace.client_name, trace.client_version = "load", "1"
    trace.towards("main", "legacy", "experimental")
    trace.rule("LL-1", "OWN-ID")
    trace.feature("session")
    trace.bytes_in, trace.bytes_out, trace.upstream_calls, trace.upstream_ms = 200, 300, 1, 1.234
    trace.finish(http_status=200)
