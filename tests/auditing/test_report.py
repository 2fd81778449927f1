"""The report on a migration whose course is known."""

import io
import json
from datetime import timedelta

import pytest
from click.testing import CliRunner

from shim.auditing.logs import reading
from shim.auditing.period import Period
from shim.auditing.report import report
from shim.cli.audit import audit
from tests.auditing.world import MINUTE, START, Run, write

DAY = timedelta(days=1)
DAYS = 10


@pytest.fixture(scope="module")
def migration(tmp_path_factory):
    """Ten days: 20 old calls on the first, two fewer each day; `nightly` leaves after the third day."""
    run = Run("one", START)
    run.start()
    for day in range(DAYS):
        for minute in range(1440):
            run.at = START + day * DAY + minute * MINUTE
            if day or minute:
                run.alive()
            if minute < 20 - 2 * day:
                who = 2 if minute == 0 and day < 3 else 0
                run.call(who=who, legacy_features=("session", "tasks/list"), method="tasks/list")
            if minute == 100:
                run.call(legacy=False, who=1, software=1)
    run.at = START + DAYS * DAY
    run.alive(
        connected=({"caller": "c" * 64, "caller_kind": "api_key", "client": {"name": "old"}, "count": 2},),
        waiting=(
            {
                "caller": "a" * 64,
                "caller_kind": "jwt",
                "era": "legacy",
                "method": "tasks/result",
                "count": 3,
                "oldest_ms": 5000,
            },
            {
                "caller": "a" * 64,
                "caller_kind": "jwt",
                "era": "modern",
                "method": "tasks/get",
                "count": 9,
                "oldest_ms": 5000,
            },
        ),
    )
    return write(tmp_path_factory.mktemp("report") / "audit.jsonl", run.events)


@pytest.fixture(scope="module")
def logs(migration):
    with reading([migration], io.BytesIO()) as logs:
        yield logs


def test_the_figures(logs):
    told = report(logs, logs.span)
    assert told["doubts"] == []
    assert told["usage"] == {
        "requests": 120, "legacy": 110, "modern": 10, "unidentified": 0, "legacy_callers": 2,
        "modern_callers": 1, "first_legacy": START, "last_legacy": START + 9 * DAY + MINUTE,
    }  # fmt: skip
    assert [(row["legacy"], row["modern"], row["legacy_callers"]) for row in told["days"]] == [
        (20 - 2 * day, 1, 2 if day < 3 else 1) for day in range(DAYS)
    ]
    assert told["trend"]["requests"]["zero"] == (START + 10 * DAY).date()
    assert told["coverage"] == {"minutes": 14400, "covered": 14400, "percent": 100, "gaps": []}
    assert [(row["feature"], row["requests"]) for row in told["without_counterpart"]] == [
        ("session", 110), ("tasks/list", 110),
    ]  # fmt: skip


def test_what_breaks_when_it_goes_off_at_the_end(logs):
    off = report(logs, logs.span)["off"]
    assert [(row["caller"], row["requests"]) for row in off["callers_still_active"]] == [
        ("jwt:aaaaaaaaaaaa", 107), ("nightly", 3),
    ]  # fmt: skip
    assert [(row["caller"], row["client"], row["what"], row["count"]) for row in off["connected"]] == [
        ("jwt:aaaaaaaaaaaa", "(no name)", "tasks/result", 3), ("nightly", "old", "session", 2),
    ]  # fmt: skip
    assert off["expected_per_day"] is None


def test_what_would_have_broken_on_a_day_that_is_past(logs):
    off = report(logs, logs.span, START + 8 * DAY)["off"]
    assert [(row["caller"], row["requests"], row["last"]) for row in off["calls_after"]] == [
        ("jwt:aaaaaaaaaaaa", 4 + 2, START + 9 * DAY + MINUTE)
    ]
    assert sum(row["requests"] for row in off["callers_still_active"]) == 104


def test_what_is_expected_on_a_day_to_come(logs):
    period = Period(START, START + 6 * DAY)
    assert report(logs, period, START + 7 * DAY)["off"]["expected_per_day"] is None  # six days are too few
    seven = Period(START, START + 7 * DAY)
    assert report(logs, seven, START + 8 * DAY)["off"]["expected_per_day"] == {
        "low": 4,
        "middle": 4,
        "high": 4,
    }


def run(*arguments):
    return CliRunner().invoke(audit, ["report", *arguments])


def test_the_report_for_people(migration):
    result = run(migration)
    assert result.exit_code == 0
    assert (
        "110 of 120 requests were legacy, by 2 callers; the last one at 2026-11-11T00:01:00Z" in result.output
    )
    assert "at this pace none from 2026-11-12, between 2026-11-12 and 2026-11-12 (95 %" in result.output
    assert "only traffic through the shim" in result.output


def test_the_report_for_machines_in_a_file(migration, tmp_path):
    target = tmp_path / "report.json"
    assert run(migration, "--format", "json", "-o", str(target)).exit_code == 0
    told = json.loads(target.read_text())
    assert told["usage"]["last_legacy"] == "2026-11-11T00:01:00.000000Z"
    assert told["trend"]["requests"]["zero"] == "2026-11-12"


def test_what_a_client_stated_is_no_markdown(tmp_path):
    one = Run("one", START)
    one.start()
    one.call(tool="a|b <script>alert(1)</script> [x](http://y)\n# z")
    output = run(write(tmp_path / "a.jsonl", one.events), "--format", "md").output
    assert r"a\|b \<script\>alert(1)\</script\> \[x\](http://y)" in output
    assert "\n# z" not in output


def test_a_file_that_cannot_be_written_is_one_line(migration, tmp_path):
    result = run(migration, "-o", str(tmp_path / "none" / "report"))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1


def test_logs_that_are_not_whole_say_so(tmp_path):
    one = Run("one", START)
    one.start()
    one.live(3)
    one.call()
    one.call()
    path = write(tmp_path / "a.jsonl", [event for event in one.events if event["seq"] not in {4, 6}])
    output = run(path).output
    assert "NOT WHOLE: 2 events are missing" in output
    assert "NOT WHOLE: 1 minute has no sign of life" in output


def test_when_and_where_logs_are_not_whole(tmp_path):
    one, two = Run("one", START), Run("two", START + 5 * MINUTE)
    for each in (one, two):
        each.start()
        each.live(2)
        each.emit("audit.dropped", count=7)
        each.call()
    kept = [event for event in one.events if event["seq"] != 3] + two.events[1:]
    path = write(tmp_path / "a.jsonl", kept, b'{"v":1,')
    output = run(path).output
    for title, line in {
        "Missing events": "  one       3         3       1        2026-11-02T00:00:00Z  2026-11-02T00:02:00Z",
        "Events lost by the shim's own account": "  one       2026-11-02T00:02:00Z  7",
        "Lines that cannot be read": f"  {path}  yes   2026-11-02T00:07:00Z  -",
    }.items():
        part = output.partition(f"\n{title}\n")[2].partition("\n\n")[0]
        assert line in part.splitlines(), title
    missing = json.loads(run(path, "--format", "json").output)["missing"]
    assert [(row["instance"], row["at"], row["what"]) for row in missing["runs"]] == [
        ("two", "2026-11-02T00:05:00.000000Z", "its beginning is missing"),
        ("two", "2026-11-02T00:07:00.000000Z", "it ends without having stopped"),
    ]
    page = run(path, "--format", "html").output
    assert "Runs that are not whole" in page
    assert "Events lost by the shim" in page
