"""What is kept of a log that is followed equals the truth, and is bounded."""

from datetime import UTC, timedelta

import pytest

from shim.auditing import live
from shim.auditing.live import Live
from tests.auditing import truth
from tests.auditing.world import ENDED, START, Run, at, busy, lines

NOW = START.replace(tzinfo=UTC)
SECOND = timedelta(seconds=1)


def fed(events, state=None):
    state = state or Live()
    for line in lines(events):
        state.take(line.rstrip(b"\n"))
    return state


@pytest.fixture(scope="module")
def events():
    return sorted((e for run in busy(11, 800) for e in run.events), key=at)


def test_the_counts_are_the_truth(events):
    last = at(events[-1])
    screen = fed(events).screen(last.replace(tzinfo=UTC))
    calls = truth.named(events, "request")
    assert {corner.name: corner.seen for corner in screen.corners if corner.seen} == {
        corner or "-": len(group) for corner, group in truth.grouped(calls, lambda e: e.get("corner")).items()
    }

    def since(steps):
        """Steps of ten seconds are whole ones."""
        first = int(last.replace(tzinfo=UTC).timestamp()) // 10 - steps + 1
        return [e for e in calls if int(at(e).replace(tzinfo=UTC).timestamp()) // 10 >= first]

    for corner in screen.corners:
        those = [e for e in since(60) if (e.get("corner") or "-") == corner.name]
        assert corner.last_ten == sum(corner.steps) == len(those)
        assert corner.failed_last_ten == sum(e["outcome"] in {"error", "denied"} for e in those)
        assert corner.last_minute == sum((e.get("corner") or "-") == corner.name for e in since(6))
    assert screen.newest == last.replace(tzinfo=UTC)
    assert screen.lines == len(events)
    assert screen.missed == screen.unreadable == 0


def test_the_callers_are_the_truth_newest_first(events):
    screen = fed(events).screen(NOW)
    expected = {(row["caller"], row["requests"], row["last_legacy"]) for row in truth.daily(events)}
    assert {(one.name, one.requests, one.at.replace(tzinfo=None)) for one in screen.callers} == expected
    times = [one.at for one in screen.callers]
    assert times == sorted(times, reverse=True)


def test_who_comes_later_is_new():
    run = Run("one", START)
    run.call(who=0)
    state = fed(run.events)
    state.caught_up = True
    run.call(who=0)
    run.call(who=2)
    fed(run.events[1:], state)
    assert [(one.name, one.requests, one.is_new) for one in state.screen(NOW).callers] == [
        ("nightly", 1, True), ("jwt:aaaaaaaaaaaa", 2, False),
    ]  # fmt: skip


def test_what_went_wrong_newest_first_the_same_counted():
    run = Run("one", START)
    for _ in range(3):
        run.at += SECOND
        run.call(who=2, outcome="error", code=-32603, tool="resize")
    run.emit("upstream.down", upstream="main")
    run.emit("audit.dropped", count=7)
    run.emit("lenient", rule="CS-X", detail="status: Done")
    screen = fed(run.events).screen(NOW)
    assert [(one.what, one.who, one.times) for one in screen.troubles] == [
        ("audit.dropped 7", "-", 1), ("upstream.down main", "-", 1),
        ("tools/call resize error -32603 200", "nightly", 3),
    ]  # fmt: skip
    assert screen.troubles[-1].at == NOW + 3 * SECOND


@pytest.mark.parametrize(
    "line",
    [
        b"", b"{", b"[]", b"7", b"null", b'{"ts":"soon"}', b"{}", b'{"ts":7}', b"\xff\xfe",
        b'{"event":"request","seq":1}', b"[" * 100_000, b'{"a":' * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_event_is_counted(line):
    state = Live()
    assert state.take(line) is None
    assert state.screen(NOW).unreadable == 1


@pytest.mark.parametrize(
    "fields",
    [
        '"seq":"x","instance":7,"event":"request","client":"odd","corner":9,"caller":[],"caller_kind":"jwt"',
        '"event":"request","method":{"a":1},"tool":["x"],"outcome":"error","code":"y","legacy":"yes"',
        '"event":"denied","reason":{"a":[1]},"client":null',
        '"event":["request"]',
        '"event":"request","client":{"name":7,"version":[1]},"legacy":true',
    ],
)
def test_events_of_another_shape_do_no_harm(fields):
    state = Live()
    state.take(b'{"ts":"2026-11-02T00:00:00Z",' + fields.encode() + b"}")
    assert state.screen(NOW).lines == 1


def test_numbers_that_are_passed_over_are_missed_events():
    run = Run("one", START)
    for _ in range(10):
        run.call()
    other = Run("other", START)
    other.call()
    kept = [event for event in run.events if event["seq"] not in {3, 4, 8}]
    assert fed([*kept[:2], *other.events, *kept[2:], kept[1]]).screen(NOW).missed == 3


def test_who_was_turned_away_unknown_is_no_caller_of_the_old_api():
    run = Run("one", START)
    fields = {**ENDED, "legacy": True, "era": "legacy", "outcome": "denied", "unidentified": True}
    screen = fed([run.emit("request", **fields)]).screen(NOW)
    assert screen.callers == ()
    assert [one.who for one in screen.troubles] == ["(caller unknown)"]


def test_nothing_grows_without_a_bound():
    state, run = Live(), Run("one", START)
    for number in range(live._CALLERS + 100):
        run.at += timedelta(seconds=20)
        fed([run.emit("request", **{**ENDED, "legacy": True, "outcome": "error"}, caller_kind="session",
                      client={"name": f"client-{number}"}, corner="LL")], state)  # fmt: skip
    screen = state.screen(run.at.replace(tzinfo=UTC))
    assert len(screen.callers) == live._CALLERS
    assert screen.callers[0].name == f"client-{live._CALLERS + 99}"
    assert len(screen.troubles) == live._TROUBLES
    assert all(len(steps) <= 2 * live._BUCKETS for steps in state._steps.values())
    assert len(screen.corners[0].steps) == live._BUCKETS
