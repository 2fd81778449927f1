"""A dialect: one way of speaking about tasks, as a table of facts (CS-TABLE)."""

from collections.abc import Mapping
from functools import cached_property

import msgspec
from pydantic import ValidationError

from shim.hub import number, rawjson, toml
from shim.hub.facts import CALL, Facts
from shim.hub.rawjson import Members
from shim.hub.status import Status
from shim.hub.totality import gaps

DialectError = toml.TableError
"""A table cannot be used; the message says where and why."""


class CreateRequest(msgspec.Struct, frozen=True):
    """A request for a task, read: the call itself and what was asked of the task."""

    params: Members
    tool: str | None
    ttl_ms: int | None


class Dialect(Facts):
    """One dialect's table and what follows from it; made by `load_dialect` only."""

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

    def asks_for_task(self, params: Members) -> bool:
        """Tell whether a call's params ask for a task as this dialect does."""
        return self.creates_by_param and self.create.member in params

    @cached_property
    def names_by_lower_case(self) -> dict[str, str]:
        """Give the members of requests that this dialect names itself."""
        names = (
            self.create.member, self.fields.task_id, self.fields.ttl, self.fields.input_responses,
            self.members.cursor,
        )  # fmt: skip
        return {name.casefold(): name for name in names if name}

    @property
    def asks_inline(self) -> bool:
        """True where a task object can show its questions."""
        return bool(self.fields.input_requests)

    @property
    def cancel_of_ended(self) -> str:
        """Say what cancelling an ended task gives: `ack` or `error`."""
        return self.carries.cancel_of_ended

    def naming(self, task_id: str) -> Members:
        """Build the params that name a task."""
        return {self.fields.task_id: rawjson.encode(task_id)}

    def named(self, params: Members) -> str | None:
        """Give the task that params name; None where they name none."""
        return rawjson.string(params.get(self.fields.task_id))

    def answering(self, task_id: str, responses: Mapping[str, bytes]) -> Members:
        """Build the params that answer a task's questions."""
        return {**self.naming(task_id), str(self.fields.input_responses): rawjson.join(responses)}

    def create_request(self, params: Members, ttl_ms: int | None) -> tuple[str, Members]:
        """Build the request that asks this dialect's server for a task: method and params."""
        method = self.methods.create or CALL
        ttl = self.fields.ttl
        asked = {ttl: rawjson.encode(ttl_ms)} if ttl and ttl_ms is not None else {}
        if self.create.style == "augment":
            return method, {**params, self.create.member: rawjson.join(asked)}
        return method, {**params, **asked}

    def read_create_request(self, params: Members) -> CreateRequest:
        """Read a client's request for a task (CS-CREATE). Raises ValueError that names the parameter."""
        call = dict(params)
        ttl = self.fields.ttl or ""
        if self.create.style == "augment":
            member = self.create.member
            asked = _object(call.pop(member, b"{}"), member)
            ttl_ms = _ttl(asked.get(ttl), f"{member}.{ttl}")
            return CreateRequest(call, rawjson.string(call.get("name")), ttl_ms)
        ttl_ms = _ttl(call.pop(ttl, None), ttl)
        if "method" in call:
            if rawjson.string(call["method"]) != CALL:
                raise ValueError(f"method: only {CALL} can run as a task")
            meta = {"_meta": call["_meta"]} if "_meta" in call else {}
            call = {**meta, **_object(call.get("params", b""), "params")}
        return CreateRequest(call, rawjson.string(call.get("name")), ttl_ms)


def load_dialect(text: str, source: str) -> Dialect:
    """Read a table; one that is not total is refused. `source` names the file. Raises DialectError."""
    try:
        dialect = Dialect.model_validate(toml.parse(text, source))
    except ValidationError as exc:
        raise toml.fault(text, source, *_first(exc)) from exc
    for gap in gaps(dialect):
        raise toml.fault(text, source, gap.path, gap.fault)
    return dialect


def _first(exc: ValidationError) -> tuple[toml.Path, str]:
    """Give the place and the fault of the first error, in words for who edits the file."""
    error = exc.errors()[0]
    path = tuple(str(part) for part in error["loc"])[:2]
    if error["type"] == "missing":
        return path, "is missing"
    if error["type"] == "extra_forbidden":
        return path, "is no key of a dialect's table"
    if error["loc"][0] in {"outwards", "inwards", "lenient", "messages"}:
        states = ", ".join(Status)
        return path, f"{error['input']!r} does not fit; the hub's states are {states}"
    return path, str(error["msg"]).removeprefix("Value error, ")


def _object(raw: bytes, where: str) -> Members:
    try:
        return rawjson.members(raw)
    except rawjson.RawJsonError as exc:
        raise ValueError(f"{where}: expected an object") from exc


def _ttl(raw: bytes | None, where: str) -> int | None:
    if number.is_absent(raw):
        return None
    value = number.floored(raw)
    if value is None:
        raise ValueError(f"{where}: expected a number of milliseconds")
    return value
