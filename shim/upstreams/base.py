"""What an upstream speaker offers to the hub's verbs, whichever dialect the server has."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from shim.audit.trace import Trace
from shim.callers.caller import Caller
from shim.hub.codec import Reading
from shim.hub.dialect import Dialect
from shim.hub.rawjson import Members
from shim.ledger.records import InputRow, TaskRow
from shim.wire.jsonrpc import Notification, Request, Response

Notify = Callable[[Notification], Awaitable[None]]
"""Carries a notification of an open call to the client's own response stream."""


@dataclass(slots=True)
class Context:
    """One client request as an upstream sees it: who asks, with what client, what may be asked back."""

    caller: Caller
    trace: Trace
    client_name: str = "taskshim"
    client_version: str = "0"
    kinds: frozenset[str] = frozenset()
    """Question kinds the client declared: elicitation, sampling, roots."""
    capabilities: Members = field(default_factory=dict)
    """The declared capability values of those kinds, raw."""
    client_session: str | None = None
    """The session that a legacy client asks over."""
    client_dialect: str | None = None
    """The legacy dialect the client speaks; None for a modern one (CS-DETECT)."""
    headers: Sequence[tuple[str, str]] = ()
    """Headers of the request that the allow-list lets through (HEADERS)."""
    notify: Notify | None = None
    asking: "Asking | None" = None
    """Who takes a question that belongs to the call; None: nobody can be asked (ML-MRTR)."""
    progress_token: bytes | None = None
    """The client's own token, raw; what goes upstream is the shim's (IDS)."""
    log_level: str | None = None
    """The level of the log messages that the client asked for; None: it wants none."""
    takes_tasks: bool = True
    """True where a task in place of an answer can be handled, by the client or for it."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What an upstream said of itself in its handshake."""

    init: Members
    """Members of the initialize or discover result, raw."""
    version: str
    has_tasks: bool


@dataclass(frozen=True, slots=True)
class Created:
    """The upstream made a task; it lives in that session (None: the server has no sessions)."""

    reading: Reading
    session_id: str | None
    meta: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """The upstream answered at once, with a result or a JSON-RPC error."""

    response: Response


class TaskUnknown(Exception):
    """The upstream says on a living session that it does not know the task."""


class TaskGone(TaskUnknown):
    """The session that took the place of the task's lost one does not know the task either."""


class SessionLost(Exception):
    """The upstream no longer knows the session, said twice (ML-SESSION-LOST)."""


class NotYet(Exception):
    """The upstream gives a result only after the end: poll on (ML-TERMINAL)."""


@dataclass(frozen=True, slots=True)
class Question:
    """A server-to-client request, matched to the task it belongs to as far as that can be told (ML-INPUT)."""

    request: Request
    session_id: str
    task_pk: int | None
    refuse: Callable[[int, str], Awaitable[None]]
    """Answers the server with a JSON-RPC error."""
    answer: Callable[[Context, bytes], Awaitable[bool]]
    """Answers the server with a result; False when it is not taken. Raises SessionLost, Denied,
    UpstreamFault."""


class Asking(Protocol):
    """A call that may be asked something while it runs: a parked one, or one behind a local task's handle."""

    called_off: bool
    """True once nobody may come for the call's answer: it is to end at the server too."""

    async def question(self, question: Question) -> None:
        """Take up a question of the call."""

    def withdrawn(self, request_id: bytes) -> None:
        """Take it that the server called off what it asked under an id; not each is the call's."""


class SessionEvents(Protocol):
    """Who hears what an upstream session says of its own accord. The tasks room implements it."""

    async def question(self, question: Question) -> None:
        """Take up a question."""

    async def withdrawn(self, session_id: str, request_id: bytes) -> None:
        """Take it that the server called off what it asked on a session under an id."""

    async def status(self, task_pk: int) -> None:
        """Take up that the server announced a change of a task."""

    async def progress(self, task_pk: int, message: str) -> None:
        """Take up progress of a task whose handle was returned (ML-PROGRESS)."""

    async def unheard(self, task_pk: int) -> None:
        """Take up that the task's session is not listened to for want of a credential (OWN-CREDENTIAL)."""


class Credentials(Protocol):
    """Whether the shim may work for a caller on its own (OWN-CREDENTIAL). `Authority` implements it."""

    def waiting(self, ctx: Context) -> bool:
        """Tell whether background work has to wait for a credential of the caller's."""

    def pause(self, ctx: Context, pk: int) -> bool:
        """Note that work on a task waits; False if that was told already in this pause."""

    async def renewed(self, ctx: Context) -> None:
        """Wait until the caller comes back with a credential that the upstream accepts."""

    def offered(self, ctx: Context) -> None:
        """Take up the credential of a caller who is known without the upstream, where there is none."""


class Holder(Protocol):
    """Where a task lives: at a server, or in the shim itself."""

    async def cancel(self, ctx: Context, row: TaskRow) -> bool:
        """Ask to cancel; False where the server has no cancel. Raises TaskUnknown, TaskGone, SessionLost."""

    async def answer(self, ctx: Context, row: TaskRow, asked: InputRow) -> bool:
        """Deliver an answer; False when it is not taken. Raises SessionLost."""

    async def ended(self, row: TaskRow) -> None:
        """Note that the task needs nothing any longer."""


class Upstream(Holder, Protocol):
    """One server behind the shim."""

    name: str
    dialect: Dialect
    has_sessions: bool

    @property
    def credentials(self) -> Credentials:
        """Whose credentials there are for the shim's own work."""

    def next_id(self) -> bytes:
        """Make a JSON-RPC id that no session has seen (IDS)."""

    async def facts(self, ctx: Context) -> Facts:
        """Give the handshake's answer for this caller."""

    async def judge(self, ctx: Context) -> None:
        """Send a harmless request, so that the server judges the caller's credential (OWN-VOUCH)."""

    async def plain(self, ctx: Context, method: str, params: Members) -> Response:
        """Send a request that makes no task and give its answer."""

    async def listen(self, ctx: Context, params: Members, heard: Notify) -> bool:
        """Subscribe until the server ends it or the caller leaves; False where it has no subscriptions.

        First the server's acknowledgement is heard, then what it announces.
        """

    async def tool_support(self, ctx: Context, tool: str) -> str:
        """Tell whether the tool runs as a task: required, optional or forbidden (ML-CREATE)."""

    async def accepts_session(self, ctx: Context, session_id: str) -> bool:
        """Tell whether the server takes a request of this caller's on a session (OWN-ADOPT)."""

    async def create(
        self, ctx: Context, params: Members, ttl_ms: int | None, *, session_id: str | None = None
    ) -> Created | Answered:
        """Ask for a task, on a client's own session where one is given."""

    async def find(self, ctx: Context, task_id: str) -> Reading | None:
        """Look for a task that the ledger does not know, where the caller would look (OWN-ADOPT)."""

    async def keep(self, row: TaskRow) -> None:
        """Note that the created task is in the ledger; questions that waited for it are let through."""

    async def get(self, ctx: Context, row: TaskRow) -> Reading:
        """Read the task once. Raises TaskUnknown, SessionLost."""

    async def result(self, ctx: Context, row: TaskRow, request_id: bytes) -> Response:
        """Wait for the task's payload on its own stream. Raises NotYet, TaskUnknown, SessionLost."""

    async def abandon_result(self, ctx: Context, row: TaskRow, request_id: bytes) -> None:
        """Tell the server that nobody reads that tasks/result any more."""

    async def sweep(self, *, delete: bool) -> None:
        """Drop sessions that nobody used for a while and no open task needs; `delete` tells the server."""
