"""The operator's log, in a process of its own: setting it up changes the process."""

import json
import os
import subprocess
import sys

import pytest

SCRIPT = """
import logging, sys, structlog
from shim.audit.log import set_up, set_up_for_answer
if sys.argv[2] == "answer":
    set_up_for_answer()
else:
    set_up(sys.argv[1], sys.argv[2])
log = structlog.get_logger("shim.x")
log.debug("quiet")
log.warning("loud", where="here")
logging.getLogger("aiohttp").warning("library")
token = "S3CRET-" + "1"
try:
    raise ValueError("broken")
except ValueError:
    log.exception("failed")
class Told(Exception):
    in_one_line = True
try:
    raise Told("the disk is full")
except Told as exc:
    log.exception("told")
    log.error("told", exc_info=exc)
"""


def run(level: str, form: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, level, form], capture_output=True, text=True, check=True
    )
    assert done.stdout == ""
    return done.stderr


@pytest.mark.parametrize("form", ["json", "auto"])
def test_json_lines_where_no_terminal_is(form):
    lines = [json.loads(line) for line in run("info", form).splitlines()]
    assert [(line["event"], line["level"]) for line in lines] == [
        ("loud", "warning"),
        ("library", "warning"),
        ("failed", "error"),
        ("told", "error"),
        ("told", "error"),
    ]
    assert {tuple(line)[:3] for line in lines} == {("timestamp", "level", "event")}
    assert lines[0]["where"] == "here"
    assert "ValueError: broken" in lines[2]["exception"]


@pytest.mark.parametrize("form", ["json", "console"])
def test_a_fault_that_an_operator_can_mend_has_no_traceback(form):
    told = [line for line in run("info", form).splitlines() if "the disk is full" in line]
    assert len(told) == 2
    assert all("told" in line for line in told)
    assert run("info", form).count("Traceback") == 1  # that of the other one


@pytest.mark.rule("OWN-STORE")
@pytest.mark.parametrize("form", ["json", "console", "answer"])
def test_a_traceback_shows_no_local_variables(form):
    text = run("debug", form)
    assert "ValueError: broken" in text
    assert "quiet" in text
    assert "S3CRET-1" not in text


STATED = r"""
import logging, structlog
from shim.audit.log import set_up
set_up("info", "console")
word = "\x1b]0;pwn\x07\x1b[2Jred\u202e\x9b31m"
structlog.get_logger("shim").warning("said", text=word, long="x" * 100_000)
structlog.get_logger("shim").warning(word)
logging.getLogger("asyncio").error(word)
"""


def test_what_others_stated_moves_no_terminal():
    done = subprocess.run(
        [sys.executable, "-c", STATED], capture_output=True, check=True, timeout=30,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    said = done.stderr.decode()
    assert said.count(r"\x1b]0;pwn\x07") == 3
    assert all(line.isprintable() for line in said.splitlines())
    assert len(said) < 20_000
