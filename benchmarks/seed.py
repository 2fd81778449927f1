"""Fills a ledger with copies of the one finished task it holds: whatever its columns, the rows fit."""

import sqlite3
from pathlib import Path

OWN_COLUMNS = {"pk", "task_id", "upstream_task_id"}
SIZES = (1_000, 1_000_000)


def fill(ledger: Path, rows: int) -> None:
    """Bring the ledger to `rows` tasks of one caller. The shim must not be running."""
    with sqlite3.connect(ledger) as database:
        columns = [name for (_, name, *_) in database.execute("PRAGMA table_info(task)")]
        copied = ", ".join(name for name in columns if name not in OWN_COLUMNS)
        database.execute(
            f"""
            INSERT INTO task (task_id, upstream_task_id, {copied})
            WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
            SELECT lower(hex(randomblob(16))), lower(hex(randomblob(16))), {copied}
            FROM n, (SELECT * FROM task ORDER BY pk LIMIT 1)
            """,
            (rows,),
        )
    database.close()
