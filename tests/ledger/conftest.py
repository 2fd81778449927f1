from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shim.ledger.sqlite import SqliteLedger
from tests.ledger.support import ledger_at


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
async def ledger(path: Path) -> AsyncIterator[SqliteLedger]:
    ledger = ledger_at(path)
    await ledger.open()
    yield ledger
    await ledger.close()
