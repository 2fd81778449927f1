"""`taskshim demo`: it plays, it comes out right, and what it prints can be pasted."""

import asyncio
import json
import re
import shutil
import socket
import subprocess
import sys

import pytest
from click.testing import CliRunner

from shim.cli import demo as command
from shim.demo.clients import Outcome
from shim.demo.script import SCENES, Scene
from tests.ports import free_port

RUN = (sys.executable, "-c", "from shim.cli.main import cli; cli()")


def test_every_act_comes_out_right():
    done = subprocess.run([*RUN, "demo"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    assert "\x1b" not in done.stdout
    for title in (*(scene.title for scene in SCENES), "A task that is cancelled", "A task of somebody else"):
        assert lines.count(f"ok {title}") == 4
    for seen in (
        "tasks/get input_required, 'Deploy to staging?'",
        "tasks/status running, 'input required'",
        "tasks/result the server asks 'Deploy to staging?'; answered yes",
        "its question 'Deploy to staging?'; answered yes",
        'its result "Deployed to staging."',
        'tasks/result error: "-32000 The worker crashed."',
        "ann, old tasks/list 5 of its own, newest first: cancelled, failed, failed, completed, completed",
        "ann, old tasks/list 5 of its own, newest first: error, error, error, done, done",
        'bob, new tasks/list error: "-32601 Method not found: tasks/list"',
    ):
        assert seen in lines
    assert lines[-1] == "All of it is as it must be."


def test_says_what_did_not_come_out_right(monkeypatch):
    wrong = Scene("A greeting", "greet", Outcome("Good-bye!"), {"name": "you"}, task=False)
    monkeypatch.setattr("shim.demo.script.SCENES", (SCENES[0], SCENES[1], wrong))
    monkeypatch.setattr(command, "set_up", lambda *_: None)
    result = CliRunner().invoke(command.demo)
    assert result.exit_code == 1
    assert "NOT OK  A greeting" in result.output
    assert 'ann, old: expected "Good-bye!", got "Hello, you!"' in result.output


def test_says_in_one_line_that_a_port_is_taken():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [*RUN, "demo", "--keep", "--port", str(port)], capture_output=True, text=True, check=False
        )
    assert done.returncode == 2
    assert re.fullmatch(f"taskshim: cannot listen on 127.0.0.1:{port}: .*\n", done.stderr)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not there")
async def test_its_lines_can_be_pasted():
    demo = await asyncio.create_subprocess_exec(
        *RUN, "demo", "--keep", "--port", str(free_port(beside=3)), stdout=asyncio.subprocess.PIPE
    )
    try:
        blocks = await printed_blocks(demo.stdout)
        assert len(blocks) == 8
        for title, lines in blocks.items():
            answers = await pasted(lines)
            if title.endswith("by the new API"):
                became_a_task(answers)
            else:
                was_served(answers, four_state="four-state" in title)
    finally:
        demo.terminate()
        assert await demo.wait() == 0


async def printed_blocks(stream):
    """Read up to the last line that the demo prints; give its lines for a shell by their title."""
    blocks = {}
    async for raw in stream:
        line = raw.decode().rstrip("\n")
        if line.startswith("# "):
            lines = blocks[line] = []
        elif line == "It runs until Ctrl-C.":
            return blocks
        elif blocks and line:
            lines.append(line)
    pytest.fail("the demo ended")


async def pasted(lines):
    """Paste lines into a shell; give what they print, parsed where it is JSON or an event of it."""
    shell = await asyncio.create_subprocess_exec(
        "sh", stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await shell.communicate("\n".join(lines).encode())
    assert err == b""
    found = [line.removeprefix("data: ") for line in out.decode().splitlines() if line]
    return [json.loads(line) if line.startswith("{") else line for line in found]


def was_served(answers, *, four_state):
    session, task_id, *_ = answers
    assert re.fullmatch(r"[0-9a-f-]{32,36}", session)
    bodies = {one["id"]: one["result"] for one in answers if isinstance(one, dict)}
    assert bodies[3]["taskId"] == task_id
    assert bodies[3]["status"] in ({"running", "done"} if four_state else {"working", "completed"})
    assert bodies[4]["content"][0]["text"] == "Resized 4 images."
    assert task_id in [task["taskId"] for task in bodies[5]["tasks"]]


def became_a_task(answers):
    task_id, first, last = answers
    assert first["result"]["taskId"] == last["result"]["taskId"] == task_id
    assert first["result"]["status"] in {"working", "completed"}
    assert last["result"]["status"] == "completed"
    assert last["result"]["result"]["content"][0]["text"] == "Resized 4 images."


def test_a_port_is_of_use_only_where_it_is_kept():
    result = CliRunner().invoke(command.demo, ["--port", "9000"])
    assert result.exit_code == 2
    assert "--port goes with --keep" in result.output
