"""What is missing, repeated, changed or torn is found exactly, and nothing else."""

import io
from datetime import timedelta

import pytest

from shim.auditing.integrity import integrity, reordered
from shim.auditing.logs import reading
from shim.auditing.period import Period
from tests.auditing.world import MINUTE, START, Run, at, lines, write

NOTHING = io.BytesIO()


def whole(minutes=30, calls=10_000):
    """A run of half an hour that stopped in order."""
    run = Run("one", START)
    run.start()
    for _ in range(minutes):
        run.live(1)
        for _ in range(calls // minutes):
            run.call()
    run.stop()
    return run


@pytest.fixture(scope="module")
def run():
    return whole()


def look(tmp_path, *files, tail=b"", period=None):
    """Read files of these events and give what is found."""
    names = [write(tmp_path / f"{n}.jsonl", events, tail) for n, events in enumerate(files)]
    with reading(names, NOTHING) as logs:
        logs.look(period or logs.span)
        return integrity(logs), reordered(logs)


def test_a_whole_log_has_no_fault(tmp_path, run):
    found, back = look(tmp_path, run.events[:6000], run.events[5000:])
    assert (found.missing, found.differing, found.holes, found.unreadable, back) == (0, 0, (), (), [])
    assert [row["repeated"] for row in found.repeated] == [1000]
    assert (found.coverage.minutes, found.coverage.covered) == (30, 30)
    assert found.open_ends(START + timedelta(days=1)) == []


@pytest.mark.parametrize(
    "cuts",
    [
        [(5, 5)],
        [(4000, 4200), (9000, 9001)],
        [(4095, 4096)],
        [(4096, 4096)],
        [(3, 8300)],
        [(8191, 8193), (8195, 8195)],
    ],
)
def test_missing_numbers_are_found_with_their_times(tmp_path, run, cuts):
    gone = {seq for low, high in cuts for seq in range(low, high + 1)}
    found, _ = look(tmp_path, [event for event in run.events if event["seq"] not in gone])
    assert found.missing == len(gone)
    assert [
        (hole["from_seq"], hole["to_seq"], hole["missing"], hole["after"], hole["before"])
        for hole in found.holes
    ] == [(low, high, high - low + 1, at(run.events[low - 2]), at(run.events[high])) for low, high in cuts]


def test_a_log_that_begins_in_the_middle_is_cut(tmp_path, run):
    found, _ = look(tmp_path, run.events[100:])
    assert [row["cut"] for row in found.runs] == [True]
    assert found.missing == 0


def test_a_changed_line_beside_its_original_is_found(tmp_path, run):
    changed = [{**run.events[50], "method": "ping"}, run.events[51]]
    found, _ = look(tmp_path, run.events, changed)
    assert [(row["repeated"], row["differing"]) for row in found.repeated] == [(2, 1)]


def test_lines_out_of_order_are_found_in_their_file(tmp_path, run):
    events = [*run.events[:10], run.events[11], run.events[10], *run.events[12:]]
    _, back = look(tmp_path, events)
    assert [(row["instance"], row["reordered"]) for row in back] == [("one", 1)]


def test_torn_lines_are_found_with_their_place(tmp_path, run):
    torn = b'{"v":1,"seq":5\n'
    path = tmp_path / "0.jsonl"
    first, second = run.events[:20], run.events[21:]
    write(path, first, torn)
    with path.open("ab") as file:
        file.writelines(lines(second))
        file.write(b'{"v":1,')
    with reading([str(path)], NOTHING) as logs:
        logs.look(logs.span)
        found = integrity(logs)
    assert [(line["tail"], line["after"], line["before"]) for line in found.unreadable] == [
        (False, at(first[-1]), at(second[0])),
        (True, at(second[-1]), None),
    ]


def test_what_the_shim_says_it_dropped_is_counted(tmp_path):
    run = Run("one", START)
    run.start()
    run.emit("audit.dropped", count=3)
    run.emit("audit.dropped", count=4)
    assert look(tmp_path, run.events)[0].dropped == 7


def gaps(found):
    return [
        ((gap["since"] - START) // MINUTE, (gap["until"] - START) // MINUTE, gap["stopped"])
        for gap in found.coverage.gaps
    ]


def test_minutes_without_a_sign_of_life(tmp_path):
    run = Run("one", START)
    run.start()
    run.live(10)
    run.at += 5 * MINUTE
    run.live(5)
    run.stop()
    again = Run("two", run.at + 10 * MINUTE)
    again.start()
    again.live(3)
    period = Period(START, START + 40 * MINUTE)
    found, _ = look(tmp_path, run.events, again.events, period=period)
    assert gaps(found) == [(11, 16, False), (21, 30, True), (34, 40, False)]
    assert (found.coverage.minutes, found.coverage.covered) == (40, 20)
    assert found.coverage.silent_minutes == 11
    assert found.coverage.percent == 50


def test_a_sign_that_drifts_over_a_minute_leaves_no_gap(tmp_path):
    run = Run("one", START + timedelta(seconds=59.9))
    run.start()
    for _ in range(5):
        run.at += timedelta(seconds=60.05)
        run.alive()
    found, _ = look(tmp_path, run.events, period=Period(START, START + 6 * MINUTE))
    assert gaps(found) == []


def test_one_lost_sign_is_a_gap(tmp_path):
    run = Run("one", START)
    run.start()
    run.live(5)
    kept = [event for event in run.events if event["seq"] != 4]
    found, _ = look(tmp_path, kept, period=Period(START, START + 5 * MINUTE))
    assert gaps(found) == [(2, 3, False)]


@pytest.mark.parametrize(
    ("runs", "left"),
    [
        ([(0, 5, True)], []),
        ([(0, 5, False)], ["0"]),
        ([(0, 5, False), (6, 9, True)], []),
        ([(0, 5, False), (0, 9, True)], ["0"]),
        # the second stops and starts again: the first is still not replaced
        ([(0, 5, False), (0, 6, True), (7, 9, True)], ["0"]),
        ([(0, 5, False), (0, 6, False), (7, 9, True)], ["1"]),
    ],
)
def test_runs_that_just_end_are_told_from_those_replaced(tmp_path, runs, left):
    files = []
    for number, (begin, end, stops) in enumerate(runs):
        run = Run(str(number), START + begin * MINUTE)
        run.start()
        run.live(end - begin)
        if stops:
            run.stop()
        files.append(run.events)
    found, _ = look(tmp_path, *files)
    assert [run["instance"] for run in found.open_ends(START + timedelta(hours=1))] == left
