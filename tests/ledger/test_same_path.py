"""Not yours and not there are read in the same way, so that time does not tell them apart (OWN-CHECK)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from shim.ledger.protocol import NOBODY
from tests.ledger.support import ALICE, BOB, ledger_at, new_session, new_task

pytestmark = pytest.mark.rule("OWN-CHECK")

Reads = Callable[[str], list[str]]


@pytest.mark.parametrize("stranger", [BOB, NOBODY])
@pytest.mark.parametrize("cached", [True, False])
async def test_a_foreign_task_is_looked_for_like_none(
    path: Path, reads: Reads, stranger: str, *, cached: bool
) -> None:
    first = ledger_at(path)
    await first.open()
    await first.create_task(new_task("hers"))
    await first.close()
    ledger = ledger_at(path)
    await ledger.open()
    if cached:
        assert (await ledger.lookup(ALICE, "hers")).row is not None
    so_far = len(reads("hers"))
    for _ in range(2):  # the first look leaves nothing behind that the second would find
        assert (await ledger.lookup(stranger, "hers")).reason == "not_owner"
        assert (await ledger.lookup(stranger, "gone")).reason == "unknown_task"
    assert reads("hers")[so_far:] == reads("gone") != []


async def test_ones_own_task_is_not_read_twice(path: Path, reads: Reads) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    await ledger.create_task(new_task("hers"))
    assert (await ledger.lookup(ALICE, "hers")).row is not None
    assert reads("hers") == []


@pytest.mark.rule("LL-OWN")
@pytest.mark.parametrize("cached", [True, False])
async def test_a_foreign_session_is_looked_for_like_none(path: Path, reads: Reads, *, cached: bool) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    await ledger.add_session(new_session("hers"))
    if cached:
        assert await ledger.session_of(ALICE, "hers") is not None
        assert await ledger.session_of(ALICE, "hers") is not None
    so_far = len(reads("hers"))
    assert so_far == cached  # its caller's own look is read once
    owners = []
    for asked in ("hers", "gone", "hers", "gone"):
        assert await ledger.session_of(BOB, asked) is None
        owners.append(await ledger.session_owner(asked))
    assert owners == [ALICE, None] * 2
    assert reads("hers")[so_far:] == reads("gone") != []
