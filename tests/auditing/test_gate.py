"""The gate: safe only when it is known to be, and why not."""

import functools
import io
import json
from datetime import timedelta

import pytest
from click.testing import CliRunner

from shim.auditing.gate import Gate
from shim.auditing.logs import reading
from shim.auditing.period import Period
from shim.auditing.rates import difference
from shim.auditing.sources import AuditingError
from shim.cli.audit import audit
from tests.auditing.world import ENDED, MINUTE, START, Run, context, lines, write

HOUR = timedelta(hours=1)
END = START + 2 * HOUR


def two_hours(each=None, *, silent=()):
    """A run of two hours with a modern request a minute; `each` adds to it."""
    run = Run("one", START)
    run.start()
    for minute in range(121):
        run.at = START + minute * MINUTE
        if minute and minute not in silent:
            run.alive()
        run.call(legacy=False, who=1)
        if each is not None:
            each(run, minute)
    return run


def old_call_at(when, **fields):
    return lambda run, minute: run.call(**fields) if minute == when else None


@pytest.fixture
def ask(tmp_path):
    def asked(rule, *runs, without=(), tail=b"", since=START, until=END, tolerated=0, strict=False):
        events = [e for run in runs for e in run.events if (e["instance"], e["seq"]) not in without]
        with reading([write(tmp_path / "audit.jsonl", events, tail)], io.BytesIO()) as logs:
            return Gate(logs, Period(since, until), tolerated=tolerated, strict=strict).ask(rule)

    return asked


def test_nothing_legacy_in_a_whole_log_is_safe(ask):
    answer = ask("no-legacy-for:1h", two_hours(old_call_at(59)))
    assert (answer.verdict, answer.why, answer.in_the_way) == ("safe", (), ())


def test_one_legacy_call_is_not_and_its_caller_is_named(ask):
    answer = ask("no-legacy-for:1h", two_hours(old_call_at(60, who=2)))
    assert answer.verdict == "unsafe"
    assert answer.why == ("1 legacy request by 1 caller, the last one at 2026-11-02T01:00:00Z",)
    assert [row["caller"] for row in answer.in_the_way] == ["nightly"]


def test_a_stream_that_has_not_ended_is_a_call(ask):
    waiting = {
        "caller": "a" * 64,
        "caller_kind": "jwt",
        "era": "legacy",
        "method": "GET",
        "count": 1,
        "oldest_ms": 9,
    }
    answer = ask(
        "no-legacy-for:1h",
        two_hours(lambda run, minute: run.alive(waiting=(waiting,)) if minute == 90 else None),
    )
    assert answer.verdict == "unsafe"
    assert [(row["caller"], row["what"]) for row in answer.in_the_way] == [("jwt:aaaaaaaaaaaa", "GET")]


def test_a_session_on_which_nothing_is_called_is_told(ask):
    held = {"caller": "a" * 64, "caller_kind": "jwt", "client": {"name": "x"}, "count": 2}
    answer = ask("no-legacy-for:1h", two_hours(lambda run, _minute: run.alive(connected=(held,))))
    assert answer.verdict == "safe"
    assert answer.why == ("2 legacy sessions are open, but nothing was called on them",)


REFUSED = {
    "outcome": "denied", "http_status": 401, "reason": "token_expired", "unidentified": True,
    "legacy_features": ("no session",),
}  # fmt: skip


def turned_away(run, minute, *, count=2, **changed):
    """Requests by the old API that came to no caller, in one minute."""
    if minute == 90:
        for _ in range(count):
            run.emit("request", era="legacy", **{**ENDED, **REFUSED, "legacy": True, **changed})


def test_who_was_turned_away_unknown_is_shown_and_holds_nothing_up(ask):
    answer = ask("no-legacy-for:1h", two_hours(turned_away))
    assert (answer.verdict, answer.in_the_way) == ("safe", ())
    [why] = answer.why
    assert why == (
        "2 legacy requests were turned away before anything told who called, "
        "the last one at 2026-11-02T01:30:00Z"
    )
    [row] = answer.refused
    assert (row["reason"], row["http_status"], row["methods"], row["requests"]) == (
        "token_expired", 401, ["tools/call"], 2,
    )  # fmt: skip


