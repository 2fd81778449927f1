"""Where the marks of the charts stand. Pure: figures in, places out.

Across, places are per cent of the width, so that a chart fits a telephone and a page and its letters keep
their size; upwards they are pixels from the top.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta

from shim.auditing.logs import Row
from shim.auditing.period import Period

HEIGHT = 220
"""Of a chart's field, without the line of dates under it."""
_DAY = timedelta(days=1)
_FEWEST = 10
"""A chart has room for so many days, however few there are: one day is no wall."""
_FEW_DAYS, _WEEKS, _MONTHS = 10, 84, 500
_STEPS = (1, 2, 5, 10)
_LEVELS = 5
_RIGHT = 62.0
"""Beyond this a word stands to the left of its mark."""


@dataclass(frozen=True, slots=True)
class Tick:
    """A line of the scale, or a date under the field; `minor` ones can be left out on narrow screens."""

    at: float
    label: str
    minor: bool = False


@dataclass(frozen=True, slots=True)
class Bar:
    """One day's two bars, one upon the other."""

    x: float
    width: float
    legacy_y: float
    legacy_height: float
    modern_y: float
    modern_height: float
    day: Row


@dataclass(frozen=True, slots=True)
class Bars:
    """Requests a day."""

    scale: tuple[Tick, ...]
    dates: tuple[Tick, ...]
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Dot:
    """A day's count."""

    x: float
    y: float
    day: Row


@dataclass(frozen=True, slots=True)
class Mark:
    """Something at one day, with a word that stands to its right, or `left`."""

    x: float
    left: bool


@dataclass(frozen=True, slots=True)
class Course:
    """Callers a day, the line through them, and beyond the last day the line with its bounds."""

    scale: tuple[Tick, ...]
    dates: tuple[Tick, ...]
    dots: tuple[Dot, ...]
    fitted: str
    """Points of the line over the days it is told from, in a field of 100 by HEIGHT; empty without one."""
    ahead: str
    band: str
    last: Mark | None
    """The last day that is known."""
    gone: Mark | None
    gone_from: float
    gone_to: float
    off: Mark | None


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a bar or strip."""

    x: float
    width: float
    name: str
    level: int = 0


def bars(days: Sequence[Row]) -> Bars:
    """Lay out requests a day, legacy ones at the bottom."""
    dated = _every_day(days)
    top, scale = _scale(max((row["legacy"] + row["modern"] for row in dated), default=0))
    step = 100 / max(_FEWEST, len(dated))
    width = step * (0.8 if len(dated) <= _WEEKS else 1)
    found = []
    for number, row in enumerate(dated):
        legacy, modern = (HEIGHT * row[name] / top for name in ("legacy", "modern"))
        found.append(
            Bar(
                number * step + (step - width) / 2, width,
                HEIGHT - legacy, legacy, HEIGHT - legacy - modern, modern, row,
            )
        )  # fmt: skip
    return Bars(scale, _dates([row["day"] for row in dated]), tuple(found))


def course(days: Sequence[Row], found: Row, off: date | None) -> Course:
    """Lay out callers a day and their trend, as the report has it."""
    dated = _every_day(days)
    line: list[Row] = found["line"]
    ends = [row["day"] for row in dated[-1:]] + [one["day"] for one in line[-1:]]
    first = dated[0]["day"] if dated else date.min
    all_days = [first + n * _DAY for n in range((max(ends) - first).days + 1)] if ends else []
    top, scale = _scale(max((row["legacy_callers"] for row in dated), default=0))
    known = [row["day"] for row in dated if row["whole"]]
    last = known[-1] if known else None

    def x(day: date) -> float:
        return 100 * ((day - first).days + 0.5) / max(_FEWEST, len(all_days))

    def y(count: float) -> float:
        return HEIGHT * (1 - min(count, top) / top)

    def mark(day: date | None) -> Mark | None:
        if day is None or not all_days or not first <= day <= all_days[-1]:
            return None
        return Mark(x(day), x(day) > _RIGHT)

    def points(rows: Iterable[Row], name: str) -> list[str]:
        return [f"{x(row['day']):.3f},{y(row[name]):.2f}" for row in rows]

    behind = [one for one in line if last is None or one["day"] <= last]
    beyond = [one for one in line if last is not None and one["day"] >= last]
    gone = mark(found["zero"]) if line else None
    latest = found["zero_latest"] if found["zero_latest"] in all_days else None
    earliest = found["zero_earliest"] if found["zero_earliest"] in all_days else None
    return Course(
        scale,
        _dates(all_days),
        tuple(Dot(x(row["day"]), y(row["legacy_callers"]), row) for row in dated),
        " ".join(points(behind, "middle")),
        " ".join(points(beyond, "middle")),
        " ".join(points(beyond, "high") + points(reversed(beyond), "low")),
        mark(last),
        gone,
        x(earliest) if gone and earliest else 0.0,
        x(latest) if gone and latest else 100.0,
        mark(off),
    )


def strip(days: Iterable[Row], period: Period, most: int) -> tuple[Piece, ...]:
    """Lay one caller's days along the period, darker the more they called."""
    first, count = period.since.date(), _count(period)
    return tuple(
        Piece(
            100 * (row["day"] - first).days / count, 100 / count,
            f"{row['day']}: {row['requests']}", level(row["requests"], most),
        )
        for row in days
    )  # fmt: skip


