"""What tasks carry, kept in memory alone: what the file never holds, what is lost with the process."""

import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace

from shim.hub.status import Status
from shim.ledger.payloads import InMemory, Payloads
from shim.ledger.protocol import LedgerError
from shim.ledger.records import EVERY_STATE, TaskRow
from shim.ledger.sqlite import SqliteLedger
from shim.wire.errors import ClientFault
from tests.ledger.support import (
    ALICE,
    ledger_at,
    new_call,
    new_input,
    new_task,
    on_disk,
    purge_at,
    see,
)
from tests.planted import MARK

pytestmark = pytest.mark.rule("DUR-8")

SAID = b'{"planted":"%b"}' % MARK.encode()
TOOL_ERROR = b'{"content":[{"text":"%b"}],"isError":true}' % MARK.encode()
HANDLE = b'{"taskId":"one"}'
ROOMY = 10_000_000


def in_memory(secret: bytes | None = None) -> InMemory:
    return InMemory(lambda: ROOMY, lambda: None, secret=secret)


def holding(path: Path) -> list[str]:
    """Name the ledger's files that hold what was planted."""
    return [one.name for one in sorted(path.parent.iterdir()) if MARK.encode() in one.read_bytes()]


async def filled(ledger: SqliteLedger) -> tuple[TaskRow, TaskRow, TaskRow]:
    """Write something planted everywhere; gives a task with a result, one with an error, and an open one."""
    made = [
        await ledger.create_task(new_task(name, meta=SAID, status_message=MARK, ttl_ms=None))
        for name in ("one", "two", "open")
    ]
    done, failed, waits = (one.pk for one in made)
    await see(ledger, done, Status.WORKING, status_message=f"{MARK} goes on")
    await see(ledger, done, Status.COMPLETED, result=TOOL_ERROR, status_message=MARK)
    await see(ledger, failed, Status.FAILED, error=SAID, status_message=MARK)
    for key in ("asked", "answered", "delivered"):
        await ledger.add_input(new_input(waits, key, params=SAID))
    for key in ("answered", "delivered"):
        await ledger.answer_input(waits, key, SAID, by="update")
    await ledger.deliver_input(waits, "delivered")
    for key, handle in (("k-1", None), ("k-2", HANDLE)):
        await ledger.idem_begin(new_call(key))
        await ledger.idem_finish(ALICE, key, answer=SAID, is_error=False, dialect="d", handle=handle)
    await ledger.keep_call(waits, SAID)
    return (await ledger.own_task(done), await ledger.own_task(failed), await ledger.own_task(waits))


async def told(ledger: SqliteLedger, *rows: TaskRow) -> list[object]:
    """Give all that the ledger tells of what `filled` wrote."""
    keyed = [await ledger.idem_get(ALICE, key) for key in ("k-1", "k-2")]
    return [
        [replace(await ledger.own_task(row.pk), tool_error=False) for row in rows],
        [
            replace(row, tool_error=False, result=None, error=None)
            for row in await ledger.list_tasks(ALICE, after=None, limit=10)
        ],
        await ledger.results([row.pk for row in rows]),
        [await ledger.inputs(rows[-1].pk, (state,)) for state in ("outstanding", "answered")],
        [one and one.answer for one in keyed],
        await ledger.undelivered(),
    ]


@pytest.mark.parametrize("cache_rows", [20_000, 1])
async def test_the_file_holds_none_of_it_and_all_of_it_is_told(path: Path, cache_rows: int) -> None:
    beside = path.with_name("beside") / "ledger.db"
    answers = []
    for where, payloads in ((path, in_memory()), (beside, Payloads())):
        ledger = ledger_at(where, payloads=payloads, cache_rows=cache_rows)
        await ledger.open()
        rows = [row.pk for row in await filled(ledger)]
        told_of = await told(ledger, *[await ledger.own_task(pk) for pk in rows])
        answers.append(told_of)
        held = holding(where)
        await ledger.close()
        held += holding(where)
        assert bool(held) is payloads.in_file
    assert answers[0] == answers[1]


