"""What was said to be written is there after kill -9, whenever that comes."""

import subprocess
import sys
from pathlib import Path

import pytest

from shim.hub.status import Status
from shim.ledger.records import EVERY_STATE
from tests.ledger.support import ALICE, ledger_at

_ROOT = Path(__file__).parents[2]


def write_and_kill(path: Path, after_lines: int) -> list[list[str]]:
    """Let a process write, kill it after so many lines, and give all that it said in whole lines."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.ledger.writing", path], cwd=_ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(after_lines)]
        process.kill()
        lines += process.stdout.readlines()
    return [line.split() for line in lines if line.endswith("\n")]


@pytest.mark.rule("DUR-1", "DUR-2", "DUR-7")
@pytest.mark.parametrize("after_lines", [1, 2, 20, 90, 333, 999])
async def test_nothing_that_was_said_is_lost(path: Path, after_lines: int) -> None:
    said = write_and_kill(path, after_lines)
    assert len(said) >= after_lines
    ledger = ledger_at(path)
    await ledger.open()
    for what, name in said:
        if what == "epoch":
            assert await ledger.next_epoch() > int(name)
            continue
        row = (await ledger.lookup(ALICE, name)).row
        assert row is not None
        inputs = await ledger.inputs(row.pk, EVERY_STATE)
        assert len(inputs) == 1 or what == "created"
        if what in {"answered", "ended"}:
            assert inputs[0].response == name.encode()
        if what == "ended":
            assert (row.status, row.result) == (Status.COMPLETED, name.encode())
    await ledger.close()
