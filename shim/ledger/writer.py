"""One writer with group commit: writes that arrive while a commit runs share the next one.

Theory of operation. Everyone puts an operation (statements that belong together) into a list and waits.
The writer takes the whole list, runs it in one transaction and commits once; then it tells each. The
statements of a batch are handed to SQLite's thread in order without waiting for each, so that a batch
costs about one change of thread. An operation that fails is undone alone.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aiosqlite

Row = tuple[Any, ...]
Values = Sequence[Any] | Mapping[str, Any]
Statement = tuple[str, Values]


@dataclass(slots=True)
class _Operation:
    statements: Sequence[Statement]
    done: asyncio.Future[list[list[Row]]]


class Writer:
    """Owns the writing connection. `on_batch` hears how many operations each commit carried."""

    def __init__(self, db: aiosqlite.Connection, on_batch: Callable[[int], None] | None = None) -> None:
        self._db = db
        self._on_batch = on_batch
        self._waiting: list[_Operation] = []
        self._wake = asyncio.Event()
        self._closing = False
        self._task = asyncio.create_task(self._run(), name="ledger-writer")

    async def write(self, *statements: Statement) -> list[list[Row]]:
        """Run statements as one operation; give each one's rows once they are committed.

        Raises what SQLite says of this operation, sqlite3.IntegrityError among it.
        """
        operation = _Operation(statements, asyncio.get_running_loop().create_future())
        self._waiting.append(operation)
        self._wake.set()
        return await operation.done

    async def close(self) -> None:
        """Commit what waits and stop."""
        self._closing = True
        self._wake.set()
        await self._task

    async def _run(self) -> None:
        while not (self._closing and not self._waiting):
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch, self._waiting = self._waiting, []
                await self._commit(batch)

    async def _commit(self, batch: list[_Operation]) -> None:
        try:
            results = await self._transaction(batch)
        except Exception as exc:  # noqa: BLE001 - the disk is full, say: everyone who waits is told
            for operation in batch:
                _settle(operation, exc)
            return
        for operation, result in zip(batch, results, strict=True):
            _settle(operation, result)
        if self._on_batch is not None:
            self._on_batch(len(batch))

    async def _transaction(self, batch: list[_Operation]) -> list[list[list[Row]] | BaseException]:
        begun = asyncio.ensure_future(self._db.execute("BEGIN IMMEDIATE"))
        running = [
            [asyncio.ensure_future(self._one(sql, values)) for sql, values in operation.statements]
            for operation in batch
        ]
        outcomes = [await asyncio.gather(*tasks, return_exceptions=True) for tasks in running]
        await begun
        if any(_half_done(outcome) for outcome in outcomes):
            # an operation of several statements broke halfway: everything again, one by one
            await self._db.execute("ROLLBACK")
            return [await self._alone(operation) for operation in batch]
        await self._db.execute("COMMIT")
        return [_outcome(outcome) for outcome in outcomes]

    async def _alone(self, operation: _Operation) -> list[list[Row]] | BaseException:
        await self._db.execute("BEGIN IMMEDIATE")
        try:
            rows = [await self._one(sql, values) for sql, values in operation.statements]
        except Exception as exc:  # noqa: BLE001 - told to the one who wrote
            await self._db.execute("ROLLBACK")
            return exc
        await self._db.execute("COMMIT")
        return rows

    async def _one(self, sql: str, values: Values) -> list[Row]:
        return [tuple(row) for row in await self._db.execute_fetchall(sql, values)]


def _half_done(outcome: list[list[Row] | BaseException]) -> bool:
    failed = [isinstance(one, BaseException) for one in outcome]
    return any(failed) and len(failed) > 1


def _outcome(outcome: list[list[Row] | BaseException]) -> list[list[Row]] | BaseException:
    rows: list[list[Row]] = []
    for one in outcome:
        if isinstance(one, BaseException):
            return one
        rows.append(one)
    return rows


def _settle(operation: _Operation, result: list[list[Row]] | BaseException) -> None:
    with contextlib.suppress(asyncio.InvalidStateError):  # the one who waited was cancelled
        if isinstance(result, BaseException):
            operation.done.set_exception(result)
        else:
            operation.done.set_result(result)