@pytest.mark.parametrize("rule", ["no-legacy-for:1h", "legacy-only-from:nightly"])
def test_a_strict_gate_is_held_up_by_who_was_turned_away(ask, rule):
    run = two_hours(turned_away)
    assert ask(rule, run).verdict == "safe"
    answer = ask(rule, run, strict=True)
    assert (answer.verdict, len(answer.refused)) == ("unsafe", 1)
    assert ask(rule, two_hours(), strict=True).verdict == "safe"


@pytest.mark.parametrize(
    ("served", "verdict"),
    [
        ({"outcome": "ok", "http_status": 200, "unidentified": False}, "unsafe"),
        ({"outcome": "error", "http_status": 200, "code": -32602, "unidentified": False}, "unsafe"),
        ({}, "safe"),
    ],
)
def test_callers_without_a_name_count_if_they_are_served(ask, served, verdict):
    who = {"caller": "none", "caller_kind": "none"}
    each = functools.partial(turned_away, count=1, **who, **served)
    assert ask("no-legacy-for:1h", two_hours(each)).verdict == verdict


def test_while_it_cannot_be_told_who_calls_nothing_is_safe(ask):
    each = functools.partial(turned_away, count=1, outcome="error", http_status=503, reason=None)
    answer = ask("no-legacy-for:1h", two_hours(each))
    assert answer.verdict == "unknown"
    assert answer.why == (
        "1 legacy request came while it could not be told who calls, the last one at 2026-11-02T01:30:00Z",
    )


def test_of_logs_from_before_it_was_written_only_who_came_to_no_caller_was_turned_away(ask):
    def before(run, minute):
        if minute == 90:
            event = run.emit("request", era="legacy", **{**ENDED, **REFUSED, "legacy": True})
            del event["unidentified"]

    run = two_hours(before)
    assert ask("no-legacy-for:1h", run).verdict == "safe"
    next(e for e in run.events if e.get("reason") == "token_expired")["caller_kind"] = "none"
    assert ask("no-legacy-for:1h", run).verdict == "unsafe"


def test_a_request_under_way_whose_caller_is_not_known_yet_is_no_call(ask):
    waiting = {"era": "legacy", "method": "GET", "count": 1, "oldest_ms": 1_500}
    run = two_hours(lambda run, minute: run.alive(waiting=(waiting,)) if minute == 90 else None)
    assert ask("no-legacy-for:1h", run).verdict == "safe"


def test_requests_that_were_all_turned_away_say_nothing(ask):
    run = Run("one", START)
    run.start()
    for minute in range(121):
        run.at = START + minute * MINUTE
        run.alive()
        turned_away(run, minute)
    answer = ask("no-legacy-for:1h", run)
    assert answer.verdict == "unknown"
    assert "no request that was served came through the shim" in answer.why


def dropping(run, minute):
    if minute == 100:
        run.emit("audit.dropped", count=5)


@pytest.mark.parametrize(
    ("run", "how", "why"),
    [
        (two_hours(), {"without": {("one", 200)}}, "1 event is missing"),
        (two_hours(silent={90}), {}, "1 minute has no sign of life"),
        (two_hours(dropping), {}, "5 events were lost by the shim's own account"),
        (two_hours(), {"until": END + 10 * MINUTE}, "9 minutes have no sign of life"),
        (two_hours(), {"since": START - HOUR, "rule": "legacy-only-from:x"}, "the logs begin only at"),
        (two_hours(), {"rule": "no-legacy-for:3h"}, "the logs begin only at"),
        (
            two_hours(),
            {"without": {("one", n) for n in range(1, 182)}, "rule": "no-legacy-for:90m"},
            "begin only at",
        ),
    ],
)
def test_what_is_not_known_is_never_safe(ask, run, how, why):
    answer = ask(how.pop("rule", "no-legacy-for:1h"), run, **how)
    assert answer.verdict == "unknown"
    assert any(why in one for one in answer.why)


def test_an_unreadable_line_in_the_middle_is_a_doubt_and_a_torn_tail_is_not(ask, tmp_path):
    run = two_hours()
    assert ask("no-legacy-for:1h", run, tail=b'{"v":1,"se').verdict == "safe"
    path = tmp_path / "torn.jsonl"
    write(path, run.events[:-9], b"{torn\n")
    with path.open("ab") as file:
        file.writelines(lines(run.events[-9:]))
    with reading([str(path)], io.BytesIO()) as logs:
        answer = Gate(logs, Period(START, END)).ask("no-legacy-for:1h")
    assert answer.verdict == "unknown"
    assert "1 line cannot be read" in answer.why


