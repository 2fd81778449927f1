"""Whether a figure grows: the slope of its samples after the warm-up, held against what chance explains."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure, and how much of it may come and go: a share of its level and an amount."""

    name: str
    share: float
    amount: float
    a_row: float = 0.0
    """What one more row in the ledger explains."""


MEASURES = (
    Measure("rss_kib", 0.03, 1024, a_row=2.0),
    Measure("in_use_kib", 0.03, 512, a_row=2.0),
    Measure("blocks", 0.03, 5000, a_row=20.0),
    Measure("descriptors", 0.15, 10),
    Measure("tasks", 0.15, 20),
    Measure("objects", 0.03, 1000, a_row=10.0),
    Measure("ledger_kib", 0.10, 512, a_row=4.0),
)


@dataclass(frozen=True, slots=True)
class Growth:
    """What became of one figure from the end of the warm-up to the end."""

    measure: Measure
    slope: float
    """Per minute."""
    grown: float
    """By the slope, over the whole time."""
    allowed: float

    @property
    def grows(self) -> bool:
        """Whether that is more than chance and rows explain."""
        return self.grown > self.allowed


def slope(values: Sequence[float]) -> float:
    """Give the median of the slopes between all pairs of samples (Theil and Sen): no outlier moves it."""
    found = [
        (values[late] - values[early]) / (late - early)
        for early in range(len(values))
        for late in range(early + 1, len(values))
    ]
    return median(found) if found else 0.0


def judge(samples: Sequence[dict[str, float]], warm_up: int) -> list[Growth]:
    """Judge every measure over the samples behind the warm-up."""
    after = samples[warm_up:]
    minutes = max(1, len(after) - 1)
    more_rows = max(0.0, slope([one["ledger_rows"] for one in after]) * minutes)
    found = []
    for measure in MEASURES:
        values = [one[measure.name] for one in after]
        by = slope(values)
        allowed = max(measure.amount, measure.share * median(values)) + measure.a_row * more_rows
        found.append(Growth(measure, by, by * minutes, allowed))
    return found
