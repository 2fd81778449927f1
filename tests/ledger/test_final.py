"""A task ends once, however many see it end."""

import asyncio
from itertools import permutations
from pathlib import Path

import pytest

from shim.hub.status import TERMINAL, Status
from shim.ledger.sqlite import SqliteLedger
from tests.ledger.support import ALICE, ledger_at, new_task, on_disk, see


@pytest.mark.rule("HUB-1", "HUB-2")
@pytest.mark.parametrize("order", list(permutations(sorted(TERMINAL))))
async def test_the_first_of_contradicting_ends_wins(ledger: SqliteLedger, order: tuple[Status, ...]) -> None:
    pk = (await ledger.create_task(new_task("t"))).pk
    seen = await asyncio.gather(
        *(see(ledger, pk, one, result=one.encode()) for one in (*order, Status.WORKING))
    )
    final = await ledger.own_task(pk)
    assert (final.status, final.result) == (order[0], order[0].encode())
    assert [one.illegal for one in seen] == [False, True, True, True]
    assert all(one.row == final for one in seen)


@pytest.mark.rule("HUB-2")
async def test_of_many_races_each_has_one_winner_and_keeps_it(ledger: SqliteLedger, path: Path) -> None:
    pks = [(await ledger.create_task(new_task(f"t{n}"))).pk for n in range(20)]
    ends = sorted(TERMINAL)
    seen = await asyncio.gather(
        *(see(ledger, pk, ends[(pk + n) % 3], result=str(n).encode()) for n in range(6) for pk in pks)
    )
    for pk in pks:
        rows = {(one.row.status, one.row.result) for one in seen if one.row.pk == pk}
        assert len(rows) == 1
        assert on_disk(path, "SELECT status, result FROM task WHERE pk = ?", pk) == list(rows)


@pytest.mark.rule("HUB-1")
@pytest.mark.parametrize("end", sorted(TERMINAL))
@pytest.mark.parametrize("late", Status)
async def test_what_comes_after_the_end_changes_nothing(
    ledger: SqliteLedger, end: Status, late: Status
) -> None:
    pk = (await ledger.create_task(new_task("t"))).pk
    ended = await see(ledger, pk, end, result=b"1", status_message="end", now_ms=5)
    again = await see(ledger, pk, late, result=b"2", error=b"3", status_message="late", ttl_ms=None, now_ms=6)
    assert again.row == ended.row == await ledger.own_task(pk)
    assert ended.row.ended_ms == 5
    assert again.illegal is (late is not end)


@pytest.mark.rule("HUB-1")
async def test_open_states_go_back_and_forth(ledger: SqliteLedger) -> None:
    pk = (await ledger.create_task(new_task("t"))).pk
    for status in (Status.INPUT_REQUIRED, Status.WORKING, Status.INPUT_REQUIRED):
        seen = await see(ledger, pk, status, status_message=status, last_updated_at="later")
        assert (seen.row.status, seen.row.status_message, seen.illegal) == (status, status, False)
    assert (await see(ledger, pk, Status.WORKING)).row.last_updated_at == "later"


@pytest.mark.rule("DUR-4")
@pytest.mark.parametrize(
    ("created", "shown", "largest"),
    [(10, (20, 5), 20), (10, (5,), 10), (10, (None, 5), None), (None, (5,), None)],
)
async def test_the_largest_ttl_shown_counts(
    ledger: SqliteLedger, created: int | None, shown: tuple[int | None, ...], largest: int | None
) -> None:
    row = await ledger.create_task(new_task("t", ttl_ms=created))
    for ttl_ms in shown:
        row = (await see(ledger, row.pk, Status.WORKING, ttl_ms=ttl_ms)).row
    assert (row.ttl_ms, row.max_ttl_ms) == (shown[-1], largest)


@pytest.mark.rule("HUB-2")
async def test_a_watcher_that_leaves_leaves_no_old_row_behind(path: Path) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    pk = (await ledger.create_task(new_task("t"))).pk
    watcher = asyncio.create_task(see(ledger, pk, Status.COMPLETED, result=b"{}"))
    await asyncio.sleep(0)  # the write is handed over
    watcher.cancel()
    await asyncio.gather(watcher, return_exceptions=True)
    await ledger.mark_cancel(pk)  # comes after it
    assert (await ledger.lookup(ALICE, "t")).row == await ledger.own_task(pk)
    assert (await ledger.own_task(pk)).status is Status.COMPLETED
    assert await ledger.open_count_by_caller(ALICE) == 0
    await ledger.close()


@pytest.mark.rule("HUB-2")
async def test_an_end_that_only_the_disk_knows_is_found(ledger: SqliteLedger, path: Path) -> None:
    pk = (await ledger.create_task(new_task("t"))).pk
    on_disk(path, "UPDATE task SET status = 'completed', ended_ms = 5, result = x'7b7d' WHERE pk = ?", pk)
    seen = await see(ledger, pk, Status.WORKING)
    assert (seen.row.status, seen.row.result, seen.illegal) == (Status.COMPLETED, b"{}", True)
    assert (await ledger.lookup(ALICE, "t")).row == seen.row
