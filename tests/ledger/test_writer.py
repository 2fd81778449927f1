"""Group commit: who shares a commit, and who fails alone."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import aiosqlite
import pytest

from shim.ledger.protocol import LedgerError
from shim.ledger.writer import Results, Statement, Writer


class Bench:
    """A writer on a table `t (n INTEGER PRIMARY KEY)`."""

    def __init__(self, path: Path, db: aiosqlite.Connection) -> None:
        self.path = path
        self.db = db
        self.batches: list[int] = []
        self.writer = Writer(db, self.batches.append)

    async def write(self, *statements: Statement) -> Results:
        return await self.writer.write(*statements, then=lambda results: results)

    def kept(self) -> list[int]:
        other = sqlite3.connect(self.path)
        try:
            return [n for (n,) in other.execute("SELECT n FROM t ORDER BY n")]
        finally:
            other.close()


def insert(n: int | str) -> Statement:
    return "INSERT INTO t VALUES (?) RETURNING n", (n,)


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncIterator[Bench]:
    async with aiosqlite.connect(tmp_path / "t.db", isolation_level=None) as db:
        await db.execute("PRAGMA journal_mode = WAL")
        await db.execute("CREATE TABLE t (n INTEGER PRIMARY KEY) STRICT")
        bench = Bench(tmp_path / "t.db", db)
        yield bench
        await bench.writer.close()


@pytest.mark.rule("DUR-1")
async def test_what_returned_is_committed(bench: Bench) -> None:
    for n in range(3):
        assert await bench.write(insert(n)) == [[(n,)]]
        assert bench.kept() == list(range(n + 1))


async def test_writes_that_come_while_a_commit_runs_share_the_next(bench: Bench) -> None:
    first = asyncio.create_task(bench.write(insert(0)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)  # the writer has taken it
    assert not bench.writer._waiting
    await asyncio.gather(first, *(bench.write(insert(n)) for n in range(1, 50)))
    assert bench.batches == [1, 49]
    assert bench.kept() == list(range(50))


@pytest.mark.parametrize("bad", [insert(1), insert("x"), ("no sql", ())], ids=["taken", "type", "syntax"])
async def test_a_failed_write_fails_alone(bench: Bench, bad: Statement) -> None:
    await bench.write(insert(1))
    good, failed, good_too = await asyncio.gather(
        bench.write(insert(2)), bench.write(bad), bench.write(insert(3)), return_exceptions=True
    )
    assert isinstance(failed, sqlite3.Error)
    assert (good, good_too) == ([[(2,)]], [[(3,)]])
    assert bench.kept() == [1, 2, 3]
    assert bench.batches == [1, 3]


async def test_an_operation_is_whole_or_not_at_all(bench: Bench) -> None:
    await bench.write(insert(1))
    outcomes = await asyncio.gather(
        bench.write(insert(2), insert(20)),
        bench.write(insert(3), insert(1), insert(30)),
        bench.write(insert(4)),
        bench.write(insert(4)),
        bench.write(insert(5), insert(50)),
        return_exceptions=True,
    )
    assert [isinstance(one, sqlite3.IntegrityError) for one in outcomes] == [False, True, False, True, False]
    assert bench.kept() == [1, 2, 4, 5, 20, 50]
    assert bench.batches == [1, 5]


@pytest.mark.parametrize("value", ["\ud800", 2**70], ids=["surrogate", "integer"])
async def test_a_value_that_sqlite_cannot_take_stops_nobody_else(bench: Bench, value: int | str) -> None:
    await bench.write(insert(1))
    outcomes = await asyncio.gather(
        bench.write(insert(value)),
        bench.write(insert(2), insert(1)),  # breaks halfway: the whole batch is run once more
        bench.write(insert(3), insert(value)),
        bench.write(insert(4)),
        return_exceptions=True,
    )
    assert [isinstance(one, Exception) for one in outcomes] == [True, True, True, False]
    assert bench.kept() == [1, 4]
    await bench.write(insert(5))
    assert bench.kept() == [1, 4, 5]


async def test_one_who_leaves_stops_neither_the_write_nor_what_follows_from_it(bench: Bench) -> None:
    heard: list[Results] = []
    leaving = asyncio.create_task(bench.writer.write(insert(1), then=heard.append))
    await asyncio.sleep(0)
    leaving.cancel()
    await bench.write(insert(2))
    assert leaving.cancelled()
    assert heard == [[[(1,)]]]
    assert bench.kept() == [1, 2]


async def test_everyone_is_told_of_a_broken_commit_and_the_next_one_works(bench: Bench) -> None:
    await bench.db.execute("CREATE TABLE p (n INTEGER PRIMARY KEY)")
    await bench.db.execute("CREATE TABLE c (n INTEGER REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
    await bench.db.execute("PRAGMA foreign_keys = ON")
    orphan: Statement = ("INSERT INTO c VALUES (9)", ())  # noticed by the commit only
    outcomes = await asyncio.gather(bench.write(insert(1)), bench.write(orphan), return_exceptions=True)
    assert [type(one) for one in outcomes] == [sqlite3.IntegrityError] * 2
    assert bench.kept() == []
    await bench.write(insert(2))
    assert bench.kept() == [2]


async def test_a_transaction_that_sqlite_gave_up_is_no_success(bench: Bench) -> None:
    outcomes = await asyncio.gather(
        bench.write(insert(1)), bench.write(("ROLLBACK", ())), return_exceptions=True
    )
    assert [type(one) for one in outcomes] == [sqlite3.OperationalError] * 2
    assert bench.kept() == []
    await bench.write(insert(2))
    assert bench.kept() == [2]


async def test_what_follows_from_a_write_may_fail_alone_too(bench: Bench) -> None:
    def wrong(_: Results) -> None:
        raise ZeroDivisionError

    wrong_one = bench.writer.write(insert(1), then=wrong)
    outcomes = await asyncio.gather(wrong_one, bench.write(insert(2)), return_exceptions=True)
    assert [type(one) for one in outcomes] == [ZeroDivisionError, list]


async def test_a_closed_writer_has_written_what_it_had_and_takes_no_more(bench: Bench) -> None:
    waiting = [asyncio.create_task(bench.write(insert(n))) for n in range(5)]
    await asyncio.sleep(0)
    await bench.writer.close()
    assert all(one.done() for one in waiting)
    assert bench.kept() == list(range(5))
    with pytest.raises(LedgerError):
        await bench.write(insert(9))
