"""The ledger's questions on their way to legacy clients: sent under one id, whatever happens in between."""

from shim.ledger import rows
from shim.ledger.database import Part
from shim.ledger.records import AskRow
from shim.ledger.writer import Results

_COLUMNS = ", ".join(f"ask.{name}" for name in rows.ASK)
_SELECT = f"SELECT {_COLUMNS} FROM ask "  # noqa: S608 - column names of our own
_ADD = rows.insert("ask", rows.ASK) + " ON CONFLICT DO NOTHING RETURNING key"
_SENT = "UPDATE ask SET sent_ms = ?, event_id = ? WHERE session_id = ? AND request_id = ?"
_OUTSTANDING = (
    _SELECT + "JOIN input USING (task_pk, key) "
    "WHERE ask.session_id = ? AND input.state = 'outstanding' ORDER BY input.n"
)


class Asks(Part):
    """The part of the SQLite ledger that keeps what legacy clients were asked."""

    async def ask(self, sent: AskRow) -> AskRow:
        """Write down how a question is sent; one that was sent over the session before keeps its id."""

        def added(results: Results) -> bool:
            return bool(results[0])

        if await self._db.write((_ADD, rows.stored(sent, rows.ASK)), then=added):
            return sent
        where = "WHERE task_pk = ? AND key = ? AND session_id = ?"
        [found] = await self._db.read(_SELECT + where, sent.task_pk, sent.key, sent.session_id)
        return rows.ask(found)

    async def asked_again(self, sent: AskRow) -> None:
        """Note when a question was last sent."""
        values = (sent.sent_ms, sent.event_id, sent.session_id, sent.request_id)
        await self._db.write((_SENT, values), then=lambda _: None)

    async def asks(self, session_id: str) -> list[AskRow]:
        """Give the questions that were sent over a session and are still outstanding."""
        return [rows.ask(row) for row in await self._db.read(_OUTSTANDING, session_id)]

    async def asks_of(self, task_pk: int) -> list[AskRow]:
        """Give how a task's questions were sent."""
        return [rows.ask(row) for row in await self._db.read(_SELECT + "WHERE task_pk = ?", task_pk)]

    async def asked_under(self, session_id: str, request_id: bytes) -> AskRow | None:
        """Give the question that was sent over a session under an id."""
        found = await self._db.read(
            _SELECT + "WHERE session_id = ? AND request_id = ?", session_id, request_id
        )
        return rows.ask(found[0]) if found else None
