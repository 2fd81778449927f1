"""The ledger's questions: asked once, answered once, delivered once."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from shim.ledger import rows
from shim.ledger.cache import Recent
from shim.ledger.database import Database, Part
from shim.ledger.payloads import Payloads, names_of, of_questions
from shim.ledger.records import InputRow, InputState
from shim.ledger.writer import Results, Row, Statement

_SELECT = f"SELECT {', '.join(rows.INPUT)} FROM input "  # noqa: S608 - column names of our own
_ADD = rows.insert("input", rows.INPUT) + " ON CONFLICT DO NOTHING RETURNING n"
_SUPERSEDE = (
    "UPDATE input SET state = 'closed' WHERE task_pk = ? AND session_id = ? AND upstream_id = ? "
    "AND state = 'outstanding' AND NOT (method = ? AND params = ?)"
)
_SAME = (
    _SELECT + "WHERE task_pk = ? AND "
    "(key = ? OR (session_id = ? AND upstream_id = ? AND state = 'outstanding')) "
    "ORDER BY session_id IS ? AND upstream_id IS ? DESC LIMIT 1"
)
_ANSWER = (
    "UPDATE input SET state = 'answered', response = ?, by = ? "
    "WHERE task_pk = ? AND key = ? AND state = 'outstanding' RETURNING n"
)
_RELEASE = (
    "UPDATE input SET state = 'outstanding', response = NULL, by = NULL "
    "WHERE task_pk = ? AND key = ? AND state = 'answered' RETURNING n"
)
_TELL = "UPDATE input SET params = ? WHERE task_pk = ? AND key = ? AND state = 'outstanding' RETURNING n"
_WITHDRAW = (
    "UPDATE input SET state = 'closed', withdrawn_ms = ? "
    "WHERE task_pk = ? AND key = ? AND state = 'outstanding' AND asked_ms < ? RETURNING n"
)
# the end of a task is final: nothing is asked after it
_WITHDRAWN = (
    "task_pk = ? AND key = ? AND state = 'closed' AND withdrawn_ms < ? "
    "AND NOT EXISTS (SELECT 1 FROM task WHERE task.pk = input.task_pk AND task.ended_ms IS NOT NULL)"
)
_UNASK_AGAIN = f"DELETE FROM ask WHERE (task_pk, key) IN (SELECT task_pk, key FROM input WHERE {_WITHDRAWN})"  # noqa: S608
_ASK_AGAIN = (
    "UPDATE input SET state = 'outstanding', withdrawn_ms = NULL, method = ?, params = ?, kind = ?, "  # noqa: S608
    f"asked_ms = ? WHERE {_WITHDRAWN} RETURNING n"
)
_UNASK = "DELETE FROM ask WHERE task_pk = ? AND key = ?"
_DELIVER = (
    "UPDATE input SET state = 'delivered' WHERE task_pk = ? AND key = ? AND state = 'answered' RETURNING n"
)
_CLOSE = "UPDATE input SET state = 'closed' WHERE task_pk = ? AND state IN ('outstanding', 'answered')"


class Inputs(Part):
    """The part of the SQLite ledger that keeps questions."""

    def __init__(self, db: Database, payloads: Payloads, *, cache_rows: int, cache_bytes: int) -> None:
        Part.__init__(self, db, payloads)
        self._asked = Recent[int, tuple[InputRow, ...]](cache_rows, most_weight=cache_bytes, weigh=_weigh)

    async def add_input(self, asked: InputRow) -> InputRow:
        """Write a question down; the same one again, or another under a taken key, gives the row there is.

        The same one is outstanding under the same upstream id. Another under that id closes it. One whose
        text was lost has it again. Raises ClientFault where memory has no room for it (DUR-8).
        """
        pk, under = asked.task_pk, (asked.session_id, asked.upstream_id)
        self._payloads.ensure(len(asked.params))
        mark, text = self._payloads.mark(asked.params), {names_of(asked.key)[0]: asked.params}
        stored = rows.stored(replace(asked, params=mark), rows.INPUT)
        supersede = (_SUPERSEDE, (pk, *under, asked.method, mark))
        if await self._change(pk, supersede, (_ADD, stored), kept=text):
            return asked
        found = self._question((await self._db.read(_SAME, pk, asked.key, *under, *under))[0])
        if found.state != "lost" or (found.session_id, found.upstream_id) != under:
            return found
        again = {names_of(found.key)[0]: asked.params}
        await self._change(pk, (_TELL, (mark, pk, found.key)), kept=again)
        return replace(found, params=asked.params, state="outstanding")

    async def inputs(self, task_pk: int, states: Sequence[InputState] = ("outstanding",)) -> list[InputRow]:
        """Give a task's questions in the order they were asked."""
        asked = await self._asked.get_or_read(task_pk, lambda: self._read_asked(task_pk))
        return [one for one in asked or () if one.state in states]

    async def input_by_upstream_id(self, session_id: str, upstream_id: bytes) -> InputRow | None:
        """Give the newest question that came under an id on a session."""
        where = "WHERE session_id = ? AND upstream_id = ? ORDER BY n DESC LIMIT 1"
        found = await self._select(where, session_id, upstream_id)
        return found[0] if found else None

    async def answer_input(self, task_pk: int, key: str, response: bytes, *, by: str) -> bool:
        """Write an answer down; True only for the first one. Raises ClientFault as `add_input` does."""
        self._payloads.ensure(len(response))
        answer = (_ANSWER, (self._payloads.column(response), by, task_pk, key))
        return await self._change(task_pk, answer, kept={names_of(key)[1]: response})

    async def deliver_input(self, task_pk: int, key: str) -> None:
        """Note that the upstream has the answer."""
        await self._change(task_pk, (_DELIVER, (task_pk, key)), kept=dict.fromkeys(names_of(key)))

    async def release_input(self, task_pk: int, key: str) -> None:
        """Ask again, at once and under an id of its own: the upstream would not have the answer."""
        unanswered = {names_of(key)[1]: None}
        await self._change(task_pk, (_UNASK, (task_pk, key)), (_RELEASE, (task_pk, key)), kept=unanswered)

    async def withdraw_input(self, task_pk: int, key: str, *, now_ms: int, asked_before_ms: int) -> bool:
        """Close a question that was asked before a time; False where somebody has answered it."""
        withdraw = (_WITHDRAW, (now_ms, task_pk, key, asked_before_ms))
        return await self._change(task_pk, withdraw, kept=dict.fromkeys(names_of(key)))

    async def ask_again(self, asked: InputRow, *, withdrawn_before_ms: int) -> bool:
        """Open a question anew that was withdrawn before a time, as if never sent; False for any other.

        Raises ClientFault as `add_input` does.
        """
        self._payloads.ensure(len(asked.params))
        withdrawn = (asked.task_pk, asked.key, withdrawn_before_ms)
        mark, text = self._payloads.mark(asked.params), {names_of(asked.key)[0]: asked.params}
        anew = (_ASK_AGAIN, (asked.method, mark, asked.kind, asked.asked_ms, *withdrawn))
        return await self._change(asked.task_pk, (_UNASK_AGAIN, withdrawn), anew, kept=text)

    async def close_inputs(self, task_pk: int) -> None:
        """Close what is not delivered (INPUT-END)."""
        await self._change(task_pk, (_CLOSE, (task_pk,)))
        self._payloads.drop(of_questions(task_pk))

    async def undelivered(self) -> list[InputRow]:
        """Give the answers that were acknowledged and have not reached the upstream."""
        return list(await self._select("WHERE state = 'answered' ORDER BY n"))

    def forget_inputs(self, task_pk: int) -> None:
        """Take note that a task's questions were changed."""
        self._asked.drop(task_pk)

    def purged_inputs(self, task_pk: int) -> None:
        """Take note that a task's questions were taken."""
        self.forget_inputs(task_pk)
        self._payloads.drop(of_questions(task_pk))

    async def _change(
        self, task_pk: int, *statements: Statement, kept: Mapping[str, bytes | None] | None = None
    ) -> bool:
        """Write; True if the last statement gave a row back, and then the task's questions carry `kept`."""

        def keep(results: Results) -> bool:
            self.forget_inputs(task_pk)
            if kept is not None and results[-1]:
                self._payloads.keep(of_questions(task_pk), "pinned", kept)
            return bool(results[-1])

        return await self._db.write(*statements, then=keep)

    async def _read_asked(self, task_pk: int) -> tuple[InputRow, ...]:
        return await self._select("WHERE task_pk = ? ORDER BY n", task_pk)

    async def _select(self, where: str, *values: object) -> tuple[InputRow, ...]:
        return tuple(map(self._question, await self._db.read(_SELECT + where, *values)))

    def _question(self, row: Row) -> InputRow:
        return self._payloads.question(rows.question(row))


def _weigh(asked: tuple[InputRow, ...]) -> int:
    return sum(len(one.params) + len(one.response or b"") for one in asked)
