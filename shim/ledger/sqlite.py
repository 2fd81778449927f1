"""The ledger in one SQLite file: write-ahead log, strict tables, one writer, reads beside it."""

import os
import sqlite3
from collections.abc import Callable, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import aiosqlite
from msgspec.structs import replace

from shim.clock import Clock
from shim.hub.status import TERMINAL, Status
from shim.ledger import rows
from shim.ledger.cache import RowCache
from shim.ledger.inputs import Inputs
from shim.ledger.lock import FileLock
from shim.ledger.protocol import IdCollision
from shim.ledger.purge import purge
from shim.ledger.records import IdemRow, Lookup, NewTask, Observed, Purged, SessionRow, Stats, TaskRow
from shim.ledger.writer import Row, Writer

_OBSERVE = f"""
UPDATE task SET
    status = :status, status_message = :message, last_updated_at = coalesce(:updated, last_updated_at),
    ttl_ms = :ttl, max_ttl_ms = CASE WHEN :ttl IS NULL THEN NULL ELSE max(coalesce(max_ttl_ms, :ttl), :ttl) END,
    poll_interval_ms = :poll, result = :result, error = :error, ended_ms = :ended
WHERE pk = :pk AND ended_ms IS NULL
RETURNING {rows.TASK}
"""  # noqa: S608 - column names of our own
_SESSIONS_REMEMBERED = 20_000


