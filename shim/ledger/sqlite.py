"""The ledger in one SQLite file: write-ahead log, strict tables, one writer, reads beside it."""

import contextlib
from collections.abc import Callable
from pathlib import Path

from shim.clock import Clock
from shim.ledger import purge
from shim.ledger.asks import Asks
from shim.ledger.calls import Calls
from shim.ledger.database import Database
from shim.ledger.inputs import Inputs
from shim.ledger.keyed import Keyed
from shim.ledger.lock import FileLock
from shim.ledger.payloads import Payloads, of_call
from shim.ledger.protocol import LedgerError
from shim.ledger.records import Purged, Stats
from shim.ledger.sessions import Sessions
from shim.ledger.tasks import Tasks
from shim.ledger.writer import Results

_CACHE_BYTES = 64 * 1024 * 1024


class SqliteLedger(Tasks, Sessions, Inputs, Asks, Calls, Keyed):
    """Implements `Ledger` on SQLite."""

    def __init__(
        self, path: Path, clock: Clock, *,
        synchronous: str = "full", lock_wait_ms: int = 10_000,
        cache_rows: int = 20_000, cache_bytes: int = _CACHE_BYTES,
        on_batch: Callable[[int], None] | None = None, on_failure: Callable[[], None] | None = None,
        payloads: Payloads | None = None,
    ) -> None:  # fmt: skip
        """`on_batch` hears how many writes each commit carried, `on_failure` of each that failed.

        Caches are bounded in rows and payload. `payloads` says where what tasks carry is kept: in the file,
        if not given.
        """
        payloads = payloads or Payloads()
        db = Database(
            path, synchronous=synchronous, in_file=payloads.in_file, on_batch=on_batch, on_failure=on_failure
        )
        Tasks.__init__(self, db, payloads, cache_rows=cache_rows, cache_bytes=cache_bytes)
        Sessions.__init__(self, db, payloads, cache_rows=cache_rows)
        Inputs.__init__(self, db, payloads, cache_rows=cache_rows, cache_bytes=cache_bytes)
        self._lock = FileLock(path, clock)
        self._lock_wait_ms = lock_wait_ms

    async def open(self) -> None:
        """Lock, migrate and open. Raises LedgerLocked, LedgerError."""
        await self._lock.take(self._lock_wait_ms)
        try:
            await self._db.open()
        except LedgerError:
            self._lock.release()
            raise
        await self.load_counts()

    async def close(self) -> None:
        """Write what is pending and close."""
        try:
            with contextlib.suppress(LedgerError):  # only the times of last use are lost
                await self._write_uses()
            await self._db.close()
        finally:
            self._lock.release()

    async def next_epoch(self) -> int:
        """Give a number that no earlier run had."""
        sql = "INSERT INTO epoch DEFAULT VALUES RETURNING n"
        return await self._db.write((sql, ()), then=lambda results: int(results[0][0][0]))

    async def expire(self, pk: int, now_ms: int) -> None:
        """Turn a task into a tombstone (DUR-4)."""
        await super().expire(pk, now_ms)
        self.purged_inputs(pk)

    async def purge(
        self, now_ms: int, *, retention_ms: int, tombstone_ms: int, max_age_ms: int,
        idempotency_ms: int, session_ms: int, limit: int,
    ) -> Purged:  # fmt: skip
        """Take what is over its time; write the times of last use."""
        await self._write_uses()
        operation = purge.statements(
            now_ms, retention_ms=retention_ms, tombstone_ms=tombstone_ms, max_age_ms=max_age_ms,
            idempotency_ms=idempotency_ms, session_ms=session_ms, limit=limit,
        )  # fmt: skip
        return await self._db.write(*operation, then=self._forget)

    async def stats(self) -> Stats:
        """Count."""
        tasks: dict[str, dict[str, int]] = {}
        for upstream, status, count in await self._db.read(
            "SELECT upstream, status, count(*) FROM task WHERE purged_ms IS NULL GROUP BY 1, 2"
        ):
            tasks.setdefault(upstream, {})[status] = count
        [[sessions]] = await self._db.read("SELECT count(*) FROM session WHERE closed = 0")
        [[oldest]] = await self._db.read("SELECT min(first_seen_ms) FROM task WHERE ended_ms IS NULL")
        oldest_open = await self._db.read(
            "SELECT upstream, min(first_seen_ms) FROM task WHERE ended_ms IS NULL GROUP BY 1"
        )
        clients = await self._db.read(
            "SELECT upstream, count(*) FROM session WHERE closed = 0 AND side = 'client' GROUP BY 1"
        )
        return Stats(tasks, sessions, oldest, dict(oldest_open), dict(clients))

    async def _write_uses(self) -> None:
        await self.write_touches()
        await self.write_uses()

    def _forget(self, results: Results) -> Purged:
        gone = purge.gone(results)
        for pk in gone.purged.pks:
            self.forget(pk, gone.ended_callers.get(pk))
            self.purged_inputs(pk)
        for caller, key in gone.calls:
            self._payloads.drop(of_call(caller, key))
        self.forget_sessions(*gone.session_ids)
        return gone.purged
