"""What the ledger keeps: tasks, sessions, questions, keyed calls. Frozen; a change is a new record."""

from collections.abc import Sequence
from typing import Literal

import msgspec

from shim.hub.status import Status


class NewTask(msgspec.Struct, frozen=True, kw_only=True):
    """A task to be written down."""

    task_id: str
    """The id that its owner knows."""
    upstream: str
    upstream_task_id: str
    dialect: str
    session_id: str | None
    """The upstream session it lives in."""
    driven: bool
    """True where a client drives that session itself."""
    caller: str
    caller_kind: str
    client_session: str | None = None
    client_dialect: str | None = None
    """The legacy dialect of the client that made it; None for a modern one (CS-DETECT)."""
    tool: str | None = None
    kinds: frozenset[str] = frozenset()
    """Question kinds that the creating request's client declared."""
    status: Status = Status.WORKING
    status_message: str | None = None
    created_at: str
    last_updated_at: str
    ttl_ms: int | None = None
    poll_interval_ms: int | None = None
    meta: bytes | None = None
    first_seen_ms: int
    local: bool = False
    """True while the task lives in the shim alone: no server has one of that id (LM-CREATE)."""


class TaskRow(NewTask, frozen=True, kw_only=True):
    """A task that is in the ledger."""

    pk: int
    max_ttl_ms: int | None = None
    """The largest ttl shown; None while it was ever unlimited (DUR-4)."""
    result: bytes | None = None
    error: bytes | None = None
    tool_error: bool = False
    """True where the result is a tool's error and not in the file (DUR-8)."""
    ended_ms: int | None = None
    touched_ms: int = 0
    result_request_id: bytes | None = None
    """Raw id of the upstream tasks/result that is open, or was when the shim last ran."""
    cancel_requested: bool = False
    abandoned: int = 0
    """1 once it was told that nobody asks for it any more, 2 once it was seen to (DUR-6)."""
    purged: bool = False
    """True for a tombstone: its owner is told that it has expired."""

    @property
    def lacks_payload(self) -> bool:
        """Tell whether what the task ended with is not kept any more (DUR-8)."""
        carries = self.status in {Status.COMPLETED, Status.FAILED} and not self.purged
        return carries and self.result is None and self.error is None


class Lookup(msgspec.Struct, frozen=True):
    """A task asked for by a caller, or why it is not given; the reason is for the log alone."""

    row: TaskRow | None
    reason: Literal["not_owner", "unknown_task"] | None = None


class Observed(msgspec.Struct, frozen=True):
    """What became of an observation: the row as it now is, and what the observation did to it."""

    row: TaskRow
    changed: bool
    """False where the task had ended before: of several who saw an end, one alone wrote it (HUB-2)."""
    illegal: bool
    """True where it contradicted a final state (HUB-1)."""


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """An upstream session, opened by a client through the shim or by the shim for a caller."""

    session_id: str
    upstream: str
    caller: str
    caller_kind: str
    side: Literal["client", "pool"]
    dialect: str | None
    """The dialect its client last spoke."""
    client_name: str
    client_version: str
    kinds: frozenset[str]
    version: str
    init: bytes
    """The raw initialize result."""
    created_ms: int
    used_ms: int
    closed: bool = False
    settings: bytes = b"{}"
    """What the client asked of a session that the shim serves itself, raw JSON (LM-LOCAL)."""


InputState = Literal["outstanding", "answered", "delivered", "closed", "lost"]
"""`lost` is outstanding without its text, which is not kept any more: an answer to it counts (DUR-8)."""

EVERY_STATE: Sequence[InputState] = ("outstanding", "answered", "delivered", "closed", "lost")


class InputRow(msgspec.Struct, frozen=True, kw_only=True):
    """A question inside a task."""

    task_pk: int
    key: str
    method: str
    params: bytes
    kind: str
    upstream_id: bytes | None
    """The raw JSON-RPC id it came under; None for one that stood in a status answer."""
    session_id: str | None
    asked_ms: int
    state: InputState = "outstanding"
    response: bytes | None = None
    by: str | None = None
    withdrawn_ms: int | None = None
    """When the server took it back, unanswered; None if it did not, or asks it again."""


class AskRow(msgspec.Struct, frozen=True, kw_only=True):
    """A task's question as it was sent to a legacy client (LM-INPUT)."""

    session_id: str
    request_id: bytes
    task_pk: int
    key: str
    sent_ms: int
    event_id: str


class IdemRow(msgspec.Struct, frozen=True, kw_only=True):
    """A call that was sent under an idempotency key."""

    caller: str
    key: str
    body_hash: str
    state: Literal["pending", "done"]
    answer: bytes | None
    is_error: bool
    created_ms: int
    instance: str
    dialect: str = ""
    """The dialect that the answer is written in; empty for one of the shim's own errors."""
    handle: bytes | None = None
    """The handle in the answer, if that is one, and nothing else of it."""


class Purged(msgspec.Struct, frozen=True):
    """What a purge took: payloads of these tasks, and this many tombstones, sessions and keys."""

    task_ids: tuple[str, ...]
    rows: int
    pks: tuple[int, ...]
    """Keys of all tasks whose time is over."""


class Stats(msgspec.Struct, frozen=True):
    """Counts for people and metrics."""

    tasks: dict[str, dict[str, int]]
    """Upstream -> state -> number."""
    sessions: int
    oldest_open_ms: int | None
    oldest_open: dict[str, int]
    """Upstream -> when its oldest open task was first seen."""
    client_sessions: dict[str, int]
    """Upstream -> sessions that legacy clients have open there."""
