"""The ledger's questions on their way to legacy clients: sent under one id, whatever happens in between."""

from shim.ledger import rows
from shim.ledger.database import Part
from shim.ledger.records import AskRow
from shim.ledger.writer import Results

_COLUMNS = ", ".join(f"ask.{name}" for name in rows.ASK)
_SELECT = f"SELECT {_COLUMNS} FROM ask "  # noqa: S608 - column names of our own
# nobody answers any more what a session was asked that has ended
_LIVING = "NOT EXISTS (SELECT 1 FROM session WHERE session.session_id = ask.session_id AND session.closed) "
# the one place where it is decided who sends a question: whoever comes second finds it sent
_CLAIM = (
    f"INSERT INTO ask ({', '.join(rows.ASK)}) SELECT {', '.join('?' * len(rows.ASK))} "  # noqa: S608
    f"WHERE NOT EXISTS (SELECT 1 FROM ask WHERE task_pk = ? AND key = ? AND sent_ms > ? AND {_LIVING}) "
    "ON CONFLICT (task_pk, key, session_id) DO UPDATE SET sent_ms = excluded.sent_ms, "
    f"event_id = excluded.event_id RETURNING {', '.join(rows.ASK)}"
)
_DUE = "UPDATE ask SET sent_ms = 0 WHERE session_id = ? AND request_id = ?"
_UNASK = "DELETE FROM ask WHERE session_id = ? AND request_id = ?"
_PENDING = (
    _SELECT + "JOIN input USING (task_pk, key) "
    "WHERE ask.session_id = ? AND input.by IS NOT 'session' ORDER BY input.n"
)


class Asks(Part):
    """The part of the SQLite ledger that keeps what legacy clients were asked."""

    async def ask(self, sent: AskRow, *, unless_since_ms: int) -> AskRow | None:
        """Write down how a question is sent; None where it was sent after that time, over any living session.

        One that was sent over the session before keeps its id.
        """

        def claimed(results: Results) -> AskRow | None:
            [found] = results
            return rows.ask(found[0]) if found else None

        values = (*rows.stored(sent, rows.ASK), sent.task_pk, sent.key, unless_since_ms)
        return await self._db.write((_CLAIM, values), then=claimed)

    async def ask_is_due(self, sent: AskRow) -> None:
        """Note that a question was lost on its way: it may be sent again at once."""
        await self._db.write((_DUE, (sent.session_id, sent.request_id)), then=lambda _: None)

    async def unask(self, sent: AskRow) -> None:
        """Forget how a question was sent: its client knows that it need not be answered."""
        await self._db.write((_UNASK, (sent.session_id, sent.request_id)), then=lambda _: None)

    async def asks(self, session_id: str) -> list[AskRow]:
        """Give the questions that were sent over a session, and that its client may still have open."""
        return [rows.ask(row) for row in await self._db.read(_PENDING, session_id)]

    async def asks_of(self, task_pk: int) -> list[AskRow]:
        """Give how a task's questions were sent over sessions that have not ended."""
        found = await self._db.read(f"{_SELECT} WHERE task_pk = ? AND {_LIVING}", task_pk)
        return [rows.ask(row) for row in found]

    async def asked_under(self, session_id: str, request_id: bytes) -> AskRow | None:
        """Give the question that was sent over a session under an id."""
        found = await self._db.read(
            _SELECT + "WHERE session_id = ? AND request_id = ?", session_id, request_id
        )
        return rows.ask(found[0]) if found else None
