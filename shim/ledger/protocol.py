"""The ledger as the rest of the shim sees it: tasks are read through the caller who owns them."""

from collections.abc import Sequence
from typing import Protocol

from shim.audit.events import Connected
from shim.hub.status import Status
from shim.ledger.records import (
    AskRow,
    IdemRow,
    InputRow,
    InputState,
    Lookup,
    NewTask,
    Observed,
    Purged,
    SessionRow,
    Stats,
    TaskRow,
)

NOBODY = "none"
"""The caller that equals nobody, not itself (OWN-NONE): it has no list, no sessions, no keyed calls."""


class IdCollision(ValueError):
    """The task id is taken."""


class LedgerError(RuntimeError):
    """The ledger cannot be read or written; never to be taken for "not found" (OWN-CHECK)."""

    in_one_line = True
    """The log needs no traceback of it: what SQLite or the disk says is all there is."""


class LedgerLocked(LedgerError):
    """Another process has the ledger (DUR-7)."""


class Ledger(Protocol):
    """Every write is on disk when it returns, but for the touches and what is kept in memory (DUR-8).

    All of it may raise LedgerError.
    """

    async def open(self) -> None:
        """Lock, migrate and open. Raises LedgerLocked, LedgerError."""

    async def close(self) -> None:
        """Write what is pending and close."""

    async def next_epoch(self) -> int:
        """Give a number that no earlier run had, committed before it returns (IDS)."""

    async def create_task(self, new: NewTask) -> TaskRow:
        """Write a task down. Raises IdCollision."""

    async def lookup(self, caller: str, task_id: str) -> Lookup:
        """Give a caller's task: the one accessor for requests (OWN-CHECK)."""

    async def renamed(self, upstream: str, upstream_task_id: str) -> list[TaskRow]:
        """Give the tasks that an upstream calls so and whose clients know them by another id (OWN-ID-MAP)."""

    async def own_task(self, pk: int) -> TaskRow:
        """Give a task for the shim's own work on it, never for an answer. Raises KeyError."""

    async def observe(
        self, pk: int, *, status: Status, status_message: str | None, last_updated_at: str | None,
        ttl_ms: int | None, poll_interval_ms: int | None, now_ms: int,
        result: bytes | None = None, error: bytes | None = None,
    ) -> Observed:  # fmt: skip
        """Take an observation in one conditional statement: a final state never changes (HUB-1, HUB-2).

        Raises KeyError for a task that is gone.
        """

    async def expire(self, pk: int, now_ms: int) -> None:
        """Turn a task into a tombstone (DUR-4)."""

    async def mark_cancel(self, pk: int, *, asked: bool = True) -> None:
        """Note that its owner asked to cancel it; `asked=False` that the server would have none of it."""

    async def map_task(self, pk: int, upstream_task_id: str, session_id: str | None, *, driven: bool) -> None:
        """Note that a local task is one of the server's from now on (LM-CREATE)."""

    async def open_local_tasks(self, *, limit: int) -> list[TaskRow]:
        """Give local tasks that have not ended, oldest first."""

    async def keep_call(self, task_pk: int, params: bytes) -> None:
        """Write down what a local task's call was, until the task ends (PROMOTE-3)."""

    async def take_call(self, task_pk: int) -> bytes | None:
        """Give what a local task's call was, and forget it: it runs once more, not twice (PROMOTE-3)."""

    async def set_session(self, pk: int, session_id: str) -> None:
        """Note that the task is served by another upstream session now."""

    async def set_result_request(self, pk: int, request_id: bytes | None) -> None:
        """Note which tasks/result is open upstream."""

    def touch(self, pk: int, now_ms: int) -> None:
        """Note that a client asked for the task; written with the next sweep."""

    async def list_tasks(
        self, caller: str, *, after: int | None, limit: int, client_session: str | None = None
    ) -> list[TaskRow]:
        """Give a caller's tasks without payloads, newest first, from below the key `after` (LL-LIST)."""

    async def results(self, pks: Sequence[int]) -> dict[int, bytes]:
        """Give the results that tasks ended with, of those that have one, in one read."""

    async def regained(self, pk: int, result: bytes | None, error: bytes | None) -> TaskRow:
        """Keep once more, in memory, what a task ended with: the upstream gave it again (DUR-8)."""

    async def open_tasks_of(
        self, caller: str, *, client_session: str | None = None, limit: int
    ) -> list[TaskRow]:
        """Give a caller's tasks that have not ended, or those that one of its sessions made, oldest first."""

    async def open_tasks(
        self, *, upstream: str | None = None, session_id: str | None = None, limit: int
    ) -> list[TaskRow]:
        """Give tasks that have not ended, oldest first, for the shim's own work."""

    async def open_among(self, pks: Sequence[int]) -> set[int]:
        """Give which of these tasks have not ended, in one read."""

    async def untouched_tasks(self, before_ms: int, *, below: int, after: int, limit: int) -> list[TaskRow]:
        """Give open tasks that no client touched since, from above the key `after`, in stages under `below`.

        A stage is what was done about an abandoned task (DUR-6).
        """

    async def set_abandoned(self, pk: int, stage: int) -> None:
        """Note what was done about an abandoned task; the next touch takes it back (DUR-6)."""

    async def has_open_tasks(self, caller: str, client_session: str) -> bool:
        """Tell whether a client's session has made tasks that have not ended."""

    async def open_count_by_caller(self, caller: str) -> int:
        """Count a caller's open tasks."""

    async def add_session(self, row: SessionRow) -> None:
        """Write a session down; one with the same id is replaced only for the same caller."""

    async def session(self, session_id: str) -> SessionRow | None:
        """Give a session for the shim's own work."""

    async def session_of(self, caller: str, session_id: str) -> SessionRow | None:
        """Give a caller's session (LL-OWN)."""

    async def session_owner(self, session_id: str) -> str | None:
        """Give whose a session is, for the log; None where there is none."""

    async def sessions(self, caller: str, upstream: str, side: str) -> list[SessionRow]:
        """Give a caller's open sessions."""

    async def count_sessions(self, caller: str | None) -> int:
        """Count the sessions that a caller's legacy clients have open."""

    async def close_idlest(self, caller: str | None, before_ms: int) -> str | None:
        """Close the session of a caller's client that was unused for longest, if since before then.

        One that has a task open stays. Gives its id.
        """

    async def idle_sessions(self, upstream: str, *, limit: int) -> list[SessionRow]:
        """Give open sessions of legacy clients at an upstream that have no open task."""

    async def unused_sessions(self, upstream: str, before_ms: int, *, limit: int) -> list[SessionRow]:
        """Give open sessions of the shim's own at an upstream, unused since, that hold no open task."""

    async def connected(self) -> list[Connected]:
        """Count the sessions that legacy clients have open, by caller and client."""

    def touch_session(self, session_id: str, now_ms: int) -> None:
        """Note that a session is used; written with the next sweep."""

    async def set_session_dialect(self, session_id: str, dialect: str) -> None:
        """Note the dialect a session's client speaks."""

    async def set_session_settings(self, session_id: str, settings: bytes) -> None:
        """Note what a session's client asked for (LM-LOCAL)."""

    async def close_session(self, session_id: str) -> None:
        """Note that a session has ended."""

    async def add_input(self, asked: InputRow) -> InputRow:
        """Write a question down; the same one again, or another under a taken key, gives the row there is.

        The same one is outstanding under the same upstream id. Another under that id closes it. One whose
        text was lost has it again. Raises ClientFault where memory has no room for it (DUR-8).
        """

    async def inputs(self, task_pk: int, states: Sequence[InputState] = ("outstanding",)) -> list[InputRow]:
        """Give a task's questions in the order they were asked."""

    async def input_by_upstream_id(self, session_id: str, upstream_id: bytes) -> InputRow | None:
        """Give the question that came under an id on a session."""

    async def answer_input(self, task_pk: int, key: str, response: bytes, *, by: str) -> bool:
        """Write an answer down; True only for the first one. Raises ClientFault as `add_input` does."""

    async def deliver_input(self, task_pk: int, key: str) -> None:
        """Note that the upstream has the answer."""

    async def ask(self, sent: AskRow, *, unless_since_ms: int) -> AskRow | None:
        """Write down how a question is sent; None where it was sent after that time, over any living session.

        One that was sent over the session before keeps its id.
        """

    async def ask_is_due(self, sent: AskRow) -> None:
        """Note that a question was lost on its way: it may be sent again at once."""

    async def unask(self, sent: AskRow) -> None:
        """Forget how a question was sent: its client knows that it need not be answered."""

    async def asks(self, session_id: str) -> list[AskRow]:
        """Give the questions that were sent over a session, and that its client may still have open."""

    async def asks_of(self, task_pk: int) -> list[AskRow]:
        """Give how a task's questions were sent over sessions that have not ended."""

    async def asked_under(self, session_id: str, request_id: bytes) -> AskRow | None:
        """Give the question that was sent over a session under an id."""

    async def release_input(self, task_pk: int, key: str) -> None:
        """Make an answered question outstanding again, as if not sent: the upstream refused the answer."""

    async def withdraw_input(self, task_pk: int, key: str, *, now_ms: int, asked_before_ms: int) -> bool:
        """Close a question that was asked before a time; False where somebody has answered it."""

    async def ask_again(self, asked: InputRow, *, withdrawn_before_ms: int) -> bool:
        """Open a question anew that was withdrawn before a time, as if never sent; False for any other."""

    async def close_inputs(self, task_pk: int) -> None:
        """Close what is not delivered (INPUT-END)."""

    async def undelivered(self) -> list[InputRow]:
        """Give the answers that were acknowledged and have not reached the upstream."""

    async def idem_begin(self, row: IdemRow) -> IdemRow | None:
        """Claim a key: None if this call has it now, else the row of the one that does (DUR-3).

        Raises ValueError for nobody (OWN-NONE).
        """

    async def idem_get(self, caller: str, key: str) -> IdemRow | None:
        """Give a key's row."""

    async def idem_finish(
        self, caller: str, key: str, *, answer: bytes | None, is_error: bool, dialect: str,
        handle: bytes | None = None,
    ) -> None:  # fmt: skip
        """Write a keyed call's answer down, and the dialect it is written in.

        `handle` is the handle in it, if it is one: that is kept wherever the answer is (DUR-8).
        """

    async def idem_release(self, caller: str, key: str) -> None:
        """Give a key free whose call was turned away before it ran."""

    async def purge(
        self, now_ms: int, *, retention_ms: int, tombstone_ms: int, max_age_ms: int,
        idempotency_ms: int, session_ms: int, limit: int,
    ) -> Purged:  # fmt: skip
        """Take what is over its time: payload first, then the row (DUR-4); write the touches."""

    async def stats(self) -> Stats:
        """Count."""
