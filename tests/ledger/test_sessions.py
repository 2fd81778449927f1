from pathlib import Path

import pytest
from msgspec.structs import replace

from shim.ledger.protocol import NOBODY
from shim.ledger.sqlite import SqliteLedger
from tests.ledger.support import ALICE, BOB, ledger_at, new_session, on_disk


@pytest.mark.rule("DUR-1")
async def test_a_session_comes_back_as_it_was_written(path: Path) -> None:
    row = new_session("s", dialect="experimental", side="client")
    ledger = ledger_at(path)
    await ledger.open()
    await ledger.add_session(row)
    assert await ledger.session("s") == row
    await ledger.close()
    again = ledger_at(path)
    await again.open()
    assert await again.session("s") == row
    assert await again.session("t") is None
    await again.close()


@pytest.mark.rule("LL-OWN", "OWN-CHECK")
async def test_a_session_is_its_callers(ledger: SqliteLedger) -> None:
    row = new_session("s")
    await ledger.add_session(row)
    assert await ledger.session_of(ALICE, "s") == row
    assert await ledger.session_of(BOB, "s") is None
    assert await ledger.session_of(ALICE, "t") is None


@pytest.mark.rule("OWN-CHECK")
async def test_no_one_takes_over_a_session_by_its_id(ledger: SqliteLedger) -> None:
    row = new_session("s")
    await ledger.add_session(row)
    await ledger.add_session(new_session("s", caller=BOB, init=b"{}"))
    assert await ledger.session("s") == row


async def test_its_caller_may_renew_a_session(ledger: SqliteLedger) -> None:
    await ledger.add_session(new_session("s"))
    await ledger.close_session("s")
    renewed = new_session("s", version="2025-06-18", client_name="d", init=b"{}", used_ms=5_000)
    await ledger.add_session(replace(renewed, created_ms=9_999))
    assert await ledger.session("s") == renewed


async def test_open_sessions_by_caller_upstream_and_side(ledger: SqliteLedger) -> None:
    for row in (
        new_session("mine"), new_session("closed", closed=True), new_session("hers", caller=BOB),
        new_session("client", side="client"), new_session("elsewhere", upstream="second"),
    ):  # fmt: skip
        await ledger.add_session(row)
    assert [row.session_id for row in await ledger.sessions(ALICE, "main", "pool")] == ["mine"]
    assert (await ledger.stats()).sessions == 4


@pytest.mark.rule("OWN-NONE")
async def test_nobody_shares_a_session(ledger: SqliteLedger) -> None:
    await ledger.add_session(new_session("s", caller=NOBODY, caller_kind="none"))
    assert await ledger.sessions(NOBODY, "main", "pool") == []
    assert await ledger.session("s") is not None


async def test_changes_are_seen_at_once(ledger: SqliteLedger) -> None:
    await ledger.add_session(new_session("s"))
    await ledger.session("s")
    await ledger.set_session_dialect("s", "create-status")
    row = await ledger.session("s")
    assert row is not None
    assert (row.dialect, row.closed) == ("create-status", False)
    await ledger.close_session("s")
    assert await ledger.session("s") == replace(row, closed=True)


async def test_uses_are_written_with_the_sweep_and_at_the_end(path: Path) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    for name in ('a"b', "é\\", "c"):
        await ledger.add_session(new_session(name))
        assert await ledger.session(name) is not None
    ledger.touch_session('a"b', 7_000)
    ledger.touch_session("é\\", 8_000)
    ledger.touch_session("unknown", 8_000)
    await ledger.write_uses()
    row = await ledger.session("é\\")
    assert row is not None
    assert row.used_ms == 8_000
    ledger.touch_session("c", 9_000)
    await ledger.close()
    assert on_disk(path, "SELECT used_ms FROM session ORDER BY used_ms") == [(7_000,), (8_000,), (9_000,)]
