"""The audit file: whole lines, numbered, bounded, rotated, private."""

import contextlib
import json
import os
import threading

import pytest

from shim.audit.events import Client, Denied, Event
from shim.audit.sink import FileSink
from tests.full_disk import full_disk

START_NS = 1_796_040_000_123_456_789  # 2026-11-30T12:00:00Z and a bit
DAY_NS = 86_400 * 1_000_000_000


class Hands:
    """A clock moved by hand."""

    def __init__(self) -> None:
        self.now_ns = START_NS

    def __call__(self) -> int:
        return self.now_ns


def lines(path):
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def denied(reason="x") -> Event:
    return Denied(reason=reason)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


def test_lines_are_numbered_and_stamped(path):
    sink = FileSink(path, instance="i1", clock_ns=Hands())
    sink.emit(denied("origin"))
    sink.emit(denied("limit"))
    sink.close()
    assert lines(path) == [
        {
            "v": 1,
            "seq": seq,
            "ts": "2026-11-30T12:00:00.123456Z",
            "instance": "i1",
            "event": "denied",
            "reason": reason,
        }
        for seq, reason in ((1, "origin"), (2, "limit"))
    ]
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_existing_file_is_continued_made_private_and_a_torn_line_left_alone(path):
    path.write_bytes(b'{"a":1}\n{"torn')
    path.chmod(0o644)
    sink = FileSink(path, instance="i1", daily=False)
    sink.emit(denied())
    sink.close()
    raw = path.read_bytes().splitlines()
    assert raw[:2] == [b'{"a":1}', b'{"torn']
    assert json.loads(raw[2])["event"] == "denied"
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_lone_surrogate_in_a_stated_name_is_replaced(path):
    sink = FileSink(path, instance="i1")
    sink.emit(Denied(reason="x", client=Client(name="a\ud800b")))
    sink.close()
    assert lines(path)[0]["client"] == {"name": "a?b"}


def test_size_rotates_between_lines_and_nothing_is_lost(path):
    sink = FileSink(path, instance="i1", max_bytes=500, clock_ns=Hands())
    for _ in range(20):
        sink.emit(denied())
    sink.close()
    files = sorted(path.parent.glob("audit*.jsonl"))
    assert len(files) > 3
    assert all(file.stat().st_size <= 500 for file in files)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert sorted(line["seq"] for file in files for line in lines(file)) == list(range(1, 21))


def test_a_new_day_begins_a_new_file(path):
    clock = Hands()
    sink = FileSink(path, instance="i1", clock_ns=clock)
    sink.emit(denied("old"))
    clock.now_ns += DAY_NS
    sink.emit(denied("new"))
    sink.close()
    old = path.with_name("audit-20261201T120000Z.jsonl")
    assert [line["reason"] for line in lines(old)] == ["old"]
    assert [line["reason"] for line in lines(path)] == ["new"]


def test_yesterdays_file_of_an_earlier_run_is_put_aside(path):
    path.write_bytes(b"{}\n")
    os.utime(path, ns=(START_NS - DAY_NS, START_NS - DAY_NS))
    sink = FileSink(path, instance="i1", clock_ns=Hands())
    sink.emit(denied())
    sink.close()
    assert len(lines(path)) == 1
    assert len(list(path.parent.glob("audit-*.jsonl"))) == 1


def test_a_file_that_was_moved_away_is_made_anew(path):
    sink = FileSink(path, instance="i1")
    path.rename(path.with_name("moved"))
    sink.emit(denied())
    sink.close()
    assert len(lines(path)) == 1


@pytest.fixture
def held_back(monkeypatch):
    """Holds the writer thread until the test lets it go."""
    gate = threading.Event()
    original = FileSink._drain

    def drain(self):
        assert gate.wait(30)
        original(self)

    monkeypatch.setattr(FileSink, "_drain", drain)
    return gate


def test_a_full_queue_drops_counts_and_leaves_gaps_in_the_numbers(path, held_back):
    sink = FileSink(path, instance="i1", queue=3)
    for _ in range(5):
        sink.emit(denied())
    assert sink.dropped == 2
    held_back.set()
    sink.close()
    found = lines(path)
    assert [line["seq"] for line in found] == [1, 2, 3, 6]
    assert (found[-1]["event"], found[-1]["count"]) == ("audit.dropped", 2)


def test_what_a_full_disk_refuses_is_counted_and_told_later(path, held_back, monkeypatch):
    """The disk takes one line and a half, then nothing, then everything again."""
    sink = FileSink(path, instance="i1", daily=False)
    room = full_disk(monkeypatch, 250)
    for _ in range(4):
        sink.emit(denied("y" * 60))
    held_back.set()
    while sink.dropped < 3:
        assert sink._thread.is_alive()
    room[0] = None
    sink.emit(denied("after"))
    sink.close()
    good, torn = [], 0
    for raw in path.read_bytes().splitlines():
        try:
            good.append(json.loads(raw))
        except ValueError:
            torn += 1
    assert torn == 1
    # the loss is told as soon as the disk takes it, before or after the next event
    assert {line.get("reason", line.get("count")) for line in good} == {"y" * 60, "after", 3}
    assert len(good) == 3
    assert sink.dropped == 3


def said(capsys):
    """What the log says, wherever a command that ran before has sent it."""
    out, err = capsys.readouterr()
    return out + err


def test_two_that_write_one_file_are_told(path, capsys):
    first, second = (FileSink(path, instance=name) for name in ("one", "two"))
    first.close()
    second.close()
    third = FileSink(path, instance="three")
    third.close()
    assert said(capsys).count("another process writes this audit file too") == 1


def test_what_a_pipe_that_nobody_reads_does_not_take_is_told(path, capsys):
    os.mkfifo(path)
    sink = FileSink(path, instance="one")
    for _ in range(5_000):
        sink.emit(denied("x" * 100))
    sink.close(0.01)
    assert "events are lost" in said(capsys)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    while sink._thread.is_alive():
        with contextlib.suppress(BlockingIOError):
            os.read(reader, 1 << 20)
    os.close(reader)
