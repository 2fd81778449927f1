"""What time takes, in which order: retention is 10 s, tombstones last 5 s, an open task 1,000 s."""

from pathlib import Path

import pytest

from shim.hub.status import Status
from shim.ledger import purge
from shim.ledger.protocol import NOBODY
from shim.ledger.sqlite import SqliteLedger
from tests.ledger.support import (
    ALICE,
    BOB,
    ledger_at,
    new_input,
    new_session,
    new_task,
    on_disk,
    purge_at,
    see,
)

pytestmark = pytest.mark.rule("DUR-4")


async def test_first_the_payload_then_the_tombstone(ledger: SqliteLedger, path: Path) -> None:
    pk = (await ledger.create_task(new_task("t", first_seen_ms=1_000, ttl_ms=60_000))).pk
    await ledger.add_input(new_input(pk, "k"))
    ended = (await see(ledger, pk, Status.COMPLETED, result=b'{"secret":1}', now_ms=2_000)).row

    assert await purge_at(ledger, 60_999) == (set(), 0)
    assert (await ledger.lookup(ALICE, "t")).row == ended

    assert await purge_at(ledger, 61_000) == ({"t"}, 0)
    found = (await ledger.lookup(ALICE, "t")).row
    assert found is not None
    assert (found.purged, found.status, found.result) == (True, Status.COMPLETED, None)
    for stranger in (BOB, NOBODY):
        assert (await ledger.lookup(stranger, "t")).row is None
    assert await ledger.list_tasks(ALICE, after=None, limit=10) == []
    assert on_disk(path, "SELECT count(*) FROM input") == [(0,)]
    assert b"secret" not in b"".join(
        bytes(value or b"") for value in on_disk(path, "SELECT result FROM task")[0]
    )

    assert await purge_at(ledger, 65_999) == (set(), 0)
    assert await purge_at(ledger, 66_000) == (set(), 1)
    assert (await ledger.lookup(ALICE, "t")).reason == "unknown_task"
    assert on_disk(path, "SELECT count(*) FROM task") == [(0,)]


@pytest.mark.parametrize(
    ("first_seen_ms", "shown_ttl_ms", "ended_ms", "due_ms"),
    [
        (1_000, (60_000,), 2_000, 61_000),
        (1_000, (60_000, 90_000, 10), 2_000, 91_000),
        (1_000, (500,), 9_000, 9_000),
        (1_000, (0,), 2_000, 2_000),
        (1_000, (None,), 2_000, 12_000),
        (1_000, (100_000, None), 2_000, 12_000),
    ],
    ids=[
        "from first sight",
        "the largest",
        "not before the end",
        "none at all",
        "unlimited",
        "unlimited once",
    ],
)
async def test_when_an_ended_task_is_due(
    ledger: SqliteLedger, first_seen_ms: int, shown_ttl_ms: tuple[int | None, ...], ended_ms: int, due_ms: int
) -> None:
    made = await ledger.create_task(new_task("t", first_seen_ms=first_seen_ms, ttl_ms=shown_ttl_ms[0]))
    for ttl_ms in shown_ttl_ms:
        await see(ledger, made.pk, Status.WORKING, ttl_ms=ttl_ms)
    await see(ledger, made.pk, Status.FAILED, ttl_ms=shown_ttl_ms[-1], now_ms=ended_ms)
    assert await purge_at(ledger, due_ms - 1) == (set(), 0)
    assert await purge_at(ledger, due_ms) == ({"t"}, 0)


async def test_an_open_task_goes_by_its_age_alone(ledger: SqliteLedger) -> None:
    made = await ledger.create_task(new_task("t", first_seen_ms=1_000, ttl_ms=1))
    assert await purge_at(ledger, 1_000_999) == (set(), 0)
    assert await ledger.open_count_by_caller(ALICE) == 1
    assert await purge_at(ledger, 1_001_000) == ({"t"}, 0)
    row = await ledger.own_task(made.pk)
    assert (row.status, row.purged, row.ended_ms) == (Status.FAILED, True, 1_001_000)
    assert await ledger.open_count_by_caller(ALICE) == 0
    assert await purge_at(ledger, 1_006_000) == (set(), 1)


