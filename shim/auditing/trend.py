"""Is something falling, and when is it gone at this pace, with how much doubt. Pure.

The line is Theil's and Sen's: the median of all slopes between two days, which weekends and single bursts
hardly move. Its bounds are Sen's, at 95 per cent. It is a straight line: what falls ever more slowly lasts
longer.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import combinations
from typing import Literal

MIN_DAYS = 7
_MAX_DAYS = 120
_Z95 = 1.959964

Verdict = Literal["gone", "falling", "not falling", "cannot be told"]


@dataclass(frozen=True, slots=True)
class Trend:
    """Where a count a day goes. Dates are None where there is none at this pace."""

    verdict: Verdict
    days: int
    """Days it is told from."""
    per_day: float | None = None
    """By how much it changes a day, and the bounds of that."""
    per_day_low: float | None = None
    per_day_high: float | None = None
    zero: date | None = None
    zero_earliest: date | None = None
    zero_latest: date | None = None
    """None with a `zero` date: it cannot be said that it ever ends."""


@dataclass(frozen=True, slots=True)
class Line:
    """Where a trend's line and its bounds are on a day."""

    day: date
    low: float
    middle: float
    high: float


def trend(counts: Sequence[tuple[date, int]]) -> Trend:
    """Tell the trend of counts of whole days, oldest first; days that are not known are left out."""
    counts = counts[-_MAX_DAYS:]
    if len(counts) < MIN_DAYS:
        return Trend("cannot be told", len(counts))
    if not any(count for _, count in counts[-MIN_DAYS:]):
        gone = next((day for day, count in reversed(counts) if count), None)
        return Trend("gone", len(counts), zero=counts[0][0] if gone is None else gone + timedelta(days=1))
    points = _points(counts)
    slopes = sorted((b[1] - a[1]) / (b[0] - a[0]) for a, b in combinations(points, 2))
    n = len(points)
    spread = _Z95 * math.sqrt(n * (n - 1) * (2 * n + 5) / 18)
    low = slopes[max(0, math.floor((len(slopes) - spread) / 2))]
    high = slopes[min(len(slopes) - 1, math.ceil((len(slopes) + spread) / 2))]
    middle = statistics.median(slopes)
    if high >= 0:
        return Trend("not falling", n, middle, low, high)
    return Trend(
        "falling", n, middle, low, high,
        zero=_zero(counts, points, middle),
        zero_earliest=_zero(counts, points, low),
        zero_latest=_zero(counts, points, high),
    )  # fmt: skip


def line(counts: Sequence[tuple[date, int]], found: Trend, until: date) -> list[Line]:
    """Give the line of a trend and its bounds a day, from the first day it is told from to `until`.

    Each is the line of that slope through the middle of the points; none goes below nothing. Empty where
    there is no line.
    """
    counts = counts[-_MAX_DAYS:]
    if found.per_day is None or found.per_day_low is None or found.per_day_high is None:
        return []
    first = counts[0][0]
    points = _points(counts)
    slopes = (found.per_day_low, found.per_day, found.per_day_high)
    levels = [_level(points, slope) for slope in slopes]
    return [
        Line(
            first + timedelta(days=x),
            *(max(0.0, level + slope * x) for level, slope in zip(levels, slopes, strict=True)),
        )
        for x in range((until - first).days + 1)
    ]


def _points(counts: Sequence[tuple[date, int]]) -> list[tuple[int, int]]:
    return [((day - counts[0][0]).days, count) for day, count in counts]


def _level(points: list[tuple[int, int]], slope: float) -> float:
    return statistics.median(count - slope * x for x, count in points)


def _zero(counts: Sequence[tuple[date, int]], points: list[tuple[int, int]], slope: float) -> date:
    """Follow a line through the middle of the points to its end; a day after the last that was seen."""
    x = max(math.ceil(-_level(points, slope) / slope), points[-1][0] + 1)
    return counts[0][0] + timedelta(days=min(x, points[-1][0] + 36_500))
