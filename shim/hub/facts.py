"""The facts of a dialect, as its file has them; see `mappings/` for what each means."""

from functools import cached_property
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PlainValidator

from shim.hub.status import Status

CALL = "tools/call"
"""The method a task is made of."""
UPDATED = "notifications/tasks/updated"
"""A name of the status notification that is read from every server and never written (section 1)."""


def _name_or_false(value: object) -> object:
    if value is False or (isinstance(value, str) and value):
        return value
    raise ValueError("expected a name, or false where the dialect has none")


def _state(value: object) -> Status:
    if not isinstance(value, str):
        raise ValueError("expected a state")  # noqa: TRY004 - pydantic collects value errors
    return Status(value)


def _state_or_false(value: object) -> Status | Literal[False]:
    return False if value is False else _state(value)


Name = Annotated[str, Field(min_length=1)]
NameOrFalse = Annotated[str | Literal[False], PlainValidator(_name_or_false)]
State = Annotated[Status, PlainValidator(_state)]
StateOrFalse = Annotated[Status | Literal[False], PlainValidator(_state_or_false)]


class Table(BaseModel):
    """A part of a dialect's file; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Methods(Table):
    """Verb -> JSON-RPC method, or false where the dialect lacks it."""

    create: NameOrFalse
    get: Name
    result: NameOrFalse
    list: NameOrFalse
    update: NameOrFalse
    cancel: NameOrFalse
    answer: NameOrFalse
    status_notification: NameOrFalse

    @cached_property
    def _verbs(self) -> dict[str, str]:
        verbs = ("create", "get", "result", "list", "cancel", "answer")
        methods = {getattr(self, verb): verb for verb in verbs}
        return {method: verb for method, verb in methods.items() if method and method != CALL}

    def verb(self, method: str) -> str | None:
        """Tell which verb a method of the dialect is; None for one that is no task method of it."""
        return self._verbs.get(method)

    def names(self) -> frozenset[str]:
        """Give the dialect's own task methods."""
        return frozenset(self._verbs)


class Create(Table):
    """How a task is asked for, and where the reply has it."""

    style: Literal["augment", "call", "server"]
    reply: Literal["flat", "nested"]
    member: Name
    """Holds a nested task, and what is asked of a task that augments a call."""
    first: str


class Fields(Table):
    """The names of a task's members, in the task and beside its id, or false where the dialect lacks one."""

    task_id: Name
    status: Name
    status_message: NameOrFalse
    created_at: NameOrFalse
    last_updated_at: NameOrFalse
    ttl: NameOrFalse
    poll_interval: NameOrFalse
    input_requests: NameOrFalse
    input_responses: NameOrFalse
    result: NameOrFalse
    error: NameOrFalse


class Listing(Table):
    """The members of methods.list's request and answer, or false where there is no such method."""

    tasks: NameOrFalse
    cursor: NameOrFalse
    next_cursor: NameOrFalse


class Carries(Table):
    """What else the dialect can carry and where."""

    ttl_always: bool
    input_stream: bool
    related_task: bool
    announces: bool
    ack: bool
    cancel_of_ended: Literal["ack", "error"]
    tool_support: Literal["listed", "optional", "none"]


class Facts(Table):
    """One dialect's file."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    era: Literal["legacy", "modern"]
    methods: Methods
    create: Create
    fields: Fields
    members: Listing
    carries: Carries
    outwards: dict[State, Name]
    inwards: dict[Name, State]
    lenient: dict[Name, StateOrFalse] = {}
    """States that are read and never written; false: the task is unknown to who says so (section 1)."""
    messages: dict[State, Name] = {}
