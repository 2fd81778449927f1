from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shim.ledger.sqlite import SqliteLedger
from tests.ledger.support import ledger_at, made


@pytest.fixture(autouse=True)
async def closed() -> AsyncIterator[None]:
    """Close what a failed test left open; a thread of SQLite's would keep the whole run from ending."""
    yield
    while made:
        await made.pop().close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
async def ledger(path: Path) -> SqliteLedger:
    ledger = ledger_at(path)
    await ledger.open()
    return ledger
