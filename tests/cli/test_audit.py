"""`taskshim audit` on logs of known content."""

import json
import sys

import pytest
from click.testing import CliRunner

from shim.auditing.tables import TABLES
from shim.cli.audit import audit
from tests.auditing.world import START, Run, lines, write

WORD = "\x1b]0;pwn\x07\x1b[2J\u202eevil\x9b31m\r\n\x00<script>`$(id)`"
EVIL = {
    "client": {"name": WORD, "version": WORD}, "caller": "a" * 64, "caller_kind": "jwt", "caller_label": WORD,
    "era": "legacy", "upstream": WORD, "method": "tools/call", "tool": WORD, "outcome": "error", "code": -1,
    "legacy_features": [WORD], "rule": WORD, "detail": WORD, "reason": WORD, "other": WORD, "path": WORD,
    "kind": WORD, "evidence": WORD, "rules": [WORD], "count": 1,
}  # fmt: skip


def run(*arguments, stdin=None):
    return CliRunner().invoke(audit, arguments, input=stdin)


@pytest.fixture
def log():
    """A run with two callers: one calls thrice by the old API, one twice by the new."""
    one = Run("one", START)
    one.start()
    for _ in range(3):
        one.live(1)
        one.call(who=2, legacy_features=("session", "tasks/list"), method="tasks/list")
    one.call(legacy=False, who=0, software=1, tool="resize")
    one.call(legacy=False, who=0, software=1, tool="\x1b[31mred", outcome="error", code=-32603)
    one.stop()
    return one


@pytest.fixture
def path(log, tmp_path):
    return write(tmp_path / "audit.jsonl", log.events)


def test_a_table_for_people(path):
    result = run("callers", path)
    assert result.exit_code == 0
    head, first, second = result.output.splitlines()
    assert head.split()[:4] == ["CALLER", "HASH", "KIND", "CLIENTS"]
    assert first.split() == [
        "nightly", "cccccccccccc", "api_key", "mcp", "1.30.0", "3", "3", "0", "0",
        "2026-11-02T00:01:00Z", "2026-11-02T00:03:00Z", "2026-11-02T00:03:00Z",
    ]  # fmt: skip
    assert second.startswith("jwt:aaaaaaaaaaaa")


def test_what_a_client_stated_moves_no_terminal(path):
    output = run("tools", path).output
    assert "\x1b" not in output
    assert r"\x1b[31mred" in output


@pytest.mark.parametrize(
    "command", [*TABLES, "report", "report --format=md", "report --format=html", "gate", "verify"]
)
def test_nothing_that_was_stated_anywhere_moves_a_terminal(command, tmp_path):
    head = {"v": 1, "ts": "2026-11-02T00:00:00.000000Z", "instance": "one", "legacy": True, "corner": "LL"}
    names = ("request", "lenient", "loss", "denied", "upstream.down", "shadow.compared", "shadow.diff")
    events = [{**head, "seq": seq, "event": name, **EVIL} for seq, name in enumerate(names, start=1)]
    events.append({**events[0], "seq": 9, "client": {"name": "B" * 100_000}, "tool": "C" * 100_000})
    deep = b'{"a":' + b"[" * 100_000 + b"\n\x1b[2J\n"
    lines = write(tmp_path / "audit.jsonl", events, deep)
    name, *options = command.split()
    if name == "gate":
        options += ["--rule", "no-legacy-for:1d", "--rule", "legacy-only-from:x"]
        options += ["--since", "2026-11-01", "--until", "2026-11-03"]
    result = run(name, lines, *options)
    assert result.exit_code in {0, 1, 2}
    assert "pwn" in result.output or name not in {"clients", "callers", "lenient", "report", "gate"}
    assert not {char for char in result.output if not char.isprintable()} - set("\n\u202f\u00a0")
    assert max(map(len, result.output.splitlines())) < 20_000
    assert isinstance(result.exception, SystemExit | None)


