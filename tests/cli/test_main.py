"""The command line as a whole."""

import click
import pytest
from click.testing import CliRunner

from shim import __version__
from shim.cli.main import cli

COMMANDS = {
    "audit",
    "check",
    "completion",
    "cutover",
    "demo",
    "health",
    "mappings",
    "probe",
    "serve",
    "stdio",
    "tasks",
}


def test_has_every_command():
    assert set(cli.commands) == COMMANDS


@pytest.mark.parametrize("command", [[], *([name] for name in sorted(COMMANDS)), ["tasks", "prune"]])
def test_explains_itself(command):
    result = CliRunner().invoke(cli, [*command, "--help"])
    assert result.exit_code == 0
    assert result.output.startswith("Usage: ")


def test_says_its_version():
    assert CliRunner().invoke(cli, ["--version"]).output == f"taskshim, version {__version__}\n"


@pytest.mark.parametrize("arguments", [["nix"], ["serve", "--nix"], ["tasks", "show"]])
def test_refuses_what_it_does_not_know(arguments):
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 2
    assert "Traceback" not in result.output


def every_group(group: click.Group, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [path]
    for name, command in group.commands.items():
        found += every_group(command, (*path, name)) if isinstance(command, click.Group) else []
    return found


@pytest.mark.parametrize("path", every_group(cli), ids=" ".join)
def test_a_list_of_commands_says_all_of_each_in_80_columns(path):
    result = CliRunner().invoke(cli, [*path, "--help"], terminal_width=80)
    listed = result.output.partition("Commands:\n")[2]
    assert listed
    assert "..." not in listed
