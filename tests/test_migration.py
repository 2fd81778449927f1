"""Every command of the runbook exists, with its flags and rules."""

import re
import shlex
from pathlib import Path

import click
import pytest

from shim.auditing.gate import RULES
from shim.cli.main import cli

TEXT = (Path(__file__).parent.parent / "docs" / "migration.md").read_text("utf-8")
COMMANDS = re.findall(r"^(taskshim .+)$", TEXT.replace("\\\n", " "), re.MULTILINE)


@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_of_the_runbook_exists(line):
    _, *words = shlex.split(line)
    command: click.Command = cli
    while isinstance(command, click.Group):
        command = command.commands[words.pop(0)]
    with command.make_context(line, words):  # raises for what there is not
        pass
    rules = [words[at + 1] for at, word in enumerate(words) if word == "--rule"]
    assert {rule.partition(":")[0] for rule in rules} <= set(RULES)


def test_the_runbook_has_commands_for_each_step():
    steps = TEXT.split("\n## ")[1:]
    assert len(steps) == 6
    assert all("\n```sh\ntaskshim " in step for step in steps)