def test_a_table_for_machines(path):
    [resize] = json.loads(run("tools", path, "--json", "--tool", "resize").output)
    assert resize == {
        "tool": "resize", "upstream": "main", "requests": 1, "legacy": 0, "with_task_param": 0, "errors": 0,
        "callers": 1, "p50_ms": 1.0, "p95_ms": 1.0,
        "last": "2026-11-02T00:03:00.000000Z", "last_legacy": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("sort", "callers"),
    [("requests", ["nightly", "jwt:aaaaaaaaaaaa"]), ("+requests", ["jwt:aaaaaaaaaaaa", "nightly"])],
)
def test_sorting(path, sort, callers):
    assert [
        row["caller"] for row in json.loads(run("callers", path, "--json", "--sort", sort).output)
    ] == callers


def test_what_is_cut_is_told(path):
    assert run("callers", path, "--limit", "1").output.endswith("1 of 2; see --limit\n")


def test_standard_input_and_files_at_once(log, path):
    piped = b"".join(lines(log.events[2:]))
    [old] = json.loads(run("methods", "-", path, "--era", "legacy", "--json", stdin=piped).output)
    assert old["requests"] == 3


def test_nothing_found_is_no_fault(path):
    result = run("losses", path)
    assert (result.exit_code, result.output) == (0, "none\n")
    assert json.loads(run("losses", path, "--json").output) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("callers", "no-such-*.jsonl"), "no such file"),
        (("callers", "."), "is no file"),
        (("callers", "LOG", "--since", "soon"), "no time"),
        (("callers", "LOG", "--since", "2026-11-03", "--until", "2026-11-02"), "before it begins"),
        (("callers", "LOG", "--sort", "beauty"), "no column 'beauty'"),
        (("callers", "LOG", "--memory", "much"), "Memory"),
    ],
)
def test_what_cannot_be_done_is_one_line(path, arguments, said):
    result = run(*[path if one == "LOG" else one for one in arguments])
    assert result.exit_code == 2
    assert said in result.stderr
    assert result.stderr.count("\n") == 1


def test_without_duckdb_it_says_what_to_install(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "duckdb", None)
    result = run("callers", path)
    assert result.exit_code == 2
    assert "taskshim[audit]" in result.stderr


def test_without_jinja_only_the_page_is_missing(path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    assert run("report", path).exit_code == 0
    result = run("report", path, "--format", "html")
    assert result.exit_code == 2
    assert "Jinja2 is missing: pip install 'taskshim[audit]'" in result.stderr


def test_the_page_in_a_file(path, tmp_path):
    assert run("report", path, "--format", "html", "-o", str(tmp_path / "report.html")).exit_code == 0
    assert (tmp_path / "report.html").read_text("utf-8").startswith("<!doctype html>")


def test_a_whole_log_is_verified(path):
    result = run("verify", path)
    assert result.exit_code == 0
    assert result.output.endswith("\nwhole\n")


def test_a_log_with_a_hole_is_not(log, tmp_path):
    path = write(tmp_path / "holes.jsonl", [one for one in log.events if one["seq"] not in {8, 9}], b"{")
    result = run("verify", path)
    assert result.exit_code == 1
    assert result.output.endswith("not whole: 2 events are missing, 1 file ends in a torn line\n")
    told = json.loads(run("verify", path, "--json").output)
    assert (told["whole"], told["holes"][0]["missing"], told["runs"][0]["missing"]) == (False, 2, 2)


def test_no_events_are_no_whole_log(tmp_path):
    path = write(tmp_path / "empty.jsonl", [])
    result = run("verify", path)
    assert (result.exit_code, result.output.splitlines()[-1]) == (1, "not whole: there are no events")
    assert "the logs end at -" in run("report", path).output


@pytest.mark.parametrize("command", ["callers", "report", "verify"])
def test_a_packed_file_that_is_cut_short_is_one_line(log, tmp_path, command):
    path = tmp_path / "cut.jsonl.gz"
    write(path, log.events)
    path.write_bytes(path.read_bytes()[:-20])
    result = run(command, str(path))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
