"""Marks stand where the figures say."""

from datetime import date, datetime, timedelta

import pytest

from shim.auditing.page import charts
from shim.auditing.page.charts import HEIGHT
from shim.auditing.period import Period

FIRST = date(2026, 11, 2)  # a monday
DAY = timedelta(days=1)


def days(*counts, whole=True):
    return [
        {
            "day": FIRST + n * DAY, "legacy": legacy, "modern": modern, "legacy_callers": legacy,
            "whole": whole,
        }
        for n, (legacy, modern) in enumerate(counts)
    ]  # fmt: skip


def test_bars_are_as_high_as_their_counts():
    found = charts.bars(days((10, 30), (0, 20), (5, 0)))
    assert [tick.label for tick in found.scale] == ["0", "10", "20", "30", "40"]
    assert [tick.at for tick in found.scale] == [HEIGHT, HEIGHT * 0.75, HEIGHT * 0.5, HEIGHT * 0.25, 0]
    assert [(bar.legacy_height, bar.modern_height) for bar in found.bars] == [
        (HEIGHT * 10 / 40, HEIGHT * 30 / 40), (0, HEIGHT * 20 / 40), (HEIGHT * 5 / 40, 0),
    ]  # fmt: skip
    first = found.bars[0]
    assert (first.legacy_y, first.modern_y) == (HEIGHT * 0.75, 0)
    assert found.bars[1].x == pytest.approx(first.x + 100 / 10)  # room for ten days at least


def test_a_day_without_anything_keeps_its_place():
    rows = days((1, 0), (2, 0), (3, 0))
    found = charts.bars([rows[0], rows[2]])
    assert [(bar.day["day"], bar.day["legacy"]) for bar in found.bars] == [
        (FIRST, 1), (FIRST + DAY, 0), (FIRST + 2 * DAY, 3),
    ]  # fmt: skip


@pytest.mark.parametrize("most", [0, 1, 3, 4, 7, 99, 100, 101, 12345, 10**9])
def test_the_scale_is_round_and_holds_the_most(most):
    found = charts.bars(days((most, 0)))
    [bar] = found.bars
    assert 0 <= bar.legacy_height <= HEIGHT
    assert most == 0 or bar.legacy_height > HEIGHT / 2 or most == 1
    assert 2 <= len(found.scale) <= 6


@pytest.mark.parametrize(
    ("count", "labels"),
    [
        (3, ["2 Nov 2026", "3 Nov", "4 Nov"]),
        (15, ["2 Nov 2026", "9 Nov", "16 Nov"]),
        (120, ["1 Dec 2026", "1 Jan", "1 Feb", "1 Mar"]),
        (700, ["1 Jan 2027", "1 Apr", "1 Jul", "1 Oct", "1 Jan", "1 Apr", "1 Jul"]),
    ],
)
def test_dates_are_few_enough_to_read(count, labels):
    assert [tick.label for tick in charts.bars(days(*[(1, 1)] * count)).dates][: len(labels)] == labels


def test_dates_stand_under_their_days():
    found = charts.bars(days((1, 1), (1, 1)))
    assert [tick.at for tick in found.dates] == [0, 10]
    since = datetime(2026, 11, 2)  # noqa: DTZ001
    assert [tick.at for tick in charts.period_dates(Period(since, since + DAY))] == [0, 50]


def told(verdict, line=(), zero=None, earliest=None, latest=None):
    return {
        "verdict": verdict, "zero": zero, "zero_earliest": earliest, "zero_latest": latest,
        "line": [
            {"day": FIRST + n * DAY, "low": low, "middle": middle, "high": high}
            for n, (low, middle, high) in enumerate(line)
        ],
    }  # fmt: skip


def test_the_line_is_solid_where_it_is_told_from_and_has_its_bounds_ahead():
    line = [(4, 4, 4), (3, 3, 3), (1, 2, 2.5), (0, 1, 2), (0, 0, 1.5)]
    trend = told("falling", line, FIRST + 4 * DAY, FIRST + 3 * DAY, FIRST + 9 * DAY)
    found = charts.course(days((4, 0), (3, 0), (2, 0)), trend, FIRST + 3 * DAY)
    assert [dot.x for dot in found.dots] == [5, 15, 25]
    assert [dot.y for dot in found.dots] == [0, HEIGHT / 4, HEIGHT / 2]
    assert found.fitted == f"5.000,0.00 15.000,{HEIGHT / 4:.2f} 25.000,{HEIGHT / 2:.2f}"
    assert found.ahead.split()[0].startswith("25.000")
    assert found.ahead.split()[-1] == f"45.000,{HEIGHT:.2f}"
    assert len(found.band.split()) == 6
    assert (found.last.x, found.off.x, found.gone.x) == (25, 35, 45)
    assert (found.gone_from, found.gone_to) == (35, 100)  # its end lies beyond the field
    assert not found.last.left


def test_a_word_near_the_right_edge_stands_to_the_left():
    found = charts.course(days(*[(3, 0)] * 20), told("not falling"), FIRST + 2 * DAY)
    assert (found.last.left, found.off.left) == (True, False)


@pytest.mark.parametrize("rows", [[], days((1, 1))])
def test_without_a_line_there_is_none(rows):
    found = charts.course(rows, told("cannot be told"), date(2030, 1, 1))
    assert (found.fitted, found.ahead, found.band, found.gone, found.off) == ("", "", "", None, None)


def test_levels_grow_with_the_count():
    assert [charts.level(count, 100) for count in (0, 1, 4, 5, 16, 17, 37, 65, 100)] == [
        0, 1, 1, 2, 2, 3, 4, 5, 5,
    ]  # fmt: skip


def test_shares_fill_the_bar():
    found = charts.shares({"a": 1, "b": 0, "c": 3}, ("a", "b", "c"))
    assert [(piece.x, piece.width, piece.name) for piece in found] == [(0, 25, "a"), (25, 75, "c")]


@pytest.mark.parametrize(
    ("low", "high", "labels", "x", "width"),
    [
        (10, 1000, ["10\u202fms", "100\u202fms", "1\u202fs"], 0, 100),
        (1, 1, ["1\u202fms", "10\u202fms"], 0, 0),
        (0.1, 10, ["0.1\u202fms", "1\u202fms", "10\u202fms"], 0, 100),
        (10**4, 10**5, ["10\u202fs", "100\u202fs"], 0, 100),
    ],
)  # fmt: skip
def test_spans_of_time_stand_between_powers_of_ten(low, high, labels, x, width):
    row = {"p50_ms": low, "p95_ms": high}
    none = {"p50_ms": None, "p95_ms": None}
    assert [tick.label for tick in charts.decades([row, none])] == labels
    found = charts.reach(row, [row, none])
    assert (found.x, found.width) == pytest.approx((x, width))
    assert charts.reach(none, [row, none]) is None
    assert charts.decades([none]) == ()


def test_gaps_stand_at_their_time():
    since = datetime(2026, 11, 2)  # noqa: DTZ001
    period = Period(since, since + 4 * DAY)
    found = charts.gaps(
        [
            {"since": since + DAY, "until": since + 2 * DAY, "stopped": False},
            {"since": since + 3 * DAY, "until": since + 9 * DAY, "stopped": True},
        ],
        period,
    )
    assert [(gap.x, gap.width, gap.name) for gap in found] == [(25, 25, "silent"), (75, 25, "stopped")]
