"""The operator's look into a ledger's file: read-only, without its lock, beside a shim that runs.

Requests never come this way: what a client may see goes through `Ledger.lookup`, which takes the caller.
"""

import contextlib
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from shim.hub.status import TERMINAL
from shim.ledger import rows
from shim.ledger.payloads import Payloads
from shim.ledger.records import InputRow, TaskRow

_BUSY_S = 5


class LedgerFileError(Exception):
    """The file cannot be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which tasks are wanted; None is any."""

    status: str | None = None
    upstream: str | None = None
    caller: str | None = None
    """The beginning of a caller's hash."""
    open_only: bool = False


class LedgerFile:
    """A ledger that is open for reading."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def tasks(self, wanted: Filter, limit: int) -> tuple[list[TaskRow], int]:
        """Give tasks without their payloads, newest first, and how many there are in all."""
        where, values = _where(wanted)
        [[count]] = self._read(f"SELECT count(*) FROM task WHERE {where}", values)  # noqa: S608 - our own text
        found = self._read(
            f"SELECT {rows.LISTED} FROM task WHERE {where} ORDER BY pk DESC LIMIT ?",  # noqa: S608 - our own text
            [*values, limit],
        )
        return [rows.task(row) for row in found], count

    def task(self, task_id: str) -> TaskRow | None:
        """Give a task by the id its client knows, or by the upstream's."""
        found = self._read(
            f"SELECT {rows.TASK} FROM task WHERE task_id = ? OR upstream_task_id = ? "  # noqa: S608 - our own text
            "ORDER BY task_id = ? DESC LIMIT 1",
            [task_id, task_id, task_id],
        )
        return rows.task(found[0]) if found else None

    def questions(self, pk: int) -> list[InputRow]:
        """Give everything a task has asked."""
        columns = ", ".join(rows.INPUT)
        found = self._read(f"SELECT {columns} FROM input WHERE task_pk = ? ORDER BY n", [pk])  # noqa: S608 - our own text
        return [Payloads().question(rows.question(row)) for row in found]

    def may_hold_payloads(self) -> bool:
        """Tell whether what tasks carry is, or was lately, in the file."""
        [[in_file]] = self._read("SELECT in_file FROM payloads", ())
        return bool(in_file)

    def _read(self, sql: str, values: Sequence[Any]) -> list[Any]:
        try:
            return self._db.execute(sql, values).fetchall()
        except sqlite3.Error as exc:
            raise LedgerFileError(str(exc)) from exc


@contextlib.contextmanager
def reading(path: Path) -> Iterator[LedgerFile]:
    """Open a ledger for reading. Raises LedgerFileError."""
    check(path)
    db = _open(path)
    try:
        yield LedgerFile(db)
    except LedgerFileError as exc:
        raise LedgerFileError(f"{path}: {exc}") from exc
    finally:
        db.close()


def check(path: Path) -> None:
    """See that a file is a ledger of this version; makes none. Raises LedgerFileError."""
    if not path.is_file():
        raise LedgerFileError(f"{path}: there is no ledger; name it with --ledger or --config")
    db = _open(path)
    try:
        [[version]] = db.execute("PRAGMA user_version").fetchall()
    except sqlite3.Error as exc:
        raise LedgerFileError(f"{path}: {exc}") from exc
    finally:
        db.close()
    newest = _newest_schema()
    if version != newest:
        mend = "`serve` brings it there" if version < newest else "use the taskshim that wrote it"
        raise LedgerFileError(f"{path}: has schema {version}, this version reads {newest}; {mend}")


def _newest_schema() -> int:
    scripts = resources.files("shim.ledger").joinpath("migrations").iterdir()
    return max(int(script.name.removesuffix(".sql")) for script in scripts)


def _open(path: Path) -> sqlite3.Connection:
    try:
        return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_S)
    except sqlite3.Error as exc:
        raise LedgerFileError(f"{path}: {exc}") from exc


def _where(wanted: Filter) -> tuple[str, list[Any]]:
    terms: list[str] = ["1"]
    values: list[Any] = []
    for column, value in (("status", wanted.status), ("upstream", wanted.upstream)):
        if value is not None:
            terms.append(f"{column} = ?")
            values.append(value)
    if wanted.caller is not None:
        terms.append("substr(caller, 1, ?) = ?")
        values += [len(wanted.caller), wanted.caller]
    if wanted.open_only:
        terms.append(f"status NOT IN ({', '.join('?' * len(TERMINAL))})")
        values += sorted(TERMINAL)
    return " AND ".join(terms), values
