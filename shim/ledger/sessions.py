"""The ledger's sessions with upstreams."""

import msgspec

from shim.audit.events import Client, Connected
from shim.ledger import rows
from shim.ledger.cache import Recent
from shim.ledger.database import Database, Part
from shim.ledger.payloads import Payloads
from shim.ledger.protocol import NOBODY
from shim.ledger.records import SessionRow
from shim.ledger.writer import Results, Statement

_COLUMNS = ", ".join(rows.SESSION)
_KEPT = frozenset(("session_id", "caller", "caller_kind", "created_ms"))
_RENEWED = ", ".join(f"{name} = excluded.{name}" for name in rows.SESSION if name not in _KEPT)
_ADD = (
    rows.insert("session", rows.SESSION)
    + f" ON CONFLICT (session_id) DO UPDATE SET {_RENEWED} WHERE caller = excluded.caller"
)
_CONNECTED = (
    "SELECT caller, caller_kind, client_name, client_version, count(*) FROM session "
    "WHERE side = 'client' AND closed = 0 GROUP BY 1, 2, 3, 4"
)
_OPEN_TASKS = """
EXISTS (SELECT 1 FROM task INDEXED BY task_by_client_session
    WHERE task.caller = session.caller AND client_session = session.session_id
        AND ended_ms IS NULL AND purged_ms IS NULL)
"""
_CLOSE_IDLEST = f"""
UPDATE session SET closed = 1 WHERE session_id = (
    SELECT session_id FROM session WHERE caller = ? AND side = 'client' AND closed = 0 AND used_ms < ?
        AND NOT {_OPEN_TASKS}
    ORDER BY used_ms LIMIT 1)
RETURNING session_id
"""  # noqa: S608 - made of constants
_CLOSE_IDLEST_OF_ALL = _CLOSE_IDLEST.replace("caller = ? AND ", "", 1)
_COUNT_ALL = "SELECT count(*) FROM session WHERE side = 'client' AND closed = 0"
_COUNT = f"{_COUNT_ALL} AND caller = ?"
_STATED_CHARS = 200
"""Bound of what a client states about itself in the log."""
_TOUCH = (
    "UPDATE session SET used_ms = used.value FROM json_each(?) AS used WHERE session.session_id = used.key"
)


