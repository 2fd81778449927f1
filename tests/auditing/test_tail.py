"""Every whole line once, through whatever becomes of the file."""

import os

import pytest

from shim.audit.files import RotatingFile
from shim.auditing.tail import Tail


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


@pytest.fixture
def tailing(path):
    opened = []

    def tailing(**options):
        opened.append(Tail(path, **options))
        return opened[-1]

    yield tailing
    for tail in opened:
        tail.close()


def append(path, data):
    with path.open("ab") as file:
        file.write(data)


def test_a_file_that_is_not_there_yet(path, tailing):
    tail = tailing()
    assert (tail.is_open, tail.lines()) == (False, [])
    append(path, b"a\nb\n")
    assert tail.lines() == [b"a", b"b"]
    assert tail.is_open
    assert tail.lines() == []


def test_a_torn_line_waits_for_its_end(path, tailing):
    append(path, b"a\nb")
    tail = tailing()
    assert tail.lines() == [b"a"]
    append(path, b"c")
    assert tail.lines() == []
    append(path, b"d\ne")
    assert tail.lines() == [b"bcd"]


def test_only_the_end_of_a_long_file_is_read_from_a_whole_line_on(path, tailing):
    append(path, b"first\nsecond\nthird\n")
    assert tailing(backlog_bytes=8).lines() == [b"third"]
    assert tailing(backlog_bytes=6).lines() == [b"third"]
    assert tailing(backlog_bytes=0).lines() == []
    assert tailing(backlog_bytes=100).lines() == [b"first", b"second", b"third"]


def test_what_was_put_aside_is_read_to_its_end_first(path, tailing):
    append(path, b"a\n")
    tail = tailing()
    assert tail.lines() == [b"a"]
    append(path, b"b\nc")
    path.rename(path.with_name("audit-1.jsonl"))
    assert tail.lines() == [b"b"]
    append(path.with_name("audit-1.jsonl"), b"d\n")
    append(path, b"e\n")
    assert tail.lines() == [b"cd"]
    assert tail.lines() == [b"e"]


def test_a_torn_end_of_what_was_put_aside_is_given_as_it_is(path, tailing):
    append(path, b"a\nb")
    tail = tailing()
    assert tail.lines() == [b"a"]
    path.rename(path.with_name("audit-1.jsonl"))
    append(path, b"c\n")
    assert tail.lines() == [b"b", b"c"]


def test_a_file_that_was_emptied_is_begun_again(path, tailing):
    append(path, b"aaaa\nbb")
    tail = tailing()
    assert tail.lines() == [b"aaaa"]
    path.write_bytes(b"c\n")
    assert tail.lines() == [b"c"]


def test_a_line_without_end_takes_no_more_and_more_memory(path, tailing):
    tail = tailing()
    append(path, b"x" * (3 << 20))
    assert tail.lines() == []
    assert tail.lost_lines == 1
    append(path, b"y" * (2 << 20))
    assert tail.lines() == []
    append(path, b"z\na\n")
    assert tail.lines() == [b"a"]
    assert tail.lost_lines == 1


def test_empty_lines_are_no_lines(path, tailing):
    append(path, b"\n\na\n\n")
    assert tailing().lines() == [b"a"]


def test_the_shims_own_file_through_many_rotations(path, tailing):
    """As the shim writes it: each line comes once, in order."""
    tail = tailing()
    file = RotatingFile(path, max_bytes=65, daily=False, now_s=0)
    expected, found = [], []
    for number in range(200):
        line = b"line %d" % number
        expected.append(line)
        file.append(line + b"\n", number)
        file.flush()
        found += tail.lines()
    file.close()
    while more := tail.lines():
        found += more
    assert found == expected
    assert len(list(path.parent.iterdir())) > 20


def test_a_pipe_is_neither_waited_for_nor_read(path):
    os.mkfifo(path)
    with pytest.raises(OSError, match="only a file can be followed"):
        Tail(path)
