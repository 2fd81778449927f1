import asyncio
import stat
from pathlib import Path

import pytest

from shim.ledger.protocol import LedgerError
from tests.ledger.support import ALICE, ledger_at, new_task, on_disk


async def test_an_empty_file_gets_the_newest_schema_once(path: Path) -> None:
    for _ in range(2):
        ledger = ledger_at(path, synchronous="full")
        await ledger.open()
        await ledger.close()
        assert on_disk(path, "PRAGMA user_version") == [(7,)]
    tables = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
    names = ("ask", "call", "epoch", "input", "keyed", "payloads", "session", "task")
    assert on_disk(path, tables) == [(name,) for name in names]
    strict = (
        "SELECT DISTINCT strict FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'"
    )
    assert on_disk(path, strict) == [(1,)]


@pytest.mark.parametrize(("synchronous", "level"), [("full", 2), ("normal", 1)])
async def test_the_log_is_written_ahead_and_waited_for(path: Path, synchronous: str, level: int) -> None:
    ledger = ledger_at(path, synchronous=synchronous)
    await ledger.open()
    asked = await ledger._db.write(
        ("PRAGMA synchronous", ()), ("PRAGMA journal_mode", ()), then=lambda results: results
    )
    assert asked == [[(level,)], [("wal",)]]
    await ledger.close()


@pytest.mark.rule("OWN-STORE")
async def test_its_files_are_for_its_owner_alone(path: Path) -> None:
    ledger = ledger_at(path.parent / "made" / "for it" / "ledger.db")
    await ledger.open()
    await ledger.create_task(new_task("t"))
    files = sorted((path.parent / "made" / "for it").iterdir())
    assert [one.name for one in files] == ["ledger.db", "ledger.db-shm", "ledger.db-wal", "ledger.db.lock"]
    assert {stat.S_IMODE(one.stat().st_mode) for one in files} == {0o600}
    await ledger.close()


@pytest.mark.rule("IDS")
async def test_every_run_has_an_epoch_of_its_own(path: Path) -> None:
    epochs = []
    for _ in range(3):
        ledger = ledger_at(path)
        await ledger.open()
        epochs.append(await ledger.next_epoch())
        assert on_disk(path, "SELECT max(n) FROM epoch") == [(epochs[-1],)]
        await ledger.close()
    assert epochs == [1, 2, 3]


async def test_a_newer_schema_is_left_alone(path: Path) -> None:
    on_disk(path, "PRAGMA user_version = 99")
    ledger = ledger_at(path)
    with pytest.raises(LedgerError, match=r"ledger\.db: schema 99 is of a newer taskshim; this one knows 7"):
        await ledger.open()
    on_disk(path, "PRAGMA user_version = 0")
    await ledger.open()  # the lock and the connections were given back
    await ledger.close()


def test_a_file_that_is_something_else_is_left_alone(path: Path) -> None:
    path.write_bytes(b"a letter to a friend" * 1000)
    with pytest.raises(LedgerError, match=r"ledger\.db: file is not a database: put a copy in its place, or"):
        asyncio.run(ledger_at(path).open())
    assert path.read_bytes() == b"a letter to a friend" * 1000


@pytest.mark.parametrize("where", ["ledger.db", "file/ledger.db"])
async def test_a_place_where_no_file_can_be(path: Path, where: str) -> None:
    (path.parent / "file").touch()
    (path.parent / "ledger.db").mkdir()
    with pytest.raises(LedgerError, match=r"ledger\.db"):
        await ledger_at(path.parent / where).open()


@pytest.mark.rule("OWN-CHECK")
async def test_a_fault_is_never_taken_for_not_found(path: Path) -> None:
    ledger = ledger_at(path, cache_rows=0)
    await ledger.open()
    await ledger.create_task(new_task("t"))
    await ledger._db.run(("ALTER TABLE task RENAME TO elsewhere", ()))
    with pytest.raises(LedgerError, match="no such table"):
        await ledger.lookup(ALICE, "t")
    with pytest.raises(LedgerError, match="no such table"):
        await ledger.create_task(new_task("u"))
    await ledger.close()


@pytest.mark.rule("VALIDATE")
async def test_a_name_that_is_no_text_costs_its_letter_only(path: Path) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    await ledger.create_task(new_task("t", tool="run \ud800"))
    assert (await ledger.lookup(ALICE, "\ud800")).reason == "unknown_task"
    assert on_disk(path, "SELECT tool FROM task") == [("run \ufffd",)]
    await ledger.close()


@pytest.mark.rule("DUR-1")
async def test_closing_writes_what_waits_and_then_nothing_more(path: Path) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    waiting = [asyncio.create_task(ledger.create_task(new_task(f"t{n}"))) for n in range(5)]
    await asyncio.sleep(0)
    await ledger.close()
    assert len({one.result().pk for one in waiting}) == 5
    assert on_disk(path, "SELECT count(*) FROM task") == [(5,)]
    with pytest.raises(LedgerError):
        await ledger.create_task(new_task("late"))
    with pytest.raises(LedgerError):
        await ledger.lookup(ALICE, "late")
    assert [one.name for one in path.parent.iterdir() if one.name.endswith(("-wal", "-shm"))] == []
