"""Use by day, by feature and by age equals the truth."""

import io

import pytest

from shim.auditing.logs import reading
from shim.auditing.period import Period
from shim.auditing.report import report
from shim.auditing.usage import daily, used
from tests.auditing import truth
from tests.auditing.course import DAYS
from tests.auditing.world import START, at, busy, write


@pytest.fixture(scope="module")
def migration(migration_events, migration_logs):
    return migration_events, migration_logs


@pytest.fixture(scope="module")
def medley(tmp_path_factory):
    events = [event for run in busy(3, 900) for event in run.events]
    with reading([write(tmp_path_factory.mktemp("usage") / "a.jsonl", events)], io.BytesIO()) as logs:
        yield events, logs


@pytest.fixture(params=["medley", "migration"])
def told(request):
    return request.getfixturevalue(request.param)


def tidy(rows):
    return sorted(rows, key=str)


def test_who_used_it_on_which_day(told):
    events, logs = told
    logs.look(logs.span)
    assert tidy(daily(logs)) == tidy(truth.daily(events))
    lasts = [row["last_legacy"] for row in daily(logs)]
    assert lasts == sorted(lasts, reverse=True)


def test_which_client_used_which_feature(told):
    events, logs = told
    logs.look(logs.span)
    assert tidy(used(logs)) == tidy(truth.used(events))


def test_the_report_has_the_same(told):
    events, logs = told
    found = report(logs, logs.span)
    assert found["last_use"]["ages"] == truth.ages(events, logs.span.until)
    assert tidy(found["last_use"]["callers"]) == tidy(truth.daily(events))
    days = truth.days(events)
    assert {
        row["day"]: {name: row[name] for name in ("legacy", "modern", "legacy_callers")}
        for row in found["days"]
        if row["legacy"] or row["modern"]
    } == days


def test_the_course_of_a_migration(migration):
    events, logs = migration
    found = report(logs, Period(START, at(events[-1])))
    assert found["verdict"]["verdict"] == "unsafe"
    assert [row["whole"] for row in found["days"]].count(False) == 2  # the silent night, the last minute
    assert found["doubts"] == ["145 minutes have no sign of life"]
    line = found["trend"]["callers"]["line"]
    assert found["trend"]["callers"]["verdict"] == "falling"
    assert line[0]["day"] == START.date()
    assert line[-1]["day"] == max(found["trend"]["callers"]["zero_latest"], found["days"][-2]["day"])
    ahead = [one for one in line if one["day"] > found["days"][DAYS - 1]["day"]]
    assert all(one["low"] <= one["middle"] <= one["high"] for one in ahead)
    assert (line[-1]["low"], line[-1]["middle"]) == (0, 0)
