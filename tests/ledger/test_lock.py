import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from shim.ledger.protocol import LedgerLocked
from tests.ledger.support import FakeClock, ledger_at

_HOLDER = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.rule("DUR-7")
async def test_a_second_process_waits_and_gives_up(path: Path) -> None:
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HOLDER, f"{path}.lock", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert await holder.stdout.readline() == b"held\n"
    clock = FakeClock()
    second = ledger_at(path, clock, lock_wait_ms=3_000)
    began_ms = clock.now_ms()
    with pytest.raises(LedgerLocked, match="another taskshim holds this ledger"):
        await second.open()
    assert clock.now_ms() - began_ms == 3_000
    assert [one.name for one in path.parent.iterdir()] == ["ledger.db.lock"]

    holder.kill()  # nothing is left behind that someone would have to clean up
    await holder.wait()
    await second.open()
    await second.close()


@pytest.mark.rule("DUR-7")
async def test_a_second_process_waits_and_takes_over(path: Path) -> None:
    class Closing(FakeClock):
        async def sleep_ms(self, duration_ms: float) -> None:
            await super().sleep_ms(duration_ms)
            if self.at_ms >= began_ms + 500:
                await first.close()

    first = ledger_at(path)
    await first.open()
    clock = Closing()
    began_ms = clock.at_ms
    second = ledger_at(path, clock, lock_wait_ms=3_000)
    await second.open()
    assert clock.at_ms == began_ms + 500
    assert await second.next_epoch() == 1
    await second.close()


@pytest.mark.rule("DUR-7")
async def test_without_a_wait_it_gives_up_at_once(path: Path) -> None:
    first = ledger_at(path)
    await first.open()
    with pytest.raises(LedgerLocked):
        await ledger_at(path, lock_wait_ms=0).open()
    await first.close()
