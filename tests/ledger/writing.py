"""Writes to a ledger until it is killed and says what was committed, one line each."""

import asyncio
import sys
from itertools import count
from pathlib import Path

from shim.clock import SystemClock
from shim.hub.status import Status
from shim.ledger.sqlite import SqliteLedger
from tests.ledger.support import new_input, new_task, see

_WRITERS = 16


def _say(what: str, which: str | int) -> None:
    sys.stdout.write(f"{what} {which}\n")
    sys.stdout.flush()


async def write(ledger: SqliteLedger, writer: int) -> None:
    """Create a task, ask, answer and end it, again and again."""
    for n in count():
        task_id = f"{writer}-{n}"
        pk = (await ledger.create_task(new_task(task_id))).pk
        _say("created", task_id)
        await ledger.add_input(new_input(pk, "k"))
        _say("asked", task_id)
        await ledger.answer_input(pk, "k", task_id.encode(), by="update")
        _say("answered", task_id)
        await see(ledger, pk, Status.COMPLETED, result=task_id.encode())
        _say("ended", task_id)


async def main(path: Path) -> None:
    """Open the ledger and write."""
    ledger = SqliteLedger(path, SystemClock())
    await ledger.open()
    _say("epoch", await ledger.next_epoch())
    await asyncio.gather(*(write(ledger, writer) for writer in range(_WRITERS)))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