async def test_a_restart_leaves_the_rows_and_says_what_is_gone(path: Path) -> None:
    ledger = ledger_at(path, payloads=in_memory())
    await ledger.open()
    done, failed, waits = await filled(ledger)
    await ledger.close()

    ledger = ledger_at(path, payloads=in_memory())
    await ledger.open()
    again = [await ledger.own_task(row.pk) for row in (done, failed, waits)]
    assert [row.status for row in again] == [Status.COMPLETED, Status.FAILED, Status.WORKING]
    assert [row.lacks_payload for row in again] == [True, True, False]
    assert [row.tool_error for row in again] == [True, False, False]
    assert await ledger.inputs(waits.pk) == []
    states = {one.key: (one.state, one.params) for one in await ledger.inputs(waits.pk, EVERY_STATE)}
    # an acknowledged answer that had not reached the server is asked for again
    assert states == {
        "asked": ("lost", b"{}"), "answered": ("lost", b"{}"), "delivered": ("delivered", b"{}"),
    }  # fmt: skip
    assert await ledger.undelivered() == []
    keyed = [await ledger.idem_get(ALICE, key) for key in ("k-1", "k-2")]
    assert [(one.state, one.answer, one.handle) for one in keyed if one] == [
        ("done", None, None), ("done", None, HANDLE),
    ]  # fmt: skip


@pytest.mark.parametrize("payloads", [in_memory(), Payloads()], ids=["in memory", "in the file"])
async def test_a_lost_question_is_still_answered_and_has_its_text_again(
    path: Path, payloads: Payloads
) -> None:
    ledger = ledger_at(path, payloads=in_memory())
    await ledger.open()
    pk = (await ledger.create_task(new_task("one"))).pk
    for key in ("seen", "shown again"):
        await ledger.add_input(new_input(pk, key, params=SAID))
    await ledger.close()

    ledger = ledger_at(path, payloads=payloads)
    await ledger.open()
    assert await ledger.answer_input(pk, "seen", b'{"action":"accept"}', by="update")
    [answered] = await ledger.inputs(pk, ("answered",))
    assert answered.response == b'{"action":"accept"}'
    told_again = await ledger.add_input(new_input(pk, "shown again", params=SAID))
    assert (told_again.state, told_again.params) == ("outstanding", SAID)
    assert await ledger.inputs(pk) == [told_again]
    assert bool(holding(path)) is payloads.in_file


async def test_the_same_question_is_known_and_another_under_its_id_closes_it(path: Path) -> None:
    ledger = ledger_at(path, payloads=in_memory())
    await ledger.open()
    pk = (await ledger.create_task(new_task("one"))).pk
    under = {"upstream_id": b"7", "session_id": "s-1"}
    first = await ledger.add_input(new_input(pk, "q-1", params=b'{"message":"?"}', **under))
    same = await ledger.add_input(new_input(pk, "q-2", params=b'{"message":"?"}', **under))
    assert same == first
    other = await ledger.add_input(new_input(pk, "q-2", params=b'{"message":"!"}', **under))
    states = [(one.key, one.state) for one in await ledger.inputs(pk, EVERY_STATE)]
    assert states == [("q-1", "closed"), ("q-2", "outstanding")]
    assert await ledger.inputs(pk) == [other]


@pytest.mark.parametrize(
    ("text", "secret", "states"),
    [
        (b'{"message":"?"}', b"s", [("q-1", "outstanding")]),
        (b'{"message":"!"}', b"s", [("q-1", "closed"), ("q-2", "outstanding")]),
        (b'{"message":"?"}', b"other", [("q-1", "closed"), ("q-2", "outstanding")]),
    ],
)
async def test_a_question_that_comes_again_after_a_restart_keeps_its_key(
    path: Path, text: bytes, secret: bytes, states: list[tuple[str, str]]
) -> None:
    ledger = ledger_at(path, payloads=in_memory(b"s"))
    await ledger.open()
    pk = (await ledger.create_task(new_task("one"))).pk
    under = {"upstream_id": b"7", "session_id": "s-1"}
    await ledger.add_input(new_input(pk, "q-1", params=b'{"message":"?"}', **under))
    await ledger.close()

    ledger = ledger_at(path, payloads=in_memory(secret))
    await ledger.open()
    again = await ledger.add_input(new_input(pk, "q-2", params=text, **under))
    assert (again.params, again.state, again.key) == (text, "outstanding", states[-1][0])
    assert await ledger.inputs(pk) == [again]
    assert [(one.key, one.state) for one in await ledger.inputs(pk, EVERY_STATE)] == states