def test_gaps_that_are_tolerated_are_no_doubt(ask):
    run = two_hours(silent={90, 91})
    assert ask("no-legacy-for:1h", run, tolerated=1).verdict == "unknown"
    assert ask("no-legacy-for:1h", run, tolerated=2).verdict == "safe"


def test_a_run_that_ends_beside_another_is_a_doubt(ask):
    lost = Run("lost", START)
    lost.start()
    lost.live(80)
    answer = ask("no-legacy-for:1h", two_hours(), lost)
    assert answer.verdict == "unknown"
    assert any("nothing took their place" in one for one in answer.why)


def test_a_restart_in_order_is_no_doubt(ask):
    first, second = Run("first", START), Run("second", START + 20 * MINUTE)
    first.start()
    first.live(10)
    first.call(legacy=False)
    first.stop()
    second.start()
    second.live(40)
    assert ask("no-legacy-for:1h", first, second, until=START + HOUR).verdict == "safe"


def test_no_traffic_at_all_is_not_safe(ask):
    run = Run("one", START)
    run.start()
    run.live(120)
    answer = ask("no-legacy-for:1h", run)
    assert (answer.verdict, answer.why) == ("unknown", ("no request that was served came through the shim",))


def test_a_request_that_does_not_say_what_it_is_is_a_doubt(ask):
    run = two_hours()
    for name in ("legacy", "era"):
        del run.events[-1][name]
    assert ask("no-legacy-for:1h", run, until=END + MINUTE / 2).verdict == "unknown"


@pytest.mark.parametrize(
    ("allowed", "verdict"),
    [
        ("nightly,client=mcp", "safe"),
        ("cccccccc,client=mcp 1.30.0", "safe"),
        ("nightly", "unsafe"),
        ("nightly,mcp", "unsafe"),
        ("client=mcp", "unsafe"),
        ("ccccccc,client=mcp", "unsafe"),
    ],
)
def test_only_from_those_in_the_list(ask, allowed, verdict):
    def both(run, minute):
        if minute == 30:
            run.call(who=2)
            run.call(who=4)

    assert ask(f"legacy-only-from:{allowed}", two_hours(both)).verdict == verdict


def tasks(*steps, upstream=0):
    def each(run, minute):
        for when, name, task_id in steps:
            if when == minute:
                around = context(legacy=False, who=0, software=0, upstream=upstream)
                if name == "request":
                    run.call(legacy=False, task_id=task_id)
                else:
                    run.emit(name, **around, task_id=task_id)

    return two_hours(each)


@pytest.mark.parametrize(
    ("run", "verdict"),
    [
        (tasks((5, "task.created", "a"), (9, "task.ended", "a")), "safe"),
        (tasks((5, "task.created", "a"), (9, "task.lost", "a")), "safe"),
        (tasks((5, "task.created", "a"), (9, "task.status", "a")), "unsafe"),
        (tasks((5, "task.created", "a"), (9, "task.ended", "a"), (10, "task.created", "a")), "unsafe"),
        (tasks((5, "task.created", "a"), upstream=1), "safe"),
        (tasks((5, "request", "a")), "unknown"),
        (tasks((5, "task.created", "a"), (6, "task.ended", "a"), (7, "request", "a")), "safe"),
    ],
)
def test_open_tasks_on_the_old_upstream(ask, run, verdict):
    assert ask("no-open-tasks", run).verdict == verdict


def test_open_tasks_of_an_upstream_by_name(ask):
    run = tasks((5, "task.created", "a"), upstream=1)
    assert [row["task_id"] for row in ask("no-open-tasks:next", run).in_the_way] == ["a"]
    assert ask("no-open-tasks:main", run).verdict == "safe"


def calls(new, new_errors, old, old_errors):
    def each(run, minute):
        if minute == 50:
            for legacy, count, errors in ((False, new, new_errors), (True, old, old_errors)):
                for n in range(count):
                    run.call(legacy=legacy, outcome="error" if n < errors else "ok")

    return two_hours(each)


