"""Every field of a record has its column, and the other way round."""

from pathlib import Path

import pytest

from shim.ledger import rows
from shim.ledger.records import TaskRow
from tests.ledger.support import ledger_at, on_disk

_ONLY_ON_DISK = {"task": {"purged_ms"}, "input": {"n"}}
_ONLY_IN_MEMORY = {"task": {"purged"}}


@pytest.mark.parametrize(
    ("table", "fields"),
    [
        ("task", TaskRow.__struct_fields__),
        ("session", rows.SESSION),
        ("input", rows.INPUT),
        ("keyed", rows.KEYED),
    ],
)
async def test_records_and_columns(path: Path, table: str, fields: tuple[str, ...]) -> None:
    ledger = ledger_at(path)
    await ledger.open()
    await ledger.close()
    columns = {name for (name,) in on_disk(path, "SELECT name FROM pragma_table_info(?)", table)}
    assert columns - set(fields) == _ONLY_ON_DISK.get(table, set())
    assert set(fields) - columns == _ONLY_IN_MEMORY.get(table, set())
