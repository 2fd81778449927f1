"""`taskshim tasks`, beside a shim that has the ledger and without one."""

import asyncio
import json
import sqlite3

import pytest
from click.testing import CliRunner

from shim.cli.tasks import tasks
from shim.clock import SystemClock
from shim.hub.status import Status
from shim.ledger.sqlite import SqliteLedger
from tests.ledger.support import BOB, new_input, new_task, see

SECRET = b'{"content":[{"type":"text","text":"the payload"}]}'


async def run(*arguments):
    return await asyncio.to_thread(CliRunner().invoke, tasks, arguments)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
async def held(path):
    """A ledger that a running shim holds, with three tasks in it."""
    ledger = SqliteLedger(path, SystemClock(), synchronous="normal")
    await ledger.open()
    try:
        first = await ledger.create_task(new_task("first", tool="resize", session_id="secret-session"))
        asked = await ledger.create_task(new_task("asked", tool="deploy", upstream="other"))
        await ledger.create_task(new_task("bobs", caller=BOB))
        await see(ledger, first.pk, Status.COMPLETED, result=SECRET)
        await ledger.add_input(new_input(asked.pk, "q1", params=b'{"message":"which secret?"}'))
        await ledger.answer_input(asked.pk, "q1", b'{"action":"accept"}', by="update")
        yield ledger
    finally:
        await ledger.close()


async def listed(path, *options):
    result = await run("list", "--ledger", str(path), "--json", *options)
    assert result.exit_code == 0
    return [one["taskId"] for one in json.loads(result.output)]


@pytest.mark.parametrize(
    ("options", "ids"),
    [
        ((), ["bobs", "asked", "first"]),
        (("--status", "completed"), ["first"]),
        (("--open",), ["bobs", "asked"]),
        (("--upstream", "other"), ["asked"]),
        (("--caller", "hash-of-b"), ["bobs"]),
        (("--caller", "hash_of%"), []),
        (("--limit", "2"), ["bobs", "asked"]),
    ],
)
@pytest.mark.usefixtures("held")
async def test_lists_what_is_asked_for(path, options, ids):
    assert await listed(path, *options) == ids


@pytest.mark.usefixtures("held")
async def test_lists_for_people(path):
    result = await run("list", "--ledger", str(path), "--limit", "2")
    head, first, *_, last = result.output.splitlines()
    assert head.split() == ["TASK", "STATUS", "TOOL", "UPSTREAM", "CALLER", "SINCE", "AGE"]
    assert first.split()[:5] == ["bobs", "working", "-", "main", "api_key:hash-of-"]
    assert last == "2 of 3; see --limit"


async def test_reads_a_ledger_that_no_shim_holds(held, path):
    await held.close()
    assert await listed(path) == ["bobs", "asked", "first"]
    await held.open()


@pytest.mark.rule("OWN-STORE")
@pytest.mark.parametrize("form", [(), ("--json",)])
@pytest.mark.usefixtures("held")
async def test_shows_payloads_only_when_told_to(path, form):
    for task_id, carried in (("first", "the payload"), ("asked", "which secret?")):
        plain = await run("show", task_id, "--ledger", str(path), *form)
        assert plain.exit_code == 0
        assert carried not in plain.output
        told = await run("show", task_id, "--ledger", str(path), "--payload", *form)
        assert carried in told.output


@pytest.mark.usefixtures("held")
async def test_shows_a_task_and_what_it_asked(path):
    result = await run("show", "up-asked", "--ledger", str(path), "--json")
    shown = json.loads(result.output)
    assert (shown["taskId"], shown["tool"], shown["status"]) == ("asked", "deploy", "working")
    assert [(one["key"], one["state"], one["answeredBy"]) for one in shown["questions"]] == [
        ("q1", "answered", "update")
    ]


@pytest.mark.rule("OWN-STORE")
@pytest.mark.usefixtures("held")
async def test_never_prints_a_session_id_whole(path):
    for options in ((), ("--json",), ("--payload",)):
        assert "secret-session" not in (await run("show", "first", "--ledger", str(path), *options)).output


@pytest.mark.rule("DUR-7")
@pytest.mark.usefixtures("held")
async def test_does_not_prune_under_a_running_shim(path):
    result = await run("prune", "--ledger", str(path))
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "holds this ledger; stop it" in result.stderr


@pytest.mark.rule("DUR-4")
async def test_prunes_what_is_over_its_time_and_audits_it(held, path, tmp_path):
    await held.close()
    audit = tmp_path / "audit.jsonl"
    config = tmp_path / "config.toml"
    config.write_text(
        f'[ledger]\npath = "{path}"\n[audit]\npath = "{audit}"\n[tasks]\nmax_age_ms = {3 * 10**12}\n'
    )
    first = await run("prune", "--config", str(config))
    assert first.output == "1 task lost its payload, 0 rows were removed\n"
    shown = json.loads((await run("show", "first", "--ledger", str(path), "--json")).output)
    assert (shown["expired"], shown["resultBytes"]) == (True, None)
    events = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(one["event"], one["task_id"]) for one in events] == [("task.purged", "first")]
    again = await run("prune", "--config", str(config))
    assert again.output == "0 tasks lost their payload, 0 rows were removed\n"
    await held.open()


@pytest.mark.parametrize("command", [("list",), ("show", "x"), ("prune",)])
async def test_makes_no_ledger_where_there_is_none(path, command):
    result = await run(*command, "--ledger", str(path))
    assert result.exit_code == 2
    assert result.stderr == f"taskshim: {path}: there is no ledger; name it with --ledger or --config\n"
    assert not path.exists()


@pytest.mark.parametrize("command", [("list",), ("show", "x"), ("prune",)])
async def test_refuses_what_is_no_ledger(path, command):
    path.write_bytes(b"no database at all, and longer than a header of one hundred bytes " * 4)
    result = await run(*command, "--ledger", str(path))
    assert (result.exit_code, result.stderr) == (2, f"taskshim: {path}: file is not a database\n")
    path.unlink()
    sqlite3.connect(path).executescript("CREATE TABLE t (x)").connection.close()
    result = await run(*command, "--ledger", str(path))
    assert result.exit_code == 2
    assert "has schema 0" in result.stderr
    assert "`serve` brings it there" in result.stderr
    sqlite3.connect(path).executescript("PRAGMA user_version = 99").connection.close()
    result = await run(*command, "--ledger", str(path))
    assert result.exit_code == 2
    assert "use the taskshim that wrote it" in result.stderr


@pytest.mark.usefixtures("held")
async def test_says_that_a_task_is_not_there(path):
    result = await run("show", "nobodys", "--ledger", str(path))
    assert (result.exit_code, result.stderr) == (2, f"taskshim: {path}: no task has the id 'nobodys'\n")
