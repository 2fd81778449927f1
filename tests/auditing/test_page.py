"""The page says what the report says, and that is the truth; what others stated stays text."""

import base64
import hashlib
import io
import re
from datetime import timedelta

import pytest

from shim.audit.printable import printable
from shim.auditing.logs import reading
from shim.auditing.page import ROWS, figure, render
from shim.auditing.period import Period
from shim.auditing.report import report
from tests.auditing import truth
from tests.auditing.course import HOSTILE
from tests.auditing.reader import Page
from tests.auditing.world import START, Run, busy, write

DAY = timedelta(days=1)
TRUE = (
    "callers",
    "methods",
    "tools",
    "clients",
    "losses",
    "lenient",
    "tasks",
    "upstreams",
    "shadow",
    "errors",
)


def told_of(path, events, period=None, off=None, keys=(), tail=b""):
    with reading([write(path / "a.jsonl", events, tail)], io.BytesIO(), keys=keys) as logs:
        return report(logs, period or logs.span or Period(START, START), off)


def seen_through(value):
    """What a value is once it was written on a page: lists are cut, text is made printable."""
    match value:
        case [] | None:
            return None
        case list():
            return [printable(one) for one in value[:6]] + ([""] if len(value) > 6 else [])
        case bool():
            return "yes" if value else "no"
        case str():
            return printable(value)
    return value


def same(shown, expected):
    """Hold rows of the page against those of which it shows some columns, in any order."""
    columns = list(shown[0])
    assert sorted((list(row.values()) for row in shown), key=str) == sorted(
        ([seen_through(row[column]) for column in columns] for row in expected), key=str
    )
    return columns


@pytest.fixture(scope="module")
def migration(migration_events, migration_told, migration_page):
    return migration_events, migration_told, migration_page


@pytest.fixture(scope="module")
def medley(tmp_path_factory):
    events = [event for run in busy(5, 900) for event in run.events]
    told = told_of(tmp_path_factory.mktemp("page"), events)
    return events, told, render(told)


@pytest.fixture(params=["migration", "medley"])
def page(request):
    events, told, text = request.getfixturevalue(request.param)
    return events, told, Page(text)


@pytest.mark.parametrize("name", TRUE)
def test_every_table_is_the_truth(page, name):
    events, _, read = page
    # how a caller is known is any one of several where a client stands for people
    shown = [{column: cell for column, cell in row.items() if column != "kind"} for row in read.tables[name]]
    assert len(same(shown, getattr(truth, name)(events))) >= 6


def test_use_by_day_and_feature_is_the_truth(page):
    events, _, read = page
    same(read.tables["last_use"], truth.daily(events))
    days = {row["day"]: row for row in read.tables["days"]}
    assert {
        day: {name: days[day][name] for name in ("legacy", "modern", "legacy_callers")}
        for day in truth.days(events)
    } == truth.days(events)
    shown = {(row["within"], row["callers"], row["requests"]) for row in read.tables["ages"]}
    until = figure(page[1], "period.until")
    assert shown == {tuple(row.values()) for row in truth.ages(events, until)}


def test_the_heat_map_is_the_truth(page):
    events, _, read = page
    found = {
        (row["client"], feature): count
        for row in read.tables["used"]
        for feature, count in row.items()
        if feature != "client" and count is not None
    }
    assert found == {
        (printable(row["client"]), row["feature"]): row["requests"] for row in truth.used(events)
    }


def test_every_figure_in_a_sentence_is_that_of_the_report(page):
    _, told, read = page
    assert len(read.figures) > 20
    for path, shown in read.figures:
        found = figure(told, path)
        assert shown == found or shown == found.date(), path


def test_the_figures_at_the_top_are_the_truth(migration):
    events, _, text = migration
    figures = dict(Page(text).figures)
    calls = truth.named(events, "request")
    old = truth.old(calls)
    lately = [event for event in old if truth.at(event) >= truth.at(events[-1]) - 14 * DAY]
    assert figures["usage.legacy"] == len(old)
    assert figures["usage.requests"] == len(calls)
    assert figures["usage.last_legacy"] == truth.last(old)
    assert figures["usage.legacy_callers"] == truth.keys(old)
    assert figures["off.callers_still_active#"] == truth.keys(lately)
    assert figures["off.days_ahead"] == 22
    assert figures["coverage.covered"] == figures["coverage.minutes"] - 145
    assert f"{len(lately)} legacy requests by {truth.keys(lately)} callers" in text


