"""`taskshim mappings`."""

import pytest
from click.testing import CliRunner

from shim.cli.mappings import mappings
from shim.hub.losses import INWARDS, OUTWARDS
from shim.hub.registry import load_dialects, shipped_tables
from shim.hub.status import Status


def test_lists_every_dialect():
    result = CliRunner().invoke(mappings, [])
    assert result.exit_code == 0
    assert [line.split()[0] for line in result.output.splitlines()] == ["NAME", *load_dialects()]


@pytest.mark.rule("CS-TABLE")
@pytest.mark.parametrize("name", load_dialects())
def test_shows_every_fact_of_a_table(name):
    dialect = load_dialects()[name]
    result = CliRunner().invoke(mappings, [name])
    assert result.exit_code == 0
    words = set(result.output.replace('"', " ").split())
    facts = [*dict(dialect.methods).values(), *dict(dialect.fields).values()]
    states = [*dialect.outwards.values(), *dialect.inwards, *dialect.lenient, *Status]
    assert {fact for fact in (*facts, *states) if fact} <= words
    for message in dialect.messages.values():
        assert f'"{message}"' in result.output


@pytest.mark.parametrize("name", load_dialects())
def test_shows_what_a_dialect_cannot_carry(name):
    lines = [" ".join(line.split()) for line in CliRunner().invoke(mappings, [name]).output.splitlines()]
    for losses in (OUTWARDS[name], INWARDS[name]):
        assert {f"{lost} {instead}" for lost, instead in losses.items()} <= set(lines)


def test_shows_the_sites_own_table(tmp_path):
    table = shipped_tables().joinpath("create-status.toml").read_text("utf-8")
    mine = tmp_path / "mine.toml"
    mine.write_text(table.replace('"create-status"', '"mine"').replace('"tasks/status"', '"tasks/peek"'))
    config = tmp_path / "config.toml"
    config.write_text(f'[mappings]\nfiles = ["{mine}"]\n')
    result = CliRunner().invoke(mappings, ["mine", "--config", str(config)])
    assert result.exit_code == 0
    assert "tasks/peek" in result.output


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nix"], "no dialect is called 'nix'; there are create-status, experimental, sep-2663"),
        (["--config", "gone.toml"], "gone.toml: cannot be read: No such file or directory"),
    ],
)
def test_says_in_one_line_what_it_could_not_do(arguments, line):
    result = CliRunner().invoke(mappings, arguments)
    assert (result.exit_code, result.stderr) == (2, f"taskshim: {line}\n")
