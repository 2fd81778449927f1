from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict

from shim.hub.status import Status
from shim.ledger.protocol import NOBODY, IdCollision, LedgerError
from shim.ledger.records import Lookup
from shim.ledger.sqlite import SqliteLedger
from tests.ledger.support import ALICE, BOB, ledger_at, new_task, on_disk, see


async def test_a_task_comes_back_as_it_was_written(path: Path) -> None:
    full = new_task(
        "t", client_session="cs", tool="slow", kinds=frozenset({"sampling", "elicitation"}), driven=True,
        status_message="m", meta=b'{"x":1}',
    )  # fmt: skip
    bare = new_task("u", session_id=None, ttl_ms=None, poll_interval_ms=None)
    for new in (full, bare):
        ledger = ledger_at(path)
        await ledger.open()
        made = await ledger.create_task(new)
        assert asdict(new).items() <= asdict(made).items()
        assert (made.max_ttl_ms, made.touched_ms, made.purged) == (new.ttl_ms, new.first_seen_ms, False)
        await ledger.close()
        again = ledger_at(path)
        await again.open()
        assert await again.own_task(made.pk) == made
        await again.close()


@pytest.mark.rule("OWN-ID-MAP")
async def test_a_taken_id_is_refused_and_a_minted_one_may_map_to_the_same_task(ledger: SqliteLedger) -> None:
    first = await ledger.create_task(new_task("t"))
    with pytest.raises(IdCollision):
        await ledger.create_task(new_task("t", caller=BOB))
    minted = await ledger.create_task(new_task("ts-1", upstream_task_id=first.upstream_task_id, caller=BOB))
    assert minted.pk != first.pk
    assert (await ledger.lookup(BOB, "t")).row is None
    assert await ledger.renamed(first.upstream, first.upstream_task_id) == [first, minted]
    plain = await ledger.create_task(new_task("same", upstream_task_id="same"))
    assert await ledger.renamed(plain.upstream, "same") == await ledger.renamed("other", "up-t") == []


async def test_a_task_that_lacks_what_the_schema_wants_is_no_collision(ledger: SqliteLedger) -> None:
    with pytest.raises(LedgerError, match="created_at"):
        await ledger.create_task(new_task("t", created_at=None))


@dataclass
class Access:
    owner: str
    asker: str
    granted: bool
    fields: dict[str, Any] = field(default_factory=dict)


@pytest.mark.rule("OWN-CHECK", "OWN-NONE")
@pytest.mark.parametrize("cached", [True, False])
@pytest.mark.parametrize(
    "case",
    [
        Access(ALICE, ALICE, granted=True),
        Access(ALICE, BOB, granted=False),
        Access(ALICE, NOBODY, granted=False),
        Access(NOBODY, NOBODY, granted=True),
        Access(NOBODY, ALICE, granted=False),
        Access(NOBODY, NOBODY, granted=False, fields={"caller_kind": "header"}),
        Access(ALICE, ALICE, granted=False, fields={"caller_kind": "none"}),
        Access(ALICE, "", granted=False),
    ],
    ids=repr,
)
async def test_only_its_owner_gets_a_task(path: Path, case: Access, *, cached: bool) -> None:
    ledger = ledger_at(path, cache_rows=10 if cached else 0)
    await ledger.open()
    row = await ledger.create_task(new_task("t", caller=case.owner, **case.fields))
    expected = Lookup(row) if case.granted else Lookup(None, "not_owner")
    assert await ledger.lookup(case.asker, "t") == expected
    assert await ledger.lookup(case.asker, "no such") == Lookup(None, "unknown_task")
    await ledger.close()