@pytest.mark.parametrize("end", [None, Status.CANCELLED])
async def test_what_upstream_no_longer_knows_is_a_tombstone(ledger: SqliteLedger, end: Status | None) -> None:
    made = await ledger.create_task(new_task("t"))
    if end is not None:
        await see(ledger, made.pk, end, result=b"{}", now_ms=2_000)
    await ledger.expire(made.pk, 3_000)
    row = await ledger.own_task(made.pk)
    assert (row.purged, row.result, row.status) == (True, None, end or Status.FAILED)
    assert (await see(ledger, made.pk, Status.COMPLETED, result=b"{}")).row == row
    await ledger.expire(made.pk, 4_000)
    assert await purge_at(ledger, 7_999) == (set(), 0)
    assert await purge_at(ledger, 8_000) == (set(), 1)


async def test_a_purge_takes_no_more_than_its_limit(ledger: SqliteLedger) -> None:
    for n in range(5):
        made = await ledger.create_task(new_task(f"t{n}", ttl_ms=0))
        await see(ledger, made.pk, Status.COMPLETED, now_ms=2_000, ttl_ms=0)
    taken = [await purge_at(ledger, now_ms, limit=2) for now_ms in (2_000, 2_001, 2_002, 9_000, 9_000, 9_000)]
    assert [(len(payloads), rows) for payloads, rows in taken] == [
        (2, 0),
        (2, 0),
        (1, 0),
        (0, 2),
        (0, 2),
        (0, 1),
    ]


async def test_a_payload_and_its_tombstone_never_go_at_once(ledger: SqliteLedger) -> None:
    made = await ledger.create_task(new_task("t", ttl_ms=0))
    await see(ledger, made.pk, Status.COMPLETED, ttl_ms=0)
    assert await purge_at(ledger, 900_000, tombstone_ms=0) == ({"t"}, 0)
    assert await purge_at(ledger, 900_000, tombstone_ms=0) == (set(), 1)


async def test_an_id_is_not_given_to_a_new_row_key(ledger: SqliteLedger) -> None:
    made = await ledger.create_task(new_task("t", ttl_ms=0))
    await ledger.expire(made.pk, 1)
    await purge_at(ledger, 900_000)
    again = await ledger.create_task(new_task("t", caller=BOB))
    assert again.pk > made.pk
    assert (await ledger.lookup(BOB, "t")).row == again
    assert (await ledger.lookup(ALICE, "t")).reason == "not_owner"


async def test_sessions_go_when_unused_and_without_open_tasks(ledger: SqliteLedger) -> None:
    for name in ("idle", "busy", "used"):
        await ledger.add_session(new_session(name, used_ms=1_000))
        assert await ledger.session(name) is not None
    busy = await ledger.create_task(new_task("t", session_id="busy"))
    ledger.touch_session("used", 2_000)
    await purge_at(ledger, 30_999)
    assert await ledger.session("idle") is not None
    await purge_at(ledger, 31_000)
    assert [await ledger.session(name) is None for name in ("idle", "busy", "used")] == [True, False, False]
    await see(ledger, busy.pk, Status.COMPLETED, now_ms=31_000)
    await purge_at(ledger, 32_000)
    assert [await ledger.session(name) is None for name in ("idle", "busy", "used")] == [True, True, True]


async def test_a_sweep_reads_its_indexes_and_not_the_table(path: Path) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    await ledger.close()
    operation = purge.statements(
        1, retention_ms=1, tombstone_ms=1, max_age_ms=1, idempotency_ms=1, session_ms=1, limit=1
    )
    for sql, values in operation:
        assert isinstance(values, dict)
        plan = [row[-1] for row in on_disk(path, f"EXPLAIN QUERY PLAN {sql}", **values)]
        assert [step for step in plan if step.startswith("SCAN") and "SUBQUERY" not in step.upper()] == []