def test_the_marks_are_as_many_as_the_figures(migration):
    _, told, text = migration
    strips = text.split('data-table="last_use"')[1].split("</table>")[0].split("</tr>")[1:-1]
    assert [strip.count('<rect class="l') for strip in strips] == [
        len(row["days"]) for row in told["last_use"]["callers"]
    ]
    daily = text.split('id="daily-title"')[1].split("</svg>")[0]
    assert daily.count('<rect class="legacy"') == len(told["days"])
    assert text.count('class="dot') - 2 == len(told["days"])  # two in the key
    assert text.count('class="silent"') - 1 == len(told["coverage"]["gaps"])


def test_what_others_stated_stays_text(migration):
    _, _, text = migration
    read = Page(text)
    assert read.tags["script"] == read.tags["img"] == read.tags["iframe"] == 0
    assert "".join(read.text).count(printable(f"{HOSTILE} 1.0")) >= 3
    assert "\u202e" not in text
    assert "\a" not in text
    for tag, name, value in read.attributes:
        assert name != "style", tag
        assert not name.startswith("on"), tag
        if name in {"href", "src"}:
            assert value.startswith("#") or value == "data:,", value


def test_nothing_may_be_loaded(migration):
    _, _, text = migration
    [policy] = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]+)"', text)
    [style] = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert policy.startswith("default-src 'none'; ")
    assert f"style-src 'sha256-{digest}'" in policy
    assert "url(" not in style
    assert "@import" not in style


def test_empty_logs_have_a_page(tmp_path):
    read = Page(render(told_of(tmp_path, [])))
    assert "cannot tell whether the old Tasks API can be switched off" in "".join(read.text)
    assert "callers" not in read.tables


def new_only(days):
    """Days of new calls only, whole and with an end in order."""
    run = Run("one", START)
    run.start()
    for minute in range(1, days * 1440 + 1):
        run.at = START + minute * timedelta(minutes=1)
        run.alive()
        if minute % 60 == 0:
            run.call(legacy=False, who=0, software=1)
    run.stop()
    return run.events


def test_when_nobody_calls_it_any_more(tmp_path):
    told = told_of(tmp_path, new_only(15), Period(START, START + 15 * DAY))
    text = render(told)
    read = Page(text)
    assert told["verdict"]["verdict"] == "safe"
    assert "The old Tasks API can be switched off" in "".join(read.text)
    assert read.tags["polyline"] == 0
    assert "none since" in "".join(read.text)
    assert '<body class="safe">' in text


def test_where_the_logs_are_not_whole(tmp_path):
    events = [event for event in new_only(1) if event["seq"] not in {5, 6, 90}]
    told = told_of(tmp_path, events, keys=(b"k" * 32,), tail=b'{"v":1,"se')
    read = Page(render(told))
    assert [(row["from_seq"], row["to_seq"], row["missing"]) for row in read.tables["holes"]] == [
        (5, 6, 2), (90, 90, 1),
    ]  # fmt: skip
    assert [row["tail"] for row in read.tables["unreadable"]] == ["yes"]
    assert [(row["lines"], row["fault"]) for row in read.tables["faults"]] == [(len(events), "has no mac")]
    assert [(row["minutes"], row["stopped"]) for row in read.tables["gaps"]] == [(2, "no"), (1, "no")]
    assert all(doubt in "".join(read.text) for doubt in told["doubts"])
    assert "3 events are missing" in told["doubts"]


def test_one_upstream_is_not_compared(tmp_path):
    read = Page(render(told_of(tmp_path, new_only(1))))
    assert "upstreams" not in read.tables
    assert "too few to tell" in "".join(read.text)


def test_a_long_table_is_cut_and_says_so(tmp_path):
    run = Run("one", START)
    run.start()
    for number in range(ROWS + 50):
        run.call(tool=f"tool-{number}", method=f"method/{number}")
    read = Page(render(told_of(tmp_path, run.events)))
    assert len(read.tables["tools"]) == ROWS
    assert f"The first {ROWS} of {ROWS + 50}" in "".join(read.text)


def test_a_name_of_any_length_is_cut(tmp_path):
    run = Run("one", START)
    run.start()
    run.call(tool="x" * 5000)
    text = render(told_of(tmp_path, run.events))
    assert "x" * 200 + "…" in text
    assert "x" * 201 not in text