async def test_a_poll_of_a_known_task_reads_no_disk(
    ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = await ledger.create_task(new_task("t"))
    assert await ledger.inputs(row.pk) == []
    monkeypatch.setattr(ledger._db, "read", None)
    assert (await ledger.lookup(ALICE, "t")).row == row
    assert await ledger.inputs(row.pk) == []
    assert await ledger.open_count_by_caller(ALICE) == 1


async def test_notes_on_a_task_are_in_memory_and_on_disk(ledger: SqliteLedger, path: Path) -> None:
    pk = (await ledger.create_task(new_task("t"))).pk
    await ledger.mark_cancel(pk)
    await ledger.set_session(pk, "s-2")
    await ledger.set_result_request(pk, b'"r-1"')
    row = await ledger.own_task(pk)
    assert (row.cancel_requested, row.session_id, row.result_request_id) == (True, "s-2", b'"r-1"')
    assert on_disk(path, "SELECT cancel_requested, session_id, result_request_id FROM task") == [
        (1, "s-2", b'"r-1"')
    ]


async def test_a_task_that_is_not_there(ledger: SqliteLedger) -> None:
    with pytest.raises(KeyError):
        await ledger.own_task(7)
    with pytest.raises(KeyError):
        await see(ledger, 7, Status.COMPLETED)
    await ledger.mark_cancel(7)
    await ledger.expire(7, 1)
    assert await ledger.open_count_by_caller(ALICE) == 0


@pytest.mark.rule("LL-LIST", "OWN-CHECK")
async def test_pages_are_the_callers_own_newest_first(ledger: SqliteLedger) -> None:
    for n in range(10):
        await ledger.create_task(new_task(f"a{n}", client_session=f"cs-{n % 2}"))
        await ledger.create_task(new_task(f"b{n}", caller=BOB, client_session="cs-0"))
    seen: list[str] = []
    after = None
    while page := await ledger.list_tasks(ALICE, after=after, limit=4):
        seen += [row.task_id for row in page]
        after = page[-1].pk
        await ledger.create_task(new_task(f"later-{after}"))  # what comes meanwhile disturbs no page
    assert seen == [f"a{n}" for n in reversed(range(10))]
    own = await ledger.list_tasks(ALICE, after=None, limit=100, client_session="cs-1")
    assert [row.task_id for row in own] == ["a9", "a7", "a5", "a3", "a1"]
    assert await ledger.list_tasks(ALICE, after=own[-1].pk, limit=100, client_session="cs-1") == []


@pytest.mark.rule("OWN-NONE")
async def test_nobody_has_no_list(ledger: SqliteLedger) -> None:
    await ledger.create_task(new_task("t", caller=NOBODY))
    assert await ledger.list_tasks(NOBODY, after=None, limit=10) == []
    assert await ledger.open_tasks_of(NOBODY, limit=10) == []


async def test_a_list_carries_no_payloads_and_no_tombstones(ledger: SqliteLedger) -> None:
    kept = await ledger.create_task(new_task("kept"))
    gone = await ledger.create_task(new_task("gone"))
    await see(ledger, kept.pk, Status.COMPLETED, result=b'{"big":1}')
    await ledger.expire(gone.pk, 3_000)
    [row] = await ledger.list_tasks(ALICE, after=None, limit=10)
    assert (row.task_id, row.status, row.result) == ("kept", Status.COMPLETED, None)
    assert (await ledger.own_task(kept.pk)).result == b'{"big":1}'


async def test_results_of_a_page_come_in_one_read(ledger: SqliteLedger) -> None:
    one, other, working = [await ledger.create_task(new_task(name)) for name in ("one", "other", "working")]
    await see(ledger, one.pk, Status.COMPLETED, result=b'{"a":1}')
    await see(ledger, other.pk, Status.COMPLETED, result=b'{"b":2}')
    assert await ledger.results([one.pk, other.pk, working.pk]) == {one.pk: b'{"a":1}', other.pk: b'{"b":2}'}
    assert await ledger.results([]) == {}


async def plan_of(ledger: SqliteLedger, path: Path, reading: Callable[[], Awaitable[Any]]) -> str:
    """How SQLite finds what a reading asks for."""
    statements: list[tuple[str, tuple[Any, ...]]] = []
    read = ledger._db.read

    async def listen(sql: str, *values: Any) -> Any:
        statements.append((sql, values))
        return await read(sql, *values)

    ledger._db.read = listen  # type: ignore[method-assign]
    await reading()
    [(sql, values)] = statements
    return " ".join(str(row[-1]) for row in on_disk(path, f"EXPLAIN QUERY PLAN {sql}", *values))


@pytest.mark.parametrize("session", [None, "cs"])
async def test_a_page_is_found_by_its_index(ledger: SqliteLedger, path: Path, session: str | None) -> None:
    page = partial(ledger.list_tasks, ALICE, after=5, limit=10, client_session=session)
    plan = await plan_of(ledger, path, page)
    assert "SCAN" not in plan
    assert "TEMP B-TREE" not in plan
    assert "pk<?" in plan


async def test_a_callers_open_tasks_are_found_without_the_ended_ones(ledger: SqliteLedger) -> None:
    for n in range(6):
        await ledger.create_task(new_task(f"a{n}", client_session=f"cs-{n % 2}"))
        await ledger.create_task(new_task(f"b{n}", caller=BOB, client_session="cs-0"))
    for name in ("a0", "a1"):
        ended = (await ledger.lookup(ALICE, name)).row
        assert ended is not None
        await see(ledger, ended.pk, Status.COMPLETED)
    found = {session: await ledger.open_tasks_of(ALICE, client_session=session, limit=3) for session in OF}
    assert {of: [row.task_id for row in rows] for of, rows in found.items()} == OF
    assert await ledger.has_open_tasks(ALICE, "cs-0")
    assert not await ledger.has_open_tasks(ALICE, "cs-2")


OF = {None: ["a2", "a3", "a4"], "cs-0": ["a2", "a4"], "cs-1": ["a3", "a5"], "cs-2": []}
"""Alice's open tasks by session; of all of them the first three."""


@pytest.mark.parametrize("session", [None, "cs"])
async def test_open_tasks_are_found_by_their_index(
    ledger: SqliteLedger, path: Path, session: str | None
) -> None:
    plan = await plan_of(ledger, path, partial(ledger.open_tasks_of, ALICE, client_session=session, limit=10))
    assert "SCAN" not in plan
    assert ("client_session=?" in plan, "TEMP B-TREE" in plan) == (
        (True, False) if session else (False, True)
    )


@pytest.mark.rule("DUR-5")
async def test_open_tasks_are_found_again(path: Path) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    rows = [await ledger.create_task(new_task(f"t{n}", session_id=f"s-{n % 2}")) for n in range(4)]
    await ledger.create_task(new_task("other", upstream="second"))
    await see(ledger, rows[0].pk, Status.FAILED)
    await ledger.close()

    again = ledger_at(path)
    await again.open()
    assert [row.task_id for row in await again.open_tasks(limit=10)] == ["t1", "t2", "t3", "other"]
    assert [row.task_id for row in await again.open_tasks(limit=2)] == ["t1", "t2"]
    assert [row.task_id for row in await again.open_tasks(session_id="s-1", limit=10)] == [
        "t1",
        "t3",
        "other",
    ]
    assert [r.task_id for r in await again.open_tasks(upstream="main", session_id="s-1", limit=9)] == [
        "t1",
        "t3",
    ]
    assert await again.open_count_by_caller(ALICE) == 4
    await again.close()


async def test_open_tasks_are_counted_by_caller(ledger: SqliteLedger) -> None:
    one, two, three = [(await ledger.create_task(new_task(f"t{n}"))).pk for n in range(3)]
    await ledger.create_task(new_task("b", caller=BOB))
    await see(ledger, one, Status.INPUT_REQUIRED)
    assert await ledger.open_count_by_caller(ALICE) == 3
    await see(ledger, one, Status.COMPLETED)
    await see(ledger, one, Status.FAILED)
    await ledger.expire(one, 5)
    await ledger.expire(two, 5)
    assert await ledger.open_count_by_caller(ALICE) == 1
    await see(ledger, three, Status.CANCELLED)
    assert [await ledger.open_count_by_caller(caller) for caller in (ALICE, BOB, "x")] == [0, 1, 0]


async def test_touches_are_written_with_the_sweep_and_at_the_end(path: Path) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    pks = [(await ledger.create_task(new_task(f"t{n}"))).pk for n in range(3)]
    await see(ledger, pks[2], Status.COMPLETED)
    for pk in pks:
        ledger.touch(pk, 7_000 + pk)
    ledger.touch(99, 1)
    await ledger.write_touches()
    [first, *_] = await ledger.open_tasks(limit=1)
    assert first.touched_ms == 7_000 + pks[0]
    ledger.touch(pks[1], 9_000)
    await ledger.close()
    touched = on_disk(path, "SELECT touched_ms FROM task ORDER BY pk")
    assert touched == [(7_000 + pks[0],), (9_000,), (1_000,)]


async def test_counts(ledger: SqliteLedger) -> None:
    assert (await ledger.stats()).oldest_open_ms is None
    one = await ledger.create_task(new_task("t", first_seen_ms=5))
    await ledger.create_task(new_task("u", first_seen_ms=9))
    await ledger.create_task(new_task("v", upstream="second", first_seen_ms=7))
    stats = await ledger.stats()
    assert (stats.tasks, stats.oldest_open_ms) == ({"main": {"working": 2}, "second": {"working": 1}}, 5)
    await see(ledger, one.pk, Status.COMPLETED)
    stats = await ledger.stats()
    assert (stats.tasks["main"], stats.oldest_open_ms) == ({"working": 1, "completed": 1}, 7)
