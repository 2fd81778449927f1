"""`taskshim audit follow` in lines, and in a terminal."""

import fcntl
import io
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from contextlib import contextmanager
from datetime import UTC, timedelta

import pytest
from click.testing import CliRunner
from rich.console import Console

from shim.auditing.live import Live
from shim.cli import audit_follow
from shim.cli.audit import audit
from shim.cli.audit_screen import drawn
from tests.auditing.course import HOSTILE
from tests.auditing.world import START, Run, busy, lines

PATIENCE_S = 240
COMMAND = [sys.executable, "-c", "from shim.cli.main import cli; cli()", "audit", "follow"]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "audit.jsonl"


def append(path, events):
    with path.open("ab") as file:
        file.writelines(lines(events))


@pytest.fixture(autouse=True)
def interruptible():
    """Let what is started hear of Ctrl-C, though the tests run in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@contextmanager
def following(*arguments, **options):
    with subprocess.Popen([*COMMAND, *map(str, arguments)], stderr=subprocess.PIPE, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def ended(process):
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_S) == 0
    assert process.stderr.read() == b""


def test_in_lines(path):
    """From before there is a file on, past a torn line and a rotation, until Ctrl-C."""
    run = Run("one", START)
    with following(path, stdout=subprocess.PIPE) as process:
        run.call(who=2, tool="resize")
        run.call(legacy=False, who=0)  # no line: all is well
        append(path, run.events)
        assert process.stdout.readline().split() == [
            b"2026-11-02T00:00:00Z", b"LL", b"legacy", b"tools/call", b"resize",
            b"nightly", b"mcp", b"1.30.0",
        ]  # fmt: skip
        torn = b"".join(lines([run.call(who=0, legacy=False, outcome="error", code=-32603)]))
        with path.open("ab") as file:
            file.write(torn[:50])
        path.rename(path.with_name("audit-1.jsonl"))
        with path.with_name("audit-1.jsonl").open("ab") as file:
            file.write(torn[50:])
        append(path, [run.emit("upstream.down", upstream="main")])
        assert (
            b"ML  failed         tools/call error -32603 200  jwt:aaaaaaaaaaaa" in process.stdout.readline()
        )
        assert b"upstream.down main" in process.stdout.readline()
        ended(process)


def test_what_is_passed_over_is_said(path):
    run = Run("one", START)
    with following(path, stdout=subprocess.PIPE) as process:
        append(path, [run.call()])
        process.stdout.readline()
        with path.open("ab") as file:
            file.write(b"x" * (2 << 20))
        assert process.stderr.readline() == b"audit follow: lines passed over, too long for any event: 1\n"
        with path.open("ab") as file:
            file.write(b"\n")
        append(path, [run.call(tool="resize")])
        assert b"resize" in process.stdout.readline()
        ended(process)


def test_a_reader_that_goes_ends_it(path):
    run = Run("one", START)
    run.call()
    append(path, run.events)
    with following(path, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        append(path, [run.call()])
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b""


def test_sigterm_ends_it_too(path):
    run = Run("one", START)
    append(path, [run.call()])
    with following(path, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_in_a_terminal(path):
    run = Run("one", START)
    screen, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 120, 0, 0))
    shown = bytearray()

    def until(text):
        while text not in re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", shown):
            assert select.select([screen], [], [], PATIENCE_S)[0], shown
            shown.extend(os.read(screen, 65536))

    environment = {**os.environ, "TERM": "xterm-256color"}
    with following(path, stdin=terminal, stdout=terminal, env=environment, start_new_session=True) as process:
        until(b"there is no such file yet")
        append(path, [run.call(who=2)])
        until(b"nightly")
        path.rename(path.with_name("audit-1.jsonl"))
        append(path, [run.call(who=0, outcome="error", code=-32603)])
        until(b"jwt:aaaaaaaaaaaa")
        until(b"tools/call error -32603 200")
        assert b"\x1b[?1049h" in shown
        process.send_signal(signal.SIGINT)
        while b"\x1b[?1049l" not in shown or b"\x1b[?25h" not in shown:
            assert select.select([screen], [], [], PATIENCE_S)[0], "the terminal is left as it was"
            shown.extend(os.read(screen, 65536))
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr.read() == b""
    os.close(screen)
    os.close(terminal)


def picture(state, now, width=120, height=40, **options):
    told = {"name": "audit.jsonl", "waiting": False, "upstreams": ()} | options
    console = Console(file=io.StringIO(), width=width, height=height, color_system=None)
    console.print(drawn(state.screen(now), now, width=width, height=height, **told))
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize(("width", "height"), [(120, 40), (80, 24), (60, 20), (200, 60)])
def test_it_fits_the_terminal(width, height):
    state = Live()
    for run in busy(3, 600):
        for line in lines(run.events):
            state.take(line)
    hostile = Run("two", START)
    hostile.emit("request", client={"name": HOSTILE}, corner="LL", outcome="error", ms=1, upstream_ms=1,
                 upstream_calls=1, bytes_in=1, bytes_out=1, rules=(), legacy=True)  # fmt: skip
    state.take(next(lines(hostile.events)))
    now = state.screen(START.replace(tzinfo=UTC)).newest + timedelta(seconds=3)
    found = picture(state, now, width, height, upstreams=["main: legacy"])
    assert len(found) <= height
    assert all(len(line) <= width for line in found)
    assert all(line.isprintable() for line in found)
    text = "\n".join(found)
    assert "Callers of the old API, newest first" in text
    assert "main: legacy" in text
    assert "ago" in text


def test_what_it_says():
    state, run = Live(), Run("one", START)
    run.call(who=2, tool="resize")
    run.at += timedelta(seconds=50)
    run.call(who=0, outcome="error", code=-32603)
    run.call(legacy=False, who=0)
    for line in lines([*run.events, {**run.events[0], "seq": 9}]):
        state.take(line)
    state.take(b"{")
    found = picture(state, run.at.replace(tzinfo=UTC) + timedelta(seconds=5))
    assert found[0] == "audit.jsonl  00:00:50 UTC, 5 s ago  5 events missing  1 line cannot be read".rstrip()
    rows = [" ".join(line.split()) for line in found]
    assert any(row.startswith("LL old client, old server 3 3 1 3") for row in rows)
    assert any(row.startswith("ML new client, old server 1 1 0 1") for row in rows)
    assert "55 s ago nightly mcp 1.30.0 2 tools/call resize" in rows
    assert "5 s ago tools/call error -32603 200 jwt:aaaaaaaaaaaa" in rows


def test_a_log_must_be_named():
    result = CliRunner().invoke(audit, ["follow"])
    assert result.exit_code == 2
    assert result.stderr == "taskshim: audit follow: name the LOG, or a --config with audit.path\n"


def test_an_admin_address_is_http(path):
    result = CliRunner().invoke(audit, ["follow", str(path), "--admin", "file:///etc/passwd"])
    assert result.exit_code == 2
    assert "is no http address" in result.stderr


def test_log_and_address_of_the_config(tmp_path, monkeypatch):
    config = tmp_path / "taskshim.toml"
    config.write_text('[audit]\npath = "/var/log/audit.jsonl"\n[admin]\nport = 9999\n')
    seen = []
    monkeypatch.setattr(audit_follow, "_in_lines", lambda tail: seen.append(tail._path))
    assert CliRunner().invoke(audit, ["follow", "--config", str(config)]).exit_code == 0
    assert [str(one) for one in seen] == ["/var/log/audit.jsonl"]


def test_what_the_admin_address_says(monkeypatch):
    answer = b"""{"upstreams": [{"name": "main", "era": "legacy", "dialect": "experimental", "sessions": 2,
                  "tasks": {"working": 3}}, {"name": "next", "era": "modern", "dialect": "sep2663",
                  "sessions": 0, "tasks": {}}]}"""
    asked = []

    def answered(url, timeout_s):
        asked.append((url, timeout_s))
        return io.BytesIO(answer)

    monkeypatch.setattr(audit_follow, "asked", answered)
    upstreams = audit_follow._Upstreams("http://127.0.0.1:8766/")
    assert upstreams.lines() == [
        "main: legacy, experimental; 2 sessions; 3 working", "next: modern, sep2663; 0 sessions; no tasks",
    ]  # fmt: skip
    assert upstreams.lines()
    assert asked == [("http://127.0.0.1:8766/upstreams", 1)]


def test_an_admin_address_that_does_not_answer_is_a_line():
    [line] = audit_follow._Upstreams("http://127.0.0.1:9").lines()
    assert line.startswith("http://127.0.0.1:9/upstreams: ")


def test_without_an_admin_address_nothing_is_asked():
    assert audit_follow._Upstreams(None).lines() == ()
