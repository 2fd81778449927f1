"""Falling or not, and the day it is gone, against lines that are known."""

import random
from datetime import date, timedelta

import pytest

from shim.auditing.trend import MIN_DAYS, Trend, trend

FIRST = date(2026, 11, 2)


def days(counts):
    return [(FIRST + timedelta(days=n), count) for n, count in enumerate(counts) if count is not None]


def test_a_straight_fall_ends_on_its_day():
    found = trend(days([100 - 5 * n for n in range(10)]))
    end = FIRST + timedelta(days=20)
    assert found == Trend("falling", 10, -5, -5, -5, end, end, end)


def test_days_that_are_not_known_change_nothing():
    counts = [100 - 5 * n for n in range(14)]
    counts[3] = counts[4] = counts[9] = None
    assert trend(days(counts)).zero == FIRST + timedelta(days=20)


@pytest.mark.parametrize(
    ("counts", "verdict"),
    [
        ([50] * 20, "not falling"),
        (list(range(20)), "not falling"),
        ([10, 30] * 10, "not falling"),
        ([9] * (MIN_DAYS - 1), "cannot be told"),
        ([0] * (MIN_DAYS - 1), "cannot be told"),
        ([], "cannot be told"),
        ([9, 8] + [0] * MIN_DAYS, "gone"),
        ([9, 8] + [0] * (MIN_DAYS - 1), "not falling"),
    ],
)
def test_verdicts(counts, verdict):
    found = trend(days(counts))
    assert found.verdict == verdict
    assert (found.zero is None) == (verdict in {"not falling", "cannot be told"})


def test_gone_since_the_day_after_the_last_use():
    assert trend(days([5, 0, 3] + [0] * 10)).zero == FIRST + timedelta(days=3)
    assert trend(days([0] * 10)).zero == FIRST


def test_one_burst_does_not_move_the_line():
    counts = [200 - 4 * n for n in range(30)]
    counts[20] += 5000
    assert trend(days(counts)).zero == FIRST + timedelta(days=50)


def test_the_bounds_hold_the_true_day_most_of_the_time():
    rng = random.Random(3)  # noqa: S311 - a reproducible draw
    held = 0
    for _ in range(200):
        found = trend(days([max(0, round(300 - 5 * n + rng.gauss(0, 15))) for n in range(40)]))
        assert found.zero_earliest <= found.zero <= found.zero_latest
        held += found.zero_earliest <= FIRST + timedelta(days=60) <= found.zero_latest
    assert held >= 180


def test_a_projection_is_never_in_the_past():
    found = trend(days([100, 60, 30, 12, 6, 4, 3, 2, 1, 1]))
    assert found.verdict == "falling"
    assert found.zero_earliest > FIRST + timedelta(days=9)
