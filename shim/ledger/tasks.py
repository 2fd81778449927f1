"""The ledger's tasks: written once, read through the caller who owns them, ended once."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from msgspec.structs import asdict, replace

from shim.hub.status import TERMINAL, Status
from shim.ledger import rows
from shim.ledger.cache import Recent
from shim.ledger.database import Database, Part
from shim.ledger.payloads import Payloads, of_task
from shim.ledger.protocol import NOBODY, IdCollision
from shim.ledger.records import Lookup, NewTask, Observed, TaskRow
from shim.ledger.writer import Results, Row, Statement

_CREATE = rows.insert("task", rows.NEW_TASK) + " ON CONFLICT DO NOTHING RETURNING pk"

# the one place where a task's state changes: a row that has ended is not matched any more
_OBSERVE = f"""
UPDATE task SET
    status = :status, status_message = :message, last_updated_at = coalesce(:updated, last_updated_at),
    ttl_ms = :ttl, poll_interval_ms = :poll, result = :result, error = :error, tool_error = :tool_error,
    ended_ms = :ended,
    max_ttl_ms = CASE WHEN max_ttl_ms IS NULL OR :ttl IS NULL THEN NULL ELSE max(max_ttl_ms, :ttl) END
WHERE pk = :pk AND ended_ms IS NULL
RETURNING {rows.TASK}
"""  # noqa: S608 - column names of our own
_END = "UPDATE task SET status = 'failed', ended_ms = ? WHERE pk = ? AND ended_ms IS NULL RETURNING caller"

# each names its index where the planner has two to choose from, so that a page costs a page
_LIST = f"SELECT {rows.LISTED} FROM task WHERE purged_ms IS NULL AND caller = ? AND pk < ? "  # noqa: S608
_LIST_SESSION = (
    f"SELECT {rows.LISTED} FROM task INDEXED BY task_by_client_session "  # noqa: S608
    "WHERE purged_ms IS NULL AND caller = ? AND pk < ? AND client_session = ? "
)
_OPEN_OF = f"SELECT {rows.TASK} FROM task INDEXED BY task_open_of WHERE ended_ms IS NULL AND caller = ?"  # noqa: S608
_RENAMED = (
    f"SELECT {rows.TASK} FROM task INDEXED BY task_renamed "  # noqa: S608
    "WHERE upstream = ? AND upstream_task_id = ? AND task_id <> upstream_task_id"
)
_UNTOUCHED = (
    f"SELECT {rows.TASK} FROM task "  # noqa: S608
    "WHERE ended_ms IS NULL AND touched_ms <= ? AND abandoned < ? AND pk > ? ORDER BY pk LIMIT ?"
)
_OPEN_AMONG = "SELECT pk FROM task WHERE ended_ms IS NULL AND pk IN (SELECT value FROM json_each(?))"
_RESULTS = "SELECT pk, result FROM task WHERE result IS NOT NULL AND pk IN (SELECT value FROM json_each(?))"
_NEWEST_FIRST = "ORDER BY pk DESC LIMIT ?"
_ABOVE_ALL = 2**63 - 1

_TOUCH = (
    "UPDATE task SET touched_ms = touched.value, abandoned = 0 FROM json_each(?) AS touched "
    "WHERE task.pk = CAST(touched.key AS INTEGER) AND ended_ms IS NULL"
)


_SOUGHT = """
SELECT (SELECT pk FROM task WHERE task_id = ? AND caller = ?), EXISTS (SELECT 1 FROM task WHERE task_id = ?)
"""


class Tasks(Part):
    """The part of the SQLite ledger that keeps tasks."""

    def __init__(self, db: Database, payloads: Payloads, *, cache_rows: int, cache_bytes: int) -> None:
        Part.__init__(self, db, payloads)
        self._rows = Recent[int, TaskRow](cache_rows, most_weight=cache_bytes, weigh=_weigh)
        self._keys = Recent[tuple[str, str], int](cache_rows)
        self._touched: dict[int, int] = {}
        self._open_by_caller: Counter[str] = Counter()

    async def load_counts(self) -> None:
        """Count once; from then on the writes count."""
        found = await self._db.read(
            "SELECT caller, count(*) FROM task WHERE ended_ms IS NULL GROUP BY caller"
        )
        self._open_by_caller = Counter(dict(found))

    async def create_task(self, new: NewTask) -> TaskRow:
        """Write a task down. Raises IdCollision."""
        row = TaskRow(**asdict(new), pk=0, max_ttl_ms=new.ttl_ms, touched_ms=new.first_seen_ms)

        def keep(results: Results) -> TaskRow | None:
            [made] = results
            if not made:
                return None
            self._open_by_caller[new.caller] += 1
            pk = made[0][0]
            carried = {"status_message": new.status_message, "meta": new.meta}
            self._payloads.keep(of_task(pk), "only", carried)
            return self._keep(replace(row, pk=pk))

        bare = self._payloads.bare(row, "status_message", "meta")
        kept = await self._db.write((_CREATE, rows.stored(bare, rows.NEW_TASK)), then=keep)
        if kept is None:
            raise IdCollision(new.task_id)
        return kept

    async def lookup(self, caller: str, task_id: str) -> Lookup:
        """Give a caller's task: the one accessor for requests (OWN-CHECK).

        Only the caller's own tasks are remembered under its name, so that for a foreign one and for none the
        same is read, and the time it takes does not tell them apart.
        """
        exists = False

        async def read() -> int | None:
            nonlocal exists
            [[pk, exists]] = await self._db.read(_SOUGHT, task_id, caller, task_id)
            return None if pk is None else int(pk)

        key = caller, task_id
        pk = await self._keys.get_or_read(key, read)
        row = None if pk is None else await self._row(pk)
        if pk is not None and row is None:  # it has gone since, and another may have its id
            self._keys.drop(key)
            pk = await self._keys.get_or_read(key, read)
            row = None if pk is None else await self._row(pk)
        if row is not None and (row.caller_kind == NOBODY) == (caller == NOBODY):
            return Lookup(row)
        return Lookup(None, "not_owner" if exists or row is not None else "unknown_task")

    async def renamed(self, upstream: str, upstream_task_id: str) -> list[TaskRow]:
        """Give the tasks that an upstream calls so and whose clients know them by another id (OWN-ID-MAP)."""
        found = await self._db.read(_RENAMED, upstream, upstream_task_id)
        return self._read(found)

    async def own_task(self, pk: int) -> TaskRow:
        """Give a task for the shim's own work on it. Raises KeyError."""
        row = await self._row(pk)
        if row is None:
            raise KeyError(pk)
        return row

    async def observe(
        self, pk: int, *, status: Status, status_message: str | None, last_updated_at: str | None,
        ttl_ms: int | None, poll_interval_ms: int | None, now_ms: int,
        result: bytes | None = None, error: bytes | None = None,
    ) -> Observed:  # fmt: skip
        """Take an observation in one conditional statement. Raises KeyError for a task that is gone."""
        carried = {"status_message": status_message, "result": result, "error": error}
        column = self._payloads.column
        values = {
            "pk": pk, "status": status.value, "message": column(status_message), "updated": last_updated_at,
            "ttl": ttl_ms, "poll": poll_interval_ms, "result": column(result), "error": column(error),
            "tool_error": self._payloads.tool_error(result),
            "ended": now_ms if status in TERMINAL else None,
        }  # fmt: skip

        def keep(results: Results) -> TaskRow | None:
            [changed] = results
            if not changed:
                return None
            row = rows.task(changed[0])
            ended_there = row.ended_ms is not None and not row.local
            self._payloads.keep(of_task(pk), "again" if ended_there else "only", carried)
            # whoever told of the end has all of it, however little can be kept
            row = self._keep(replace(self._payloads.task(row), **carried))
            if row.ended_ms is not None:
                self._ended(row.caller)
            return row

        row = await self._db.write((_OBSERVE, values), then=keep)
        if row is not None:
            return Observed(row, changed=True, illegal=False)
        self._rows.drop(pk)  # after a commit that broke, the disk may know better
        row = await self.own_task(pk)
        return Observed(row, changed=False, illegal=row.status is not status)

    async def expire(self, pk: int, now_ms: int) -> None:
        """Turn a task into a tombstone (DUR-4)."""
        entomb = _change("purged_ms = coalesce(purged_ms, ?), result = NULL, error = NULL", (now_ms,), pk)

        def keep(results: Results) -> None:
            ended, changed = results
            for row in ended:
                self._ended(row[0])
            self._payloads.drop(of_task(pk))
            self._took(changed)

        await self._db.write((_END, (now_ms, pk)), entomb, then=keep)

    async def mark_cancel(self, pk: int, *, asked: bool = True) -> None:
        """Note that its owner asked to cancel it; `asked=False` that the server would have none of it."""
        await self._set("cancel_requested = ?", (int(asked),), pk)

    async def set_session(self, pk: int, session_id: str) -> None:
        """Note that the task is served by another upstream session now."""
        await self._set("session_id = ?", (session_id,), pk)

    async def set_result_request(self, pk: int, request_id: bytes | None) -> None:
        """Note which tasks/result is open upstream."""
        await self._set("result_request_id = ?", (request_id,), pk)

    async def map_task(self, pk: int, upstream_task_id: str, session_id: str | None, *, driven: bool) -> None:
        """Note that a local task is one of the server's from now on."""
        values = (upstream_task_id, session_id, driven)
        await self._set("upstream_task_id = ?, session_id = ?, driven = ?, local = 0", values, pk)

    async def has_open_tasks(self, caller: str, client_session: str) -> bool:
        """Tell whether a client's session has made tasks that have not ended."""
        return bool(await self.open_tasks_of(caller, client_session=client_session, limit=1))

    async def open_local_tasks(self, *, limit: int) -> list[TaskRow]:
        """Give local tasks that have not ended."""
        sql = f"SELECT {rows.TASK} FROM task WHERE local = 1 AND ended_ms IS NULL ORDER BY pk LIMIT ?"  # noqa: S608
        return self._read(await self._db.read(sql, limit))

    def touch(self, pk: int, now_ms: int) -> None:
        """Note that a client asked for the task."""
        self._touched[pk] = now_ms

    async def list_tasks(
        self, caller: str, *, after: int | None, limit: int, client_session: str | None = None
    ) -> list[TaskRow]:
        """Give a caller's tasks without their payloads, newest first, from below the key `after`."""
        if caller == NOBODY:
            return []
        sql, values = _LIST, [caller, _ABOVE_ALL if after is None else after]
        if client_session is not None:
            sql, values = _LIST_SESSION, [*values, client_session]
        return self._read(await self._db.read(sql + _NEWEST_FIRST, *values, limit))

    async def results(self, pks: Sequence[int]) -> dict[int, bytes]:
        """Give the results that tasks ended with, of those that have one, in one read."""
        found: dict[int, bytes] = dict(await self._db.read(_RESULTS, json.dumps(pks)))
        results = ((pk, self._payloads.result(pk, found.get(pk))) for pk in pks)
        return {pk: result for pk, result in results if result is not None}

    async def regained(self, pk: int, result: bytes | None, error: bytes | None) -> TaskRow:
        """Keep once more, in memory, what a task ended with: the upstream gave it again (DUR-8)."""
        row = await self.own_task(pk)
        if not row.lacks_payload:
            return row
        self._payloads.keep(of_task(pk), "again", {"result": result, "error": error})
        return self._keep(replace(row, result=result, error=error))

    async def open_tasks_of(
        self, caller: str, *, client_session: str | None = None, limit: int
    ) -> list[TaskRow]:
        """Give a caller's tasks that have not ended, or those that one of its sessions made, oldest first."""
        if caller == NOBODY:
            return []
        sql, values = _OPEN_OF, [caller]
        if client_session is not None:
            sql, values = f"{sql} AND client_session = ?", [*values, client_session]
        return self._read(await self._db.read(f"{sql} ORDER BY pk LIMIT ?", *values, limit))

    async def open_tasks(
        self, *, upstream: str | None = None, session_id: str | None = None, limit: int
    ) -> list[TaskRow]:
        """Give tasks that have not ended, oldest first, for the shim's own work."""
        where, values = ["ended_ms IS NULL"], []
        for column, value in (("upstream", upstream), ("session_id", session_id)):
            if value is not None:
                where.append(f"{column} = ?")
                values.append(value)
        found = await self._db.read(
            f"SELECT {rows.TASK} FROM task WHERE {' AND '.join(where)} ORDER BY pk LIMIT ?",  # noqa: S608
            *values, limit,
        )  # fmt: skip
        return self._read(found)

    async def open_among(self, pks: Sequence[int]) -> set[int]:
        """Give which of these tasks have not ended, in one read."""
        return {pk for [pk] in await self._db.read(_OPEN_AMONG, json.dumps(pks))}

    async def untouched_tasks(self, before_ms: int, *, below: int, after: int, limit: int) -> list[TaskRow]:
        """Give open tasks that no client touched since, from above the key `after`, in earlier stages."""
        found = await self._db.read(_UNTOUCHED, before_ms, below, after, limit)
        return self._read(found)

    async def set_abandoned(self, pk: int, stage: int) -> None:
        """Note what was done about an abandoned task; the next touch takes it back."""
        await self._set("abandoned = ?", (stage,), pk)

    async def open_count_by_caller(self, caller: str) -> int:
        """Count a caller's open tasks."""
        return self._open_by_caller.get(caller, 0)

    async def write_touches(self) -> None:
        """Write down when tasks were asked for."""
        touched, self._touched = self._touched, {}
        if touched:
            await self._db.run((_TOUCH, (_json_object(touched),)))

    def forget(self, pk: int, ended_caller: str | None) -> None:
        """Take note that time changed a task or took it; `ended_caller` had it open until now."""
        self._rows.drop(pk)
        self._payloads.drop(of_task(pk))
        if ended_caller is not None:
            self._ended(ended_caller)

    def _keep(self, row: TaskRow) -> TaskRow:
        self._keys.put((row.caller, row.task_id), row.pk)
        return self._rows.put(row.pk, row)

    def _ended(self, caller: str) -> None:
        self._open_by_caller[caller] -= 1
        if self._open_by_caller[caller] <= 0:
            del self._open_by_caller[caller]

    async def _set(self, assignment: str, values: Sequence[Any], pk: int) -> None:
        await self._db.write(_change(assignment, values, pk), then=lambda results: self._took(results[0]))

    def _took(self, changed: Sequence[Row]) -> None:
        for row in self._read(changed):
            self._keep(row)

    def _read(self, found: Sequence[Row]) -> list[TaskRow]:
        return [self._payloads.task(rows.task(row)) for row in found]

    async def _row(self, pk: int) -> TaskRow | None:
        return await self._rows.get_or_read(pk, lambda: self._read_row(pk))

    async def _read_row(self, pk: int) -> TaskRow | None:
        found = await self._db.read(f"SELECT {rows.TASK} FROM task WHERE pk = ?", pk)  # noqa: S608
        return self._read(found)[0] if found else None


def _change(assignment: str, values: Sequence[Any], pk: int) -> Statement:
    return f"UPDATE task SET {assignment} WHERE pk = ? RETURNING {rows.TASK}", (*values, pk)  # noqa: S608


def _weigh(row: TaskRow) -> int:
    return len(row.result or b"") + len(row.error or b"")


def _json_object(numbers: dict[int, int]) -> str:
    return "{" + ",".join(f'"{key}":{value}' for key, value in numbers.items()) + "}"