@pytest.mark.parametrize(
    ("counts", "margin", "verdict"),
    [
        ((2000, 20, 2000, 20), "1", "safe"),
        ((2000, 20, 2000, 20), "0.1%", "unknown"),  # as good, but it may be more
        ((2000, 60, 2000, 20), "1", "unsafe"),
        ((2000, 0, 2000, 100), "0", "safe"),
        ((2000, 0, 99, 0), "100", "unknown"),
        ((2000, 0, 0, 0), "100", "unknown"),
    ],
)
def test_error_rates(ask, counts, margin, verdict):
    assert ask(f"error-rate:{margin}", calls(*counts)).verdict == verdict


def test_the_bounds_of_a_difference():
    # Newcombe 1998, table II, contrast (a): 56/70 against 48/80
    above, at_most = difference((56, 70), (48, 80))
    assert above == pytest.approx(0.2)
    assert at_most == pytest.approx(0.3339, abs=0.0001)


@pytest.mark.parametrize(("wanted", "verdict"), [("99.1%", "safe"), ("99.2", "unsafe"), ("100", "unsafe")])
def test_coverage(ask, wanted, verdict):
    run = two_hours(silent={90})
    assert ask(f"coverage:{wanted}", run).verdict == verdict


def test_coverage_of_nothing_cannot_be_told(ask):
    assert ask("coverage:0", two_hours(), until=START).verdict == "unknown"


@pytest.mark.parametrize(
    "rule",
    [
        "no-rule",
        "no-legacy-for",
        "no-legacy-for:soon",
        "legacy-only-from:",
        "error-rate:x",
        "coverage:101",
        "coverage",
    ],
)
def test_a_rule_that_is_not_understood(ask, rule):
    with pytest.raises(AuditingError):
        ask(rule, two_hours())


def test_an_empty_log_is_never_safe(ask):
    empty = Run("one", START)
    for rule in ("no-legacy-for:1h", "legacy-only-from:x", "no-open-tasks", "error-rate:5", "coverage:99"):
        assert ask(rule, empty).verdict != "safe"


@pytest.mark.parametrize(
    ("rules", "code", "said"),
    [
        (["no-legacy-for:1h"], 0, "safe, as far as traffic through the shim goes"),
        (["no-legacy-for:1h", "no-legacy-for:90m"], 1, "NOT SAFE"),
        (["no-legacy-for:1h", "no-legacy-for:3h"], 1, "NOT SAFE"),
        (["no-legacy-for:1h", "error-rate:1"], 2, "CANNOT BE TOLD"),
        (["nonsense"], 2, ""),
    ],
)
def test_exit_codes(tmp_path, rules, code, said):
    path = write(tmp_path / "audit.jsonl", two_hours(old_call_at(50, who=2)).events)
    arguments = [part for rule in rules for part in ("--rule", rule)]
    result = CliRunner().invoke(audit, ["gate", path, "--until", "2026-11-02T02:00Z", *arguments])
    assert result.exit_code == code
    assert said in result.output
    assert ("nightly" in result.output) == (code == 1)


def test_who_was_turned_away_for_people_and_strictly(tmp_path):
    path = write(tmp_path / "audit.jsonl", two_hours(turned_away).events)
    arguments = ["gate", path, "--until", "2026-11-02T02:00Z", "--rule", "no-legacy-for:1h"]
    result = CliRunner().invoke(audit, arguments)
    assert result.exit_code == 0
    assert "token_expired  401" in result.output
    strict = CliRunner().invoke(audit, [*arguments, "--strict", "--json"])
    assert strict.exit_code == 1
    assert json.loads(strict.output)["rules"][0]["refused"][0]["requests"] == 2


def test_the_answer_for_machines(tmp_path):
    path = write(tmp_path / "audit.jsonl", two_hours(old_call_at(110, who=2)).events)
    result = CliRunner().invoke(
        audit, ["gate", path, "--until", "2026-11-02T02:00Z", "--rule", "no-legacy-for:1h", "--json"]
    )
    told = json.loads(result.output)
    assert told["verdict"] == "unsafe"
    assert told["rules"][0]["in_the_way"][0]["hash"] == "c" * 64


def test_logs_that_ended_long_ago_say_nothing_of_today(tmp_path):
    path = write(tmp_path / "audit.jsonl", two_hours().events)
    result = CliRunner().invoke(audit, ["gate", path, "--rule", "no-legacy-for:1h"])
    assert result.exit_code == 2