class SqliteLedger(Inputs):
    """Implements `Ledger` on SQLite."""

    def __init__(
        self,
        path: Path,
        clock: Clock,
        *,
        synchronous: str = "full",
        lock_wait_ms: int = 10_000,
        cache_rows: int = 20_000,
        on_batch: Callable[[int], None] | None = None,
    ) -> None:
        self._path = path
        self._clock = clock
        self._synchronous = synchronous
        self._lock_wait_ms = lock_wait_ms
        self._on_batch = on_batch
        self._lock = FileLock(path.with_name(path.name + ".lock"), clock)
        self._cache = RowCache(cache_rows)
        self._sessions: dict[str, SessionRow] = {}
        self._touched: dict[int, int] = {}
        self._sessions_used: dict[str, int] = {}
        self._open_by_caller: dict[str, int] = {}

    async def open(self) -> None:
        """Lock, migrate and open. Raises LedgerLocked."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        await self._lock.take(self._lock_wait_ms)
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        self._db = await self._connect()
        await _migrate(self._db)
        self._reads = await self._connect()
        self._writer = Writer(self._db, self._on_batch)

    async def close(self) -> None:
        """Write what is pending and close."""
        await self._write_touches()
        await self._writer.close()
        await self._reads.close()
        await self._db.close()
        self._lock.release()

    async def next_epoch(self) -> int:
        """Give a number that no earlier run had."""
        [[row]] = await self._writer.write(("INSERT INTO epoch DEFAULT VALUES RETURNING n", ()))
        return int(row[0])

    # -- tasks ---------------------------------------------------------------------------------

    async def create_task(self, new: NewTask) -> TaskRow:
        """Write a task down. Raises IdCollision."""
        row = TaskRow(
            **{name: getattr(new, name) for name in new.__struct_fields__},
            pk=0, max_ttl_ms=new.ttl_ms, touched_ms=new.first_seen_ms,
        )  # fmt: skip
        columns = rows.TASK.removeprefix("pk, ")
        values = [_stored(getattr(row, name)) for name in columns.split(", ")]
        sql = f"INSERT INTO task ({columns}) VALUES ({rows.places(columns)}) RETURNING pk"  # noqa: S608
        try:
            [[made]] = await self._writer.write((sql, values))
        except sqlite3.IntegrityError as exc:
            raise IdCollision(new.task_id) from exc
        if new.caller in self._open_by_caller:
            self._open_by_caller[new.caller] += 1
        return self._cache.put(replace(row, pk=made[0]))

    async def lookup(self, caller: str, task_id: str) -> Lookup:
        """Give a caller's task: the one accessor for requests (OWN-CHECK)."""
        row = self._cache.by_id(task_id)
        if row is None:
            found = await self._read(f"SELECT {rows.TASK} FROM task WHERE task_id = ?", task_id)  # noqa: S608
            if not found:
                return Lookup(None, "unknown_task")
            row = self._keep(rows.task(found[0]))
        return Lookup(row) if row.caller == caller else Lookup(None, "not_owner")

    async def own_task(self, pk: int) -> TaskRow:
        """Give a task for the shim's own work on it. Raises KeyError."""
        row = self._cache.by_key(pk)
        if row is None:
            found = await self._read(f"SELECT {rows.TASK} FROM task WHERE pk = ?", pk)  # noqa: S608
            if not found:
                raise KeyError(pk)
            row = self._keep(rows.task(found[0]))
        return row

    async def observe(
        self, pk: int, *, status: Status, status_message: str | None, last_updated_at: str | None,
        ttl_ms: int | None, poll_interval_ms: int | None, now_ms: int,
        result: bytes | None = None, error: bytes | None = None,
    ) -> Observed:  # fmt: skip
        """Take an observation in one conditional statement: a final state never changes."""
        values = {
            "pk": pk, "status": status.value, "message": status_message, "updated": last_updated_at,
            "ttl": ttl_ms, "poll": poll_interval_ms, "result": result, "error": error,
            "ended": now_ms if status in TERMINAL else None,
        }  # fmt: skip
        [changed] = await self._writer.write((_OBSERVE, values))
        if not changed:
            row = await self.own_task(pk)
            return Observed(row, illegal=row.status is not status)
        row = self._cache.put(rows.task(changed[0]))
        if row.status in TERMINAL and row.caller in self._open_by_caller:
            self._open_by_caller[row.caller] -= 1
        return Observed(row, illegal=False)

    async def expire(self, pk: int, now_ms: int) -> None:
        """Turn a task into a tombstone (DUR-4)."""
        await self._change(
            "status = CASE WHEN ended_ms IS NULL THEN 'failed' ELSE status END, purged = 1, "
            "result = NULL, error = NULL, ended_ms = coalesce(ended_ms, ?)",
            (now_ms,), pk,
        )  # fmt: skip
        self._open_by_caller.clear()

    async def mark_cancel(self, pk: int) -> None:
        """Note that its owner asked to cancel it."""
        await self._change("cancel_requested = 1", (), pk)

    async def set_session(self, pk: int, session_id: str) -> None:
        """Note that the task is served by another upstream session now."""
        await self._change("session_id = ?", (session_id,), pk)

    async def set_result_request(self, pk: int, request_id: bytes | None) -> None:
        """Note which tasks/result is open upstream."""
        await self._change("result_request_id = ?", (request_id,), pk)

    def touch(self, pk: int, now_ms: int) -> None:
        """Note that a client asked for the task."""
        self._touched[pk] = now_ms

    async def list_tasks(
        self, caller: str, *, after: int | None, limit: int, client_session: str | None = None
    ) -> list[TaskRow]:
        """Give a caller's tasks, newest first, from below the key `after`."""
        where, values = "caller = ?", [caller]
        if client_session is not None:
            where, values = f"{where} AND client_session = ?", [caller, client_session]
        bound: list[Any] = [*values, after if after is not None else 2**62, limit]
        found = await self._read(
            f"SELECT {rows.TASK} FROM task WHERE {where} AND pk < ? AND purged = 0 "  # noqa: S608
            "ORDER BY pk DESC LIMIT ?",
            *bound,
        )
        return [rows.task(row) for row in found]

    async def open_tasks(
        self, *, upstream: str | None = None, session_id: str | None = None, limit: int
    ) -> list[TaskRow]:
        """Give tasks that have not ended, for the shim's own work."""
        where, values = ["ended_ms IS NULL"], []
        for column, value in (("upstream", upstream), ("session_id", session_id)):
            if value is not None:
                where.append(f"{column} = ?")
                values.append(value)
        found = await self._read(
            f"SELECT {rows.TASK} FROM task WHERE {' AND '.join(where)} ORDER BY pk LIMIT ?",  # noqa: S608
            *values, limit,
        )  # fmt: skip
        return [rows.task(row) for row in found]

    async def open_count_by_caller(self, caller: str) -> int:
        """Count a caller's open tasks."""
        if caller not in self._open_by_caller:
            [row] = await self._read(
                "SELECT count(*) FROM task WHERE caller = ? AND ended_ms IS NULL", caller
            )
            if len(self._open_by_caller) > _SESSIONS_REMEMBERED:
                self._open_by_caller.clear()
            self._open_by_caller[caller] = row[0]
        return self._open_by_caller[caller]

    # -- sessions ------------------------------------------------------------------------------

    async def add_session(self, row: SessionRow) -> None:
        """Write a session down; one with the same id is replaced only for the same caller."""
        values = [_stored(getattr(row, name)) for name in rows.SESSION.split(", ")]
        await self._writer.write(
            (
                f"INSERT INTO session ({rows.SESSION}) VALUES ({rows.places(rows.SESSION)}) "  # noqa: S608
                "ON CONFLICT (session_id) DO UPDATE SET closed = excluded.closed, used_ms = excluded.used_ms, "
                "init = excluded.init WHERE caller = excluded.caller",
                values,
            )
        )
        self._sessions.pop(row.session_id, None)

    async def session(self, session_id: str) -> SessionRow | None:
        """Give a session for the shim's own work."""
        known = self._sessions.get(session_id)
        if known is None:
            found = await self._read(
                f"SELECT {rows.SESSION} FROM session WHERE session_id = ?",
                session_id,  # noqa: S608
            )
            if not found:
                return None
            known = rows.session(found[0])
            if len(self._sessions) > _SESSIONS_REMEMBERED:
                self._sessions.clear()
            self._sessions[session_id] = known
        return known

    async def session_of(self, caller: str, session_id: str) -> SessionRow | None:
        """Give a caller's session."""
        row = await self.session(session_id)
        return row if row is not None and row.caller == caller else None

    async def sessions(self, caller: str, upstream: str, side: str) -> list[SessionRow]:
        """Give a caller's open sessions."""
        found = await self._read(
            f"SELECT {rows.SESSION} FROM session WHERE caller = ? AND upstream = ? AND side = ? "  # noqa: S608
            "AND closed = 0",
            caller, upstream, side,
        )  # fmt: skip
        return [rows.session(row) for row in found]

    def touch_session(self, session_id: str, now_ms: int) -> None:
        """Note that a session is used."""
        self._sessions_used[session_id] = now_ms

    async def set_session_dialect(self, session_id: str, dialect: str) -> None:
        """Note the dialect a session's client speaks."""
        await self._writer.write(
            ("UPDATE session SET dialect = ? WHERE session_id = ?", (dialect, session_id))
        )
        self._sessions.pop(session_id, None)

    async def close_session(self, session_id: str) -> None:
        """Note that a session has ended."""
        await self._writer.write(("UPDATE session SET closed = 1 WHERE session_id = ?", (session_id,)))
        self._sessions.pop(session_id, None)

    # -- keyed calls ---------------------------------------------------------------------------

    async def idem_begin(self, row: IdemRow) -> IdemRow | None:
        """Claim a key: None if this call has it now, else the row of the one that does."""
        values = [_stored(getattr(row, name)) for name in rows.KEYED.split(", ")]
        [claimed] = await self._writer.write(
            (
                f"INSERT INTO keyed ({rows.KEYED}) VALUES ({rows.places(rows.KEYED)}) "  # noqa: S608
                "ON CONFLICT DO NOTHING RETURNING key",
                values,
            )
        )
        return None if claimed else await self.idem_get(row.caller, row.key)

    async def idem_get(self, caller: str, key: str) -> IdemRow | None:
        """Give a key's row."""
        found = await self._read(
            f"SELECT {rows.KEYED} FROM keyed WHERE caller = ? AND key = ?",
            caller,
            key,  # noqa: S608
        )
        return rows.keyed(found[0]) if found else None

    async def idem_finish(self, caller: str, key: str, *, answer: bytes | None, is_error: bool) -> None:
        """Write a keyed call's answer down."""
        await self._writer.write(
            (
                "UPDATE keyed SET state = 'done', answer = ?, is_error = ? WHERE caller = ? AND key = ?",
                (answer, is_error, caller, key),
            )
        )

    # -- time, numbers -------------------------------------------------------------------------

    async def purge(
        self, now_ms: int, *, retention_ms: int, tombstone_ms: int, max_age_ms: int,
        idempotency_ms: int, session_ms: int, limit: int,
    ) -> Purged:  # fmt: skip
        """Take what is over its time; write the touches."""
        await self._write_touches()
        gone = await purge(
            self._writer, now_ms, retention_ms=retention_ms, tombstone_ms=tombstone_ms, max_age_ms=max_age_ms,
            idempotency_ms=idempotency_ms, session_ms=session_ms, limit=limit,
        )  # fmt: skip
        for pk in gone.changed:
            self._cache.drop(pk)
        if gone.changed:
            self._open_by_caller.clear()
        self._sessions.clear()
        return gone.purged

    async def stats(self) -> Stats:
        """Count."""
        tasks: dict[str, dict[str, int]] = {}
        for upstream, status, count in await self._read(
            "SELECT upstream, status, count(*) FROM task WHERE purged = 0 GROUP BY 1, 2"
        ):
            tasks.setdefault(upstream, {})[status] = count
        [[sessions]] = await self._read("SELECT count(*) FROM session WHERE closed = 0")
        [[oldest]] = await self._read("SELECT min(first_seen_ms) FROM task WHERE ended_ms IS NULL")
        return Stats(tasks, sessions, oldest)

    async def _connect(self) -> aiosqlite.Connection:
        db = await aiosqlite.connect(self._path, isolation_level=None, cached_statements=256)
        await db.execute("PRAGMA journal_mode = WAL")
        await db.execute(f"PRAGMA synchronous = {self._synchronous}")
        await db.execute("PRAGMA busy_timeout = 5000")
        return db

    async def _read(self, sql: str, *values: Any) -> list[Row]:
        return [tuple(row) for row in await self._reads.execute_fetchall(sql, values)]

    def _keep(self, row: TaskRow) -> TaskRow:
        """Cache a row that was read, unless a write has put a newer one there meanwhile."""
        return self._cache.by_key(row.pk) or self._cache.put(row)

    async def _change(self, assignments: str, values: Sequence[Any], pk: int) -> None:
        [changed] = await self._writer.write(
            (
                f"UPDATE task SET {assignments} WHERE pk = ? RETURNING {rows.TASK}",  # noqa: S608
                (*values, pk),
            )
        )
        if changed:
            self._cache.put(rows.task(changed[0]))

    async def _write_touches(self) -> None:
        touched, self._touched = self._touched, {}
        used, self._sessions_used = self._sessions_used, {}
        statements = [
            *(("UPDATE task SET touched_ms = ? WHERE pk = ?", (at, pk)) for pk, at in touched.items()),
            *(("UPDATE session SET used_ms = ? WHERE session_id = ?", (at, sid)) for sid, at in used.items()),
        ]
        if statements:
            await self._writer.write(*statements)
        for pk in touched:
            self._cache.drop(pk)
        for session_id in used:
            self._sessions.pop(session_id, None)


async def _migrate(db: aiosqlite.Connection) -> None:
    """Bring the file to the newest schema, one numbered script after the other."""
    [[version]] = await db.execute_fetchall("PRAGMA user_version")
    folder = resources.files("shim.ledger").joinpath("migrations")
    for script in sorted(folder.iterdir(), key=lambda one: one.name):
        number = int(script.name.removesuffix(".sql"))
        if number > version:
            sql = script.read_text("utf-8")
            await db.executescript(f"BEGIN;\n{sql}\nPRAGMA user_version = {number};\nCOMMIT;")


def _stored(value: Any) -> Any:
    if isinstance(value, frozenset):
        return rows.kinds_text(value)
    return value.value if isinstance(value, Status) else value
