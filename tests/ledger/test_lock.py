import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from shim.ledger import lock
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
    with capture_logs() as told, pytest.raises(LedgerLocked) as refused:
        await second.open()
    assert clock.now_ms() - began_ms == 3_000
    assert str(refused.value) == (
        f"{path}: another taskshim (process {holder.pid}) holds this ledger, also after ledger.lock_wait_ms "
        "(3 s); stop it, or set ledger.path to another file"
    )
    assert told == [
        {
            "event": "the ledger is held by another process: waiting for it", "log_level": "warning",
            "ledger": str(path), "holder": holder.pid, "wait": "3 s", "until": "1970-01-01T00:16:43+00:00",
        }
    ]  # fmt: skip
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
    with capture_logs() as told:
        await second.open()
    assert len(told) == 1
    assert clock.at_ms == began_ms + 500
    assert await second.next_epoch() == 1
    await second.close()


@pytest.mark.rule("DUR-7")
async def test_without_a_wait_it_gives_up_at_once(path: Path) -> None:
    first = ledger_at(path)
    await first.open()
    with capture_logs() as told, pytest.raises(LedgerLocked, match=r"holds this ledger; stop it"):
        await ledger_at(path, lock_wait_ms=0).open()
    assert told == []
    await first.close()


@pytest.mark.parametrize(
    "locks",
    [
        None,
        "",
        "nonsense\n",
        "1: FLOCK  ADVISORY  WRITE 0 {} 0 EOF\n",
        "1: POSIX  ADVISORY  WRITE 7 {} 0 EOF\n",
        "1: -> FLOCK  ADVISORY  WRITE 7 {} 0 EOF\n",
        "1: FLOCK  ADVISORY  WRITE 7 00:00:1 0 EOF\n",
    ],
    ids=["no such file", "empty", "nonsense", "hidden", "another kind", "one that waits", "another file"],
)
async def test_a_holder_that_cannot_be_known_is_not_named(
    path: Path, monkeypatch: pytest.MonkeyPatch, locks: str | None
) -> None:
    first = ledger_at(path)
    await first.open()
    told = path.with_name("locks")
    monkeypatch.setattr(lock, "_LOCKS", told)
    if locks is not None:
        stat = path.with_name(f"{path.name}.lock").stat()
        device = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}"
        told.write_text(locks.format(f"{device}:{stat.st_ino}"))
    with pytest.raises(LedgerLocked, match="another taskshim holds this ledger"):
        await ledger_at(path, lock_wait_ms=0).open()
    await first.close()
