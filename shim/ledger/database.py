"""The file under the ledger: opened, brought to the newest schema, read and written."""

import contextlib
import os
import sqlite3
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar

import aiosqlite

from shim.ledger.payloads import Payloads
from shim.ledger.protocol import LedgerError
from shim.ledger.wipe import settle
from shim.ledger.writer import Results, Row, Statement, Values, Writer

T = TypeVar("T")

_BUSY_MS = 5_000
_WAL_KEPT_BYTES = 64 * 1024 * 1024


class Database:
    """One connection that writes and one that reads beside it; SQLite's errors come out as LedgerError."""

    def __init__(
        self, path: Path, *, synchronous: str, in_file: bool,
        on_batch: Callable[[int], None] | None, on_failure: Callable[[], None] | None,
    ) -> None:  # fmt: skip
        self.path = path
        self._in_file = in_file
        self._synchronous = synchronous
        self._on_batch = on_batch
        self._on_failure = on_failure
        self._stack = contextlib.AsyncExitStack()

    async def open(self) -> None:
        """Open the file, made with mode 0600 if there is none, and migrate it. Raises LedgerError."""
        try:
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600))
            writing = await self._connect()
            await _migrate(writing)
            await settle(writing, in_file=self._in_file)
            self._reads = await self._connect()
        except (OSError, sqlite3.Error, LedgerError) as exc:
            await self._stack.aclose()
            raise LedgerError(f"{self.path}: {_with_mend(exc)}") from exc
        self._writer = Writer(writing, self._on_batch)
        self._stack.push_async_callback(self._writer.close)

    async def close(self) -> None:
        """Commit what waits and close."""
        await self._stack.aclose()

    async def write(self, *statements: Statement, then: Callable[[Results], T]) -> T:
        """Run statements as one operation; give what `then` makes of their rows once they are committed."""
        try:
            taken = [(sql, _bindable(values)) for sql, values in statements]
            return await self._writer.write(*taken, then=then)
        except (sqlite3.Error, OverflowError) as exc:  # OverflowError: an integer over 64 bits
            raise self._failure(exc) from exc

    async def run(self, *statements: Statement) -> None:
        """Run statements as one operation."""
        await self.write(*statements, then=lambda _: None)

    async def read(self, sql: str, *values: Any) -> list[Row]:
        """Give the rows of a query."""
        try:
            return [tuple(row) for row in await self._reads.execute_fetchall(sql, _bindable(values))]
        except (sqlite3.Error, OverflowError, ValueError) as exc:  # ValueError: the connection is closed
            raise self._failure(exc) from exc

    def _failure(self, exc: Exception) -> LedgerError:
        """Count what could not be done, and say why."""
        if self._on_failure is not None:
            self._on_failure()
        return LedgerError(f"{self.path}: {exc}")

    async def _connect(self) -> aiosqlite.Connection:
        db = await aiosqlite.connect(self.path, isolation_level=None, cached_statements=256)
        self._stack.push_async_callback(db.close)
        for pragma in (
            "journal_mode = WAL",
            f"synchronous = {self._synchronous}",
            f"busy_timeout = {_BUSY_MS}",
            f"journal_size_limit = {_WAL_KEPT_BYTES}",
        ):
            await db.execute(f"PRAGMA {pragma}")
        return db


def _bindable(values: Values) -> Values:
    """Give values that SQLite takes: JSON allows a lone surrogate in a name or an id, SQLite does not."""
    if isinstance(values, Mapping):
        return {name: _text(value) for name, value in values.items()}
    return [_text(value) for value in values]


def _text(value: Any) -> Any:
    if not isinstance(value, str) or value.isascii():
        return value
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Part:
    """A part of the ledger; the parts share the database, and where payloads are kept."""

    def __init__(self, db: Database, payloads: Payloads) -> None:
        self._db = db
        self._payloads = payloads


def _with_mend(exc: Exception) -> str:
    """Say what is wrong with a file, and what to do where it is no ledger or damaged."""
    if isinstance(exc, sqlite3.DatabaseError) and not isinstance(exc, sqlite3.OperationalError):
        return f"{exc}: put a copy in its place, or move it away with its -wal and -shm to begin without it"
    return getattr(exc, "strerror", None) or str(exc)


async def _migrate(db: aiosqlite.Connection) -> None:
    """Bring the file to the newest schema, one numbered script after the other."""
    [[version]] = await db.execute_fetchall("PRAGMA user_version")
    folder = resources.files("shim.ledger").joinpath("migrations")
    scripts = {
        int(one.name.removesuffix(".sql")): one for one in folder.iterdir() if one.name.endswith(".sql")
    }
    if version > max(scripts):
        raise LedgerError(f"schema {version} is of a newer taskshim; this one knows {max(scripts)}")
    for number in sorted(scripts):
        if number > version:
            sql = scripts[number].read_text("utf-8")
            await db.executescript(f"BEGIN;\n{sql}\nPRAGMA user_version = {number};\nCOMMIT;")