async def test_what_can_be_had_again_makes_way_first_and_a_question_never(path: Path) -> None:
    full = 0

    def reached() -> None:
        nonlocal full
        full += 1

    ledger = ledger_at(path, payloads=InMemory(lambda: 3_500, reached), cache_rows=1)
    await ledger.open()
    made = [await ledger.create_task(new_task(f"t{n}", local=n == 0, ttl_ms=None)) for n in range(3)]
    asks = await ledger.create_task(new_task("asks"))
    await ledger.add_input(new_input(asks.pk, "q", params=b"x" * 700))
    for row in made[:2]:
        await see(ledger, row.pk, Status.COMPLETED, result=b"y" * 700)
    assert (await ledger.results([row.pk for row in made])).keys() == {made[0].pk, made[1].pk}
    assert full == 0
    await see(ledger, made[2].pk, Status.COMPLETED, result=b"z" * 700)
    assert (await ledger.results([row.pk for row in made])).keys() == {made[0].pk, made[2].pk}
    assert full == 1
    assert (await ledger.own_task(made[1].pk)).lacks_payload
    assert (await ledger.regained(made[1].pk, b"y" * 700, None)).result == b"y" * 700
    for _ in range(2):  # what only the shim has goes when nothing else is left to go
        await ledger.regained(made[2].pk, b"z" * 2_300, None)
    assert [one.key for one in await ledger.inputs(asks.pk)] == ["q"]
    with pytest.raises(ClientFault, match=r"limits\.kept_bytes"):
        await ledger.add_input(new_input(asks.pk, "another", params=b"x" * 3_000))
    with pytest.raises(ClientFault, match=r"limits\.kept_bytes"):
        await ledger.answer_input(asks.pk, "q", b"x" * 3_000, by="update")
    assert [one.key for one in await ledger.inputs(asks.pk, EVERY_STATE)] == ["q"]


async def test_what_is_over_its_time_is_kept_no_more(path: Path) -> None:
    payloads = in_memory()
    ledger = ledger_at(path, payloads=payloads)
    await ledger.open()
    done, _, waits = await filled(ledger)
    await ledger.expire(waits.pk, 3_000)
    await purge_at(ledger, 50_000)
    assert (await ledger.own_task(done.pk)).result is None
    assert payloads._bytes == {"again": 0, "only": 0, "pinned": 0}


async def test_a_file_that_held_payloads_loses_them_at_the_start(path: Path) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    done, failed, waits = await filled(ledger)
    purged = await ledger.create_task(new_task("purged", ttl_ms=1))
    await see(ledger, purged.pk, Status.COMPLETED, result=SAID * 2_000, ttl_ms=1)
    await purge_at(ledger, 5_000)  # SQLite leaves it in free pages
    assert holding(path)
    await ledger.close()

    ledger = ledger_at(path, payloads=in_memory())
    await ledger.open()
    assert holding(path) == []
    again = [await ledger.own_task(row.pk) for row in (done, failed, waits)]
    assert [row.tool_error for row in again] == [True, False, False]
    assert [row.lacks_payload for row in again] == [True, True, False]
    assert [(one.key, one.state) for one in await ledger.inputs(waits.pk, EVERY_STATE)] == [
        ("asked", "lost"), ("answered", "lost"), ("delivered", "delivered"),
    ]  # fmt: skip
    assert on_disk(path, "SELECT in_file, (SELECT count(*) FROM call) FROM payloads") == [(0, 0)]
    await ledger.close()
    assert holding(path) == []


async def test_who_reads_the_file_meanwhile_keeps_it_from_starting(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shim.ledger.database._BUSY_MS", 1)
    ledger = ledger_at(path)
    await ledger.open()
    await filled(ledger)
    await ledger.close()

    reader = sqlite3.connect(path, isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM task").fetchall()
    ledger = ledger_at(path, payloads=in_memory())
    with pytest.raises(LedgerError, match=r"ledger\.store_results = false"):
        await ledger.open()
    reader.close()
    await ledger.open()
    assert holding(path) == []
