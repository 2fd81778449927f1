import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from shim.ledger.protocol import NOBODY
from shim.ledger.sqlite import SqliteLedger
from tests.ledger.support import ALICE, BOB, ledger_at, new_call, on_disk, purge_at


@pytest.mark.rule("DUR-3")
async def test_one_of_many_calls_has_the_key(ledger: SqliteLedger, path: Path) -> None:
    calls = [new_call("k", body_hash=str(n)) for n in range(5)]
    began = await asyncio.gather(*(ledger.idem_begin(call) for call in calls))
    assert began == [None, *[calls[0]] * 4]
    assert on_disk(path, "SELECT state, body_hash FROM keyed") == [("pending", "0")]


@pytest.mark.rule("DUR-3", "OWN-CHECK")
async def test_a_key_is_its_callers(ledger: SqliteLedger) -> None:
    mine, hers = new_call("k"), new_call("k", caller=BOB)
    assert await ledger.idem_begin(mine) is None
    assert await ledger.idem_begin(hers) is None
    assert await ledger.idem_get(ALICE, "k") == mine
    assert await ledger.idem_get(BOB, "k") == hers
    assert await ledger.idem_get(BOB, "l") is None


@pytest.mark.rule("DUR-3")
@pytest.mark.parametrize(("answer", "is_error"), [(b'{"content":[]}', False), (b'{"code":-32603}', True)])
async def test_an_answer_is_there_after_a_restart(path: Path, answer: bytes, *, is_error: bool) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    await ledger.idem_begin(new_call("k"))
    await ledger.idem_begin(new_call("died"))
    await ledger.idem_finish(ALICE, "k", answer=answer, is_error=is_error, dialect="experimental")
    await ledger.close()

    again = ledger_at(path)
    await again.open()
    done = replace(new_call("k"), state="done", answer=answer, is_error=is_error, dialect="experimental")
    assert await again.idem_begin(new_call("k", instance="i-2", body_hash="other")) == done
    assert await again.idem_begin(new_call("died", instance="i-2")) == new_call("died")
    await again.close()


@pytest.mark.rule("OWN-NONE")
async def test_nobody_has_no_keys(ledger: SqliteLedger, path: Path) -> None:
    with pytest.raises(ValueError, match="nobody"):
        await ledger.idem_begin(new_call("k", caller=NOBODY))
    assert on_disk(path, "SELECT count(*) FROM keyed") == [(0,)]


@pytest.mark.rule("DUR-3")
async def test_a_key_is_free_again_after_its_window(
    ledger: SqliteLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new = new_call("k", created_ms=1_000), new_call("k", created_ms=21_000, body_hash="other")
    await ledger.idem_begin(old)
    await purge_at(ledger, 20_999)
    assert await ledger.idem_begin(new) == old

    get = ledger.idem_get

    async def swept_meanwhile(caller: str, key: str) -> object:
        await purge_at(ledger, 21_000)
        return await get(caller, key)

    monkeypatch.setattr(ledger, "idem_get", swept_meanwhile)
    assert await ledger.idem_begin(new) is None


@pytest.mark.rule("DUR-3")
async def test_a_key_whose_call_never_ran_is_free_and_one_that_was_answered_is_not(
    ledger: SqliteLedger,
) -> None:
    await ledger.idem_begin(new_call("k"))
    await ledger.idem_release(ALICE, "k")
    assert await ledger.idem_begin(new_call("k", body_hash="other")) is None
    await ledger.idem_finish(ALICE, "k", answer=b"{}", is_error=False, dialect="")
    await ledger.idem_release(ALICE, "k")
    assert (await ledger.idem_get(ALICE, "k")) is not None
