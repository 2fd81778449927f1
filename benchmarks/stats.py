"""The figures of a run: percentiles by nearest rank, medians over rounds."""

import math
import statistics
from collections.abc import Iterable, Sequence

import msgspec


class Figures(msgspec.Struct, kw_only=True):
    """What one run of the load generator saw."""

    requests: int
    errors: int
    seconds: float
    p50_ms: float
    p99_ms: float
    cpu_s: dict[str, float] = {}
    """Processor time of each watched process."""
    first_error: str | None = None

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / self.seconds

    def cpu_us(self, process: str) -> float:
        """Give a watched process's own time per request, in microseconds."""
        return self.cpu_s[process] / self.requests * 1e6 if self.requests else math.nan


def percentile(ordered: Sequence[float], share: float) -> float:
    """Give the smallest value that `share` (0 to 1) of the values do not exceed; nan of nothing."""
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(latencies_s: Iterable[float], *, errors: int, seconds: float) -> Figures:
    """Turn the latencies of good answers into figures."""
    ordered = sorted(latencies_s)
    return Figures(
        requests=len(ordered),
        errors=errors,
        seconds=seconds,
        p50_ms=percentile(ordered, 0.50) * 1000,
        p99_ms=percentile(ordered, 0.99) * 1000,
    )


def median(rounds: Sequence[Figures]) -> Figures:
    """Give each figure's own median over the rounds; errors add up."""
    seconds = statistics.median(run.seconds for run in rounds)
    requests = round(statistics.median(run.rate for run in rounds) * seconds)
    return Figures(
        requests=requests,
        errors=sum(run.errors for run in rounds),
        seconds=seconds,
        p50_ms=statistics.median(run.p50_ms for run in rounds),
        p99_ms=statistics.median(run.p99_ms for run in rounds),
        cpu_s={
            name: statistics.median(run.cpu_us(name) for run in rounds) * requests / 1e6
            for name in rounds[0].cpu_s
        },
        first_error=next((run.first_error for run in rounds if run.first_error), None),
    )