def level(count: int, most: int) -> int:
    """Give one of five levels of darkness, 0 for none: in equal steps of the square root."""
    return 0 if not count else min(_LEVELS, 1 + int(_LEVELS * math.sqrt(count / most) * 0.9999))


def shares(row: Row, names: Sequence[str]) -> tuple[Piece, ...]:
    """Lay the counts of a row beside each other, as shares of their sum."""
    total, x, found = sum(row[name] for name in names), 0.0, []
    for name in names:
        if row[name]:
            width = 100 * row[name] / total
            found.append(Piece(x, width, name))
            x += width
    return tuple(found)


def decades(rows: Sequence[Row]) -> tuple[Tick, ...]:
    """Give powers of ten between which the times of all rows lie; empty if there are none."""
    ends = [row[name] for row in rows for name in ("p50_ms", "p95_ms") if row[name]]
    if not ends:
        return ()
    floor = math.floor(math.log10(min(ends)))
    ceiling = max(floor + 1, math.ceil(math.log10(max(ends))))
    return tuple(
        Tick(100 * (power - floor) / (ceiling - floor), _power(power)) for power in range(floor, ceiling + 1)
    )


def reach(row: Row, rows: Sequence[Row]) -> Piece | None:
    """Lay a row's times, from the median to where 95 % end, on the scale of all rows."""
    low, high = row["p50_ms"], row["p95_ms"]
    if not low or not high:
        return None
    ends = [each[name] for each in rows for name in ("p50_ms", "p95_ms") if each[name]]
    floor, steps = math.floor(math.log10(min(ends))), len(decades(rows)) - 1
    x, end = (100 * (math.log10(ms) - floor) / steps for ms in (low, high))
    return Piece(x, end - x, "")


def _power(power: int) -> str:
    """Name a power of ten of milliseconds."""
    seconds = 3
    return f"{10**power:g}\u202fms" if power < seconds else f"{10 ** (power - seconds)}\u202fs"


def gaps(found: Iterable[Row], period: Period) -> tuple[Piece, ...]:
    """Lay the minutes without a sign of life along the period; `stopped` ones are named so."""
    length = (period.until - period.since) / timedelta(seconds=1) or 1.0

    def x(at: datetime) -> float:
        return min(100.0, max(0.0, 100 * ((at - period.since) / timedelta(seconds=1)) / length))

    return tuple(
        Piece(x(gap["since"]), x(gap["until"]) - x(gap["since"]), "stopped" if gap["stopped"] else "silent")
        for gap in found
    )


def period_dates(period: Period) -> tuple[Tick, ...]:
    """Give the dates under a strip of the period."""
    return _dates([period.since.date() + n * _DAY for n in range(_count(period))], fewest=1)


def _count(period: Period) -> int:
    return (period.until.date() - period.since.date()).days + 1


def _every_day(days: Sequence[Row]) -> list[Row]:
    """Put in the days of which there is nothing, so that each has its place."""
    if not days:
        return []
    there = {row["day"]: row for row in days}
    first, last = days[0]["day"], days[-1]["day"]
    empty = {"legacy": 0, "modern": 0, "legacy_callers": 0, "whole": False}
    return [
        there.get(day, {"day": day, **empty})
        for day in (first + n * _DAY for n in range((last - first).days + 1))
    ]


def _scale(most: int) -> tuple[int, tuple[Tick, ...]]:
    """Choose round numbers up to and not far above the most."""
    raw = max(1, most) / 4
    power = 10 ** math.floor(math.log10(raw)) if raw >= 1 else 1
    step = next(one * power for one in _STEPS if one * power >= raw)
    top = step * math.ceil(max(1, most) / step)
    return top, tuple(
        Tick(HEIGHT * (1 - count / top), f"{count:,}".replace(",", "\u202f"))
        for count in range(0, top + 1, step)
    )


def _dates(days: Sequence[date], fewest: int = _FEWEST) -> tuple[Tick, ...]:
    """Choose dates to name: each, mondays, firsts of a month or of a quarter; the year with the first."""
    count = len(days)
    room = max(fewest, count)

    def named(day: date) -> bool:
        if count <= _FEW_DAYS:
            return True
        if count <= _WEEKS:
            return day.weekday() == 0
        return day.day == 1 and (count <= _MONTHS or day.month % 3 == 1)

    chosen = [(number, day) for number, day in enumerate(days) if named(day)]
    return tuple(
        Tick(
            100 * number / room, f"{day.day} {day:%b}" + (f" {day:%Y}" if order == 0 else ""), order % 2 == 1
        )
        for order, (number, day) in enumerate(chosen)
    )
