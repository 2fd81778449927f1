"""The ledger's questions: asked once, answered once, delivered once."""

import sqlite3
from collections.abc import Sequence
from typing import Any

from shim.ledger import rows
from shim.ledger.records import InputRow, InputState
from shim.ledger.writer import Row, Writer


class Inputs:
    """The part of the SQLite ledger that keeps questions."""

    _writer: Writer

    async def _read(self, sql: str, *values: Any) -> list[Row]:
        raise NotImplementedError

    async def add_input(self, asked: InputRow) -> InputRow:
        """Write a question down; the same upstream id on the same task gives the first one's row."""
        values = [getattr(asked, name) for name in rows.INPUT.split(", ")]
        sql = f"INSERT INTO input ({rows.INPUT}) VALUES ({rows.places(rows.INPUT)})"  # noqa: S608
        try:
            await self._writer.write((sql, values))
        except sqlite3.IntegrityError:
            by_key = "task_pk = ? AND (key = ? OR (session_id = ? AND upstream_id = ?))"
            [found] = await self._read(
                f"SELECT {rows.INPUT} FROM input WHERE {by_key} ORDER BY n DESC LIMIT 1",  # noqa: S608
                asked.task_pk, asked.key, asked.session_id, asked.upstream_id,
            )  # fmt: skip
            return rows.question(found)
        return asked

    async def inputs(self, task_pk: int, states: Sequence[InputState] = ("outstanding",)) -> list[InputRow]:
        """Give a task's questions in the order they were asked."""
        found = await self._read(
            f"SELECT {rows.INPUT} FROM input WHERE task_pk = ? "  # noqa: S608
            f"AND state IN ({', '.join('?' * len(states))}) ORDER BY n",
            task_pk, *states,
        )  # fmt: skip
        return [rows.question(row) for row in found]

    async def input_by_upstream_id(self, session_id: str, upstream_id: bytes) -> InputRow | None:
        """Give the newest question that came under an id on a session."""
        found = await self._read(
            f"SELECT {rows.INPUT} FROM input WHERE session_id = ? AND upstream_id = ? "  # noqa: S608
            "ORDER BY n DESC LIMIT 1",
            session_id, upstream_id,
        )  # fmt: skip
        return rows.question(found[0]) if found else None

    async def answer_input(self, task_pk: int, key: str, response: bytes, *, by: str) -> bool:
        """Write an answer down; True only for the first one."""
        [won] = await self._writer.write(
            (
                "UPDATE input SET state = 'answered', response = ?, by = ? "
                "WHERE task_pk = ? AND key = ? AND state = 'outstanding' RETURNING n",
                (response, by, task_pk, key),
            )
        )
        return bool(won)

    async def deliver_input(self, task_pk: int, key: str) -> None:
        """Note that the upstream has the answer."""
        await self._writer.write(
            (
                "UPDATE input SET state = 'delivered' WHERE task_pk = ? AND key = ? AND state = 'answered'",
                (task_pk, key),
            )
        )

    async def close_inputs(self, task_pk: int) -> None:
        """Close what is not delivered (INPUT-END)."""
        await self._writer.write(
            (
                "UPDATE input SET state = 'closed' WHERE task_pk = ? AND state IN ('outstanding', 'answered')",
                (task_pk,),
            )
        )

    async def undelivered(self) -> list[InputRow]:
        """Give the answers that were acknowledged and have not reached the upstream."""
        found = await self._read(f"SELECT {rows.INPUT} FROM input WHERE state = 'answered' ORDER BY n")  # noqa: S608
        return [rows.question(row) for row in found]
