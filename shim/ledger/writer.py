"""One writer with group commit: writes that arrive while a commit runs share the next one.

Theory of operation. Everyone puts an operation (statements that belong together) into a list and waits.
The writer takes the whole list, runs it in one transaction and commits once; then it tells each, in order.
The statements of a batch are handed to SQLite's thread without waiting for each, so that a batch costs a
few changes of thread however many it carries. An operation that fails is undone alone. What an operation
changes in memory (`then`) happens here and not in the one who waits: that one may be gone by now, and the
memory must still say what the disk says.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import aiosqlite

from shim.ledger.protocol import LedgerError

Row = tuple[Any, ...]
Values = Sequence[Any] | Mapping[str, Any]
Statement = tuple[str, Values]
Results = list[list[Row]]
"""The rows of each statement of an operation."""

T = TypeVar("T")


@dataclass(slots=True)
class _Operation:
    statements: Sequence[Statement]
    then: Callable[[Results], Any]
    done: asyncio.Future[Any]

    def settle(self, outcome: Results | Exception) -> None:
        value: Any = outcome
        if not isinstance(outcome, Exception):
            try:
                value = self.then(outcome)
            except Exception as exc:  # noqa: BLE001 - told to the one who wrote
                value = exc
        if self.done.done():  # the one who waited was cancelled
            return
        if isinstance(value, Exception):
            self.done.set_exception(value)
        else:
            self.done.set_result(value)


class Writer:
    """Owns the writing connection. `on_batch` hears how many operations each commit carried."""

    def __init__(self, db: aiosqlite.Connection, on_batch: Callable[[int], None] | None = None) -> None:
        self._db = db
        self._on_batch = on_batch
        self._waiting: list[_Operation] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._run(), name="ledger-writer")

    async def write(self, *statements: Statement, then: Callable[[Results], T]) -> T:
        """Run statements as one operation; give what `then` makes of their rows once they are committed.

        Raises what SQLite says of this operation, or LedgerError once the writer is closed.
        """
        if self._closing:
            raise LedgerError("the ledger is closed")
        operation = _Operation(statements, then, asyncio.get_running_loop().create_future())
        self._waiting.append(operation)
        self._wake.set()
        return await operation.done  # type: ignore[no-any-return]

    async def close(self) -> None:
        """Commit what waits and stop."""
        self._closing = True
        self._wake.set()
        await self._task

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._commit(batch)
            if self._closing:
                return

    async def _commit(self, batch: Sequence[_Operation]) -> None:
        outcomes: Sequence[Results | Exception]
        try:
            outcomes = await self._transaction(batch)
        except Exception as exc:  # noqa: BLE001 - the disk is full, say: everyone who waits is told
            outcomes = [exc] * len(batch)
            with contextlib.suppress(sqlite3.Error):
                await self._db.rollback()
        for operation, outcome in zip(batch, outcomes, strict=True):
            operation.settle(outcome)
        if self._on_batch is not None:
            self._on_batch(len(batch))

    async def _transaction(self, batch: Sequence[_Operation]) -> Sequence[Results | Exception]:
        await self._db.execute("BEGIN IMMEDIATE")
        running = [
            asyncio.gather(*(self._one(*one) for one in operation.statements), return_exceptions=True)
            for operation in batch
        ]
        ended = [await one for one in running]
        outcomes = [_outcome(one) for one in ended]
        if any(
            isinstance(outcome, Exception) and len(one) > 1
            for outcome, one in zip(outcomes, ended, strict=True)
        ):
            # an operation of several statements broke halfway: everything again, each undone alone
            await self._db.rollback()
            await self._db.execute("BEGIN IMMEDIATE")
            outcomes = [await self._undoable(operation) for operation in batch]
        await self._db.execute("COMMIT")  # fails where SQLite gave the transaction up by itself
        return outcomes

    async def _undoable(self, operation: _Operation) -> Results | Exception:
        await self._db.execute("SAVEPOINT operation")
        try:
            results = [await self._one(*one) for one in operation.statements]
        except Exception as exc:  # noqa: BLE001 - a value that SQLite cannot take, too, breaks its own operation
            await self._db.execute("ROLLBACK TO operation")
            return exc
        await self._db.execute("RELEASE operation")
        return results

    async def _one(self, sql: str, values: Values) -> list[Row]:
        return [tuple(row) for row in await self._db.execute_fetchall(sql, values)]


def _outcome(ended: Sequence[list[Row] | BaseException]) -> Results | Exception:
    results: Results = []
    for one in ended:
        if isinstance(one, Exception):
            return one
        if isinstance(one, BaseException):
            raise one
        results.append(one)
    return results
