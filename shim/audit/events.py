"""The audit log's events: one class a name, in the shape they are written (AUDIT.md).

A field that is not set is left out. What only the writer knows (`v`, `seq`, `ts`, `instance`) is put in
front by the sink. Names and meanings are stable: additions only. No field holds an argument, a result, a
credential or a header value.
"""

from collections import Counter
from typing import Any, Literal, Protocol

import msgspec

SCHEMA_VERSION = 1

Outcome = Literal["ok", "error", "denied", "cancelled", "disconnected"]
Side = Literal["client", "upstream"]
Verdict = Literal["same", "different", "skipped"]
"""What became of a shadow comparison."""


class AuditSink(Protocol):
    """Where events go."""

    reached: Counter[str]
    """How often each bound was reached, by its key in the config: many are where no request is at work."""

    def emit(self, event: "Event") -> None:
        """Take an event; never blocks and never raises, an event that finds no room is counted."""


class Client(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Name and version as the client states them."""

    name: str | None = None
    version: str | None = None


class Event(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True, tag_field="event"):
    """What every event may say: whose request it belongs to and between whom it passed."""

    request_id: str | None = None
    trace_id: str | None = None
    caller: str | None = None
    caller_kind: str | None = None
    caller_label: str | None = None
    client: Client | None = None
    era: str | None = None
    dialect: str | None = None
    upstream: str | None = None
    upstream_era: str | None = None
    upstream_dialect: str | None = None
    corner: str | None = None


class RequestEnded(Event, tag="request", frozen=True, kw_only=True):
    """The canonical line: once per client request, at its end."""

    outcome: Outcome
    method: str | None = None
    tool: str | None = None
    task_id: str | None = None
    code: int | None = None
    http_status: int | None = None
    ms: float
    upstream_ms: float
    upstream_calls: int
    bytes_in: int
    bytes_out: int
    rules: tuple[str, ...]
    legacy: bool
    """True if the request used anything that ends at sunset."""
    legacy_features: tuple[str, ...] = ()
    unidentified: bool = False
    """True if it was turned away before anything told who calls: nobody was served by it."""
    reason: str | None = None
    """Why it was denied, if it was."""
    fault: str | None = None
    """What was wrong with an upstream or the shim, if that is why it failed; nothing that a peer wrote."""


class _TaskStep(Event, frozen=True, kw_only=True, rename={"from_": "from"}):
    task_id: str | None = None
    from_: str | None = None
    to: str | None = None
    age_ms: int | None = None
    via: str | None = None
    """The corner it was seen through."""
    local: bool | None = None
    """True for a task that only the shim has."""


class TaskCreated(_TaskStep, tag="task.created", frozen=True):
    """A task is in the ledger."""


class TaskStatus(_TaskStep, tag="task.status", frozen=True):
    """A task moved and goes on."""


class TaskEnded(_TaskStep, tag="task.ended", frozen=True):
    """A task reached a terminal state."""


class TaskPurged(_TaskStep, tag="task.purged", frozen=True):
    """A task's payload left the ledger."""


class TaskLost(Event, tag="task.lost", frozen=True, kw_only=True):
    """The upstream no longer knows a task."""

    task_id: str | None = None
    reason: str | None = None


class _Input(Event, frozen=True, kw_only=True):
    task_id: str | None = None
    key: str | None = None
    kind: str | None = None
    waited_ms: int | None = None


class InputAsked(_Input, tag="input.asked", frozen=True):
    """A question came up."""


class InputAnswered(_Input, tag="input.answered", frozen=True):
    """A question was answered."""


class InputDeclined(_Input, tag="input.declined", frozen=True):
    """A question was declined."""


class InputWithdrawn(_Input, tag="input.withdrawn", frozen=True):
    """The server called a question off, or shows it no more (INPUT-GONE)."""


class Denied(Event, tag="denied", frozen=True, kw_only=True):
    """A request was refused; only this log tells not_owner from unknown_task."""

    reason: str
    limit: str | None = None
    """The key of the config whose bound was reached, if that is why."""
    task_id: str | None = None


class _Reading(Event, frozen=True, kw_only=True):
    rule: str
    detail: str | None = None
    """Names and types, never values."""
    task_id: str | None = None


class Lenient(_Reading, tag="lenient", frozen=True):
    """A tolerant reading was used."""


class IllegalTransition(_Reading, tag="hub.illegal_transition", frozen=True):
    """An upstream left a terminal state; nothing changed (HUB-1)."""


class UpstreamInvalid(_Reading, tag="upstream.invalid", frozen=True):
    """An upstream broke its own rules."""


class Loss(Event, tag="loss", frozen=True, kw_only=True):
    """Something could not cross."""

    rule: str
    field: str
    task_id: str | None = None


class _Session(Event, frozen=True, kw_only=True):
    side: Side
    reason: str | None = None


class SessionOpened(_Session, tag="session.opened", frozen=True):
    """A session began."""


class SessionClosed(_Session, tag="session.closed", frozen=True):
    """A session was ended by whom it belongs to."""


class SessionLost(_Session, tag="session.lost", frozen=True):
    """The upstream no longer knows a session."""


class _Upstream(Event, frozen=True, kw_only=True):
    verdict: str | None = None
    evidence: str | None = None


class UpstreamProbed(_Upstream, tag="upstream.probed", frozen=True):
    """An upstream's era was looked for."""


class UpstreamDown(_Upstream, tag="upstream.down", frozen=True):
    """An upstream stopped answering."""


class UpstreamUp(_Upstream, tag="upstream.up", frozen=True):
    """An upstream answers again."""


class ProviderDown(Event, tag="provider.down", frozen=True, kw_only=True):
    """An identity provider stopped giving answers that can be used."""

    source: str
    evidence: str


class ProviderUp(Event, tag="provider.up", frozen=True, kw_only=True):
    """An identity provider answers again."""

    source: str


class ConfigReloaded(Event, tag="config.reloaded", frozen=True, kw_only=True):
    """The config was read again; `changed` names the keys."""

    changed: tuple[str, ...] = ()


class CutoverChanged(Event, tag="cutover.changed", frozen=True, kw_only=True):
    """New calls go elsewhere than before; `by` is who wanted it: `config`, or who asked the admin address."""

    default: str | None = None
    rules: tuple[str, ...] = ()
    drain: tuple[str, ...] = ()
    by: str


class Rerouted(Event, tag="rerouted", frozen=True, kw_only=True):
    """A request went to another upstream than the rules name: that is down, or has no such tool."""

    wanted: str
    """The upstream that the rules name."""
    reason: str
    """down, tool."""
    tool: str | None = None


class SunsetPassed(Event, tag="sunset", frozen=True, kw_only=True):
    """A request of the old API came after its end; `action`: warned, refused."""

    action: str
    method: str | None = None


class _OfShadow(Event, frozen=True, kw_only=True):
    tool: str
    other: str
    """The upstream that the copy went to; `upstream` is the one whose answer the client got."""


class ShadowCompared(_OfShadow, tag="shadow.compared", frozen=True, kw_only=True):
    """What became of sampled calls within a minute; `reason` says why nothing was compared (SHADOW)."""

    outcome: Verdict
    reason: str | None = None
    count: int


class ShadowDiff(_OfShadow, tag="shadow.diff", frozen=True, kw_only=True):
    """Two upstreams' answers to one call differ: where, how, how often; never the values (SHADOW)."""

    path: str
    kind: str
    count: int


class InstanceStarted(Event, tag="instance.started", frozen=True, kw_only=True):
    """A process's run began."""

    version: str
    config_digest: str


class InstanceStopped(Event, tag="instance.stopped", frozen=True, kw_only=True):
    """A process's run ended in order."""

    version: str
    config_digest: str


class Waiting(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Requests of one caller, client and method that have not ended yet."""

    caller: str | None = None
    caller_kind: str | None = None
    client: Client | None = None
    era: str | None = None
    method: str | None = None
    count: int
    oldest_ms: int


class Connected(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """Open sessions of one caller and client."""

    caller: str | None = None
    caller_kind: str | None = None
    client: Client | None = None
    count: int


class InstanceAlive(Event, tag="instance.alive", frozen=True, kw_only=True):
    """At the start, every minute and at the end: what ended since, what is still open, what was dropped."""

    requests: dict[str, int]
    """By corner, ended since the previous instance.alive."""
    sessions: int
    """Open sessions of legacy clients."""
    connected: tuple[Connected, ...] = ()
    """Whose they are; the largest groups."""
    waiting: tuple[Waiting, ...]
    dropped: int
    """Events lost since the start."""


class _OfTask(Event, frozen=True, kw_only=True):
    task_id: str | None = None


class Adopted(_OfTask, tag="adopted", frozen=True):
    """A task or session from before the shim was taken over (OWN-ADOPT)."""


class InputLost(_OfTask, tag="input.lost", frozen=True):
    """The upstream waits for an answer to a question that never came (ML-INPUT)."""


class TaskAbandoned(_OfTask, tag="task.abandoned", frozen=True):
    """No client has touched a task for a long time (DUR-6)."""


class TaskWaitingCredential(_OfTask, tag="task.waiting_credential", frozen=True):
    """Background work on a task pauses until its caller comes back (OWN-CREDENTIAL)."""


class TaskRerun(_OfTask, tag="task.rerun", frozen=True):
    """A call that was under way when the shim died runs once more (PROMOTE-3)."""


class AuditDropped(Event, tag="audit.dropped", frozen=True, kw_only=True):
    """Events were lost since the last event of this name."""

    count: int


def _concrete(base: type[Event]) -> dict[str, type[Event]]:
    found: dict[str, type[Event]] = {}
    for cls in base.__subclasses__():
        if isinstance(cls.__struct_config__.tag, str) and not cls.__name__.startswith("_"):
            found[cls.__struct_config__.tag] = cls
        found.update(_concrete(cls))
    return found


EVENTS: dict[str, type[Event]] = _concrete(Event)
"""Name -> class, every event there is."""


def make(name: str, fields: dict[str, Any]) -> Event:
    """Build the event of that name; `from` may be given as it is written."""
    if "from" in fields:
        fields["from_"] = fields.pop("from")
    return EVENTS[name](**fields)
