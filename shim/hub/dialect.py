"""A dialect: one way of speaking about tasks, as a table of facts (CS-TABLE).

A table is total or it is refused: every hub state has a way out, every state that goes out has a way
back, every verb is a method name or `false`. The refusal names the file, the line and what is missing.
"""

import re
import tomllib
from functools import cached_property
from typing import Literal

import msgspec
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.hub.status import Status

Method = str | Literal[False]


class DialectError(ValueError):
    """A table cannot be used; the message says where and why."""


class _Table(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Methods(_Table):
    """Verb -> JSON-RPC method, or false where the dialect lacks it."""

    create: Method
    get: str
    result: Method
    list: Method
    update: Method
    cancel: Method
    answer: Method
    status_notification: Method

    @cached_property
    def _verbs(self) -> dict[str, str]:
        verbs = {getattr(self, verb): verb for verb in ("get", "result", "list", "cancel", "answer")}
        if self.create and self.create.startswith("tasks/"):
            verbs[self.create] = "create"
        verbs.pop(False, None)
        return verbs

    def verb(self, method: str) -> str | None:
        """Tell which verb a method of the dialect is; None for one that is no task method of it."""
        return self._verbs.get(method)

    def names(self) -> frozenset[str]:
        """Give the dialect's own task methods."""
        return frozenset(self._verbs)


class Create(_Table):
    """How a task is asked for, and where the reply has it."""

    style: Literal["augment", "call", "server"]
    reply: Literal["flat", "nested"]
    first: str


class Fields(_Table):
    """The names of a task object's members."""

    task_id: str
    status: str
    status_message: str
    created_at: str
    last_updated_at: str
    ttl: str
    poll_interval: str


class Carries(_Table):
    """What the dialect can carry and where."""

    ttl_always: bool
    result_inline: bool
    input_inline: bool
    input_stream: bool
    related_task: bool
    ack: bool
    cancel_of_ended: Literal["ack", "error"]
    tool_support: Literal["listed", "optional", "none"]


class CreateRequest(msgspec.Struct, frozen=True):
    """A request for a task, read: the call itself and what was asked of the task."""

    params: Members
    tool: str | None
    ttl_ms: int | None


class Dialect(_Table):
    """One dialect's table; see `mappings/`."""

    name: str = Field(pattern=r"^[a-z0-9][a-z0-9.-]*$")
    era: Literal["legacy", "modern"]
    methods: Methods
    create: Create
    fields: Fields
    carries: Carries
    outwards: dict[Status, str]
    inwards: dict[str, Status]
    lenient: dict[str, Status] = {}
    messages: dict[Status, str] = {}

    @property
    def related_task(self) -> bool:
        """True where results and questions name their task in `_meta`."""
        return self.carries.related_task

    @property
    def tool_support(self) -> str:
        """Say where a tool's task support is to be found: `listed`, `optional` (assumed) or `none`."""
        return self.carries.tool_support

    @property
    def lists_task_support(self) -> bool:
        """True where tools/list says which tools run as tasks."""
        return self.carries.tool_support == "listed"

    @property
    def creates_by_param(self) -> bool:
        """True where a task is asked for by `params.task` of the call itself."""
        return self.create.style == "augment"

    @property
    def asks_inline(self) -> bool:
        """True where a task object can show its questions."""
        return self.carries.input_inline

    @property
    def cancel_of_ended(self) -> str:
        """Say what cancelling an ended task gives: `ack` or `error`."""
        return self.carries.cancel_of_ended

    def create_request(self, params: Members, ttl_ms: int | None) -> tuple[str, Members]:
        """Build the request that asks this dialect's server for a task: method and params."""
        method = self.methods.create or "tools/call"
        asked = {} if ttl_ms is None else {"ttl": rawjson.encode(ttl_ms)}
        if self.create.style == "augment":
            return method, {**params, "task": rawjson.join(asked)}
        return method, {**params, **asked}

    def read_create_request(self, params: Members) -> CreateRequest:
        """Read a client's request for a task. Raises RawJsonError, ValueError."""
        call = dict(params)
        if self.create.style == "augment":
            asked = rawjson.members(call.pop("task", b"{}"))
        else:
            asked = {"ttl": call.pop("ttl")} if "ttl" in call else {}
            if rawjson.string(call.get("method")) == "tools/call" and "params" in call:
                call = rawjson.members(call["params"])
        return CreateRequest(call, rawjson.string(call.get("name")), _ttl(asked.get("ttl")))


def load_dialect(text: str, source: str) -> Dialect:
    """Read a table. `source` names the file in messages. Raises DialectError."""
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError as exc:
        raise DialectError(f"{source}: not TOML: {exc}") from exc
    try:
        dialect = Dialect.model_validate(table)
    except ValidationError as exc:
        first = exc.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        line = _line_of(text, [str(part) for part in first["loc"]])
        raise DialectError(f"{source}:{line}: {where}: {first['msg']}") from exc
    _require_total(dialect, text, source)
    return dialect


def _require_total(dialect: Dialect, text: str, source: str) -> None:
    for status in Status:
        if status not in dialect.outwards:
            line = _line_of(text, ["outwards"])
            raise DialectError(f"{source}:{line}: outwards: the hub state {status.value!r} has no way out")
    for status, state in dialect.outwards.items():
        if state not in dialect.inwards:
            line = _line_of(text, ["outwards", status.value])
            raise DialectError(
                f"{source}:{line}: outwards.{status.value}: {state!r} has no way back in [inwards]"
            )
    if dialect.create.first and dialect.create.first not in dialect.inwards:
        line = _line_of(text, ["create", "first"])
        raise DialectError(f"{source}:{line}: create.first: {dialect.create.first!r} is missing in [inwards]")
    if dialect.methods.result is False and not dialect.carries.result_inline:
        line = _line_of(text, ["methods", "result"])
        raise DialectError(f"{source}:{line}: methods.result: false, but carries.result_inline is false too")
    if dialect.create.style != "server" and dialect.methods.create is False:
        line = _line_of(text, ["methods", "create"])
        raise DialectError(f"{source}:{line}: methods.create: false, but create.style asks for a method")


def _line_of(text: str, path: list[str]) -> int:
    """Find the line of a key, or of the table where it should stand."""
    lines = text.splitlines()
    start = 0
    for index, line in enumerate(lines):
        if path and re.match(rf"\s*\[{re.escape(path[0])}\]", line):
            start = index
            break
    else:
        path = ["", *path]
    key = path[1] if len(path) > 1 else ""
    for index in range(start, len(lines)):
        if key and re.match(rf"\s*\"?{re.escape(key)}\"?\s*=", lines[index]):
            return index + 1
        if index > start and lines[index].lstrip().startswith("["):
            break
    return start + 1


def _ttl(raw: bytes | None) -> int | None:
    if raw is None or raw == b"null":
        return None
    value = rawjson.decode(raw)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("ttl: expected a number of milliseconds")  # noqa: TRY004 - a value of the wire
    return int(value)