class Sessions(Part):
    """The part of the SQLite ledger that keeps sessions."""

    def __init__(self, db: Database, payloads: Payloads, *, cache_rows: int) -> None:
        Part.__init__(self, db, payloads)
        self._sessions = Recent[str, SessionRow](cache_rows)
        self._used: dict[str, int] = {}

    async def add_session(self, row: SessionRow) -> None:
        """Write a session down; one with the same id is replaced only for the same caller."""
        await self._write(row.session_id, (_ADD, rows.stored(row, rows.SESSION)))

    async def session(self, session_id: str) -> SessionRow | None:
        """Give a session for the shim's own work."""
        return await self._sessions.get_or_read(session_id, lambda: self._read_session(session_id))

    async def session_of(self, caller: str, session_id: str) -> SessionRow | None:
        """Give a caller's session; for a foreign one and for none the same is read (OWN-CHECK)."""
        known = self._sessions.get(session_id)
        if known is None:
            return await self._sessions.get_or_read(session_id, lambda: self._read_of(caller, session_id))
        return known if known.caller == caller else await self._read_of(caller, session_id)

    async def session_owner(self, session_id: str) -> str | None:
        """Give whose a session is, for the log; None where there is none. What is read is always the same."""
        [[caller]] = await self._db.read(
            "SELECT (SELECT caller FROM session WHERE session_id = ?)", session_id
        )
        return None if caller is None else str(caller)

    async def sessions(self, caller: str, upstream: str, side: str) -> list[SessionRow]:
        """Give a caller's open sessions; nobody has none to share."""
        if caller == NOBODY:
            return []
        found = await self._db.read(
            f"SELECT {_COLUMNS} FROM session WHERE caller = ? AND upstream = ? AND side = ? "  # noqa: S608
            "AND closed = 0",
            caller, upstream, side,
        )  # fmt: skip
        return [rows.session(row) for row in found]

    async def count_sessions(self, caller: str | None) -> int:
        """Count the sessions that a caller's legacy clients, or (None) those of all, have open."""
        whose, values = (_COUNT_ALL, ()) if caller is None else (_COUNT, (caller,))
        [[count]] = await self._db.read(whose, *values)
        return int(count)

    async def close_idlest(self, caller: str | None, before_ms: int) -> str | None:
        """Close the session of a caller's client, or (None) of any, that was unused for longest.

        One that has a task open stays. Gives its id.
        """
        await self.write_uses()

        def closed(results: Results) -> str | None:
            for row in results[0]:
                self.forget_sessions(row[0])
                return str(row[0])
            return None

        if caller is None:
            return await self._db.write((_CLOSE_IDLEST_OF_ALL, (before_ms,)), then=closed)
        return await self._db.write((_CLOSE_IDLEST, (caller, before_ms)), then=closed)

    async def idle_sessions(self, upstream: str, *, limit: int) -> list[SessionRow]:
        """Give open sessions of legacy clients at an upstream that have no open task."""
        found = await self._db.read(
            f"SELECT {_COLUMNS} FROM session WHERE upstream = ? AND side = 'client' AND closed = 0 "  # noqa: S608
            f"AND NOT {_OPEN_TASKS} LIMIT ?",
            upstream, limit,
        )  # fmt: skip
        return [rows.session(row) for row in found]

    async def unused_sessions(self, upstream: str, before_ms: int, *, limit: int) -> list[SessionRow]:
        """Give open sessions of the shim's own at an upstream, unused since, that hold no open task."""
        found = await self._db.read(
            f"SELECT {_COLUMNS} FROM session WHERE used_ms < ? AND upstream = ? AND side = 'pool' "  # noqa: S608
            "AND closed = 0 AND NOT EXISTS "
            "(SELECT 1 FROM task WHERE task.session_id = session.session_id AND ended_ms IS NULL) LIMIT ?",
            before_ms, upstream, limit,
        )  # fmt: skip
        return [rows.session(row) for row in found]

    async def connected(self) -> list[Connected]:
        """Count the sessions that legacy clients have open, by caller and client."""
        found = await self._db.read(_CONNECTED)
        return [
            Connected(
                caller=caller,
                caller_kind=kind,
                client=Client(name=name[:_STATED_CHARS], version=version[:_STATED_CHARS]),
                count=count,
            )
            for caller, kind, name, version, count in found
        ]

    def touch_session(self, session_id: str, now_ms: int) -> None:
        """Note that a session is used."""
        self._used[session_id] = now_ms

    async def set_session_dialect(self, session_id: str, dialect: str) -> None:
        """Note the dialect a session's client speaks."""
        sql = "UPDATE session SET dialect = ? WHERE session_id = ?"
        await self._write(session_id, (sql, (dialect, session_id)))

    async def set_session_settings(self, session_id: str, settings: bytes) -> None:
        """Note what a session's client asked for."""
        await self._write(
            session_id, ("UPDATE session SET settings = ? WHERE session_id = ?", (settings, session_id))
        )

    async def close_session(self, session_id: str) -> None:
        """Note that a session has ended."""
        await self._write(session_id, ("UPDATE session SET closed = 1 WHERE session_id = ?", (session_id,)))

    async def write_uses(self) -> None:
        """Write down when sessions were used."""
        used, self._used = self._used, {}
        if used:
            text = msgspec.json.encode(used).decode()
            await self._db.write((_TOUCH, (text,)), then=lambda _: self.forget_sessions(*used))

    def forget_sessions(self, *session_ids: str) -> None:
        """Take note that rows were changed or taken."""
        for session_id in session_ids:
            self._sessions.drop(session_id)

    async def _write(self, session_id: str, statement: Statement) -> None:
        await self._db.write(statement, then=lambda _: self.forget_sessions(session_id))

    async def _read_of(self, caller: str, session_id: str) -> SessionRow | None:
        found = await self._db.read(
            f"SELECT {_COLUMNS} FROM session WHERE session_id = ? AND caller = ?",  # noqa: S608
            session_id, caller,
        )  # fmt: skip
        return rows.session(found[0]) if found else None

    async def _read_session(self, session_id: str) -> SessionRow | None:
        found = await self._db.read(f"SELECT {_COLUMNS} FROM session WHERE session_id = ?", session_id)  # noqa: S608
        return rows.session(found[0]) if found else None
