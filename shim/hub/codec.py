"""Dialect JSON to hub task and back, by the dialect's table alone.

Readers take an object's raw members; writers give raw JSON. Payloads pass through untouched (HUB-5).
"""

from dataclasses import dataclass
from typing import Literal

from shim.hub import number, rawjson
from shim.hub.dialect import Dialect
from shim.hub.rawjson import Members
from shim.hub.status import Status
from shim.hub.task import Task

SECTION_1 = "section-1"
"""Stands for a rule where the reading is one of section 1 of the rules."""
_SHOWN_CHARS = 40


class CodecError(ValueError):
    """What is said of a task cannot be read (HUB-4), or a task cannot be shown; never taken for `working`."""


class TaskUnknownError(CodecError):
    """The other side says, by a state of that meaning, that it does not know the task (ML-SESSION-LOST)."""


@dataclass(frozen=True, slots=True)
class Lenient:
    """A tolerant reading that was used: the rule, and names and types, never values."""

    rule: str
    detail: str


@dataclass(frozen=True, slots=True)
class Reading:
    """A task as read, and what had to be read tolerantly."""

    task: Task
    lenient: tuple[Lenient, ...] = ()


def read_create(dialect: Dialect, result: Members) -> Reading | None:
    """Read the answer to a create; None when it holds no handle but the call's own answer. Raises CodecError.

    Both places of the task are read, whatever the dialect writes (section 1 of the rules). In the modern
    era `resultType` alone tells the two answers apart.
    """
    names = dialect.fields
    nested = result.get(dialect.create.member, b"")
    if nested[:1] == b"{" and (dialect.create.reply == "nested" or names.task_id not in result):
        task, place = {"_meta": result.get("_meta", b""), **rawjson.members(nested)}, "nested"
        is_handle = names.task_id in task
    else:
        task, place = result, "flat"
        is_handle = names.task_id in task and names.status in task and "content" not in task
    if dialect.era == "modern":
        is_handle = rawjson.string(result.get("resultType")) == "task"
    if not is_handle:
        return None
    reading = read_task(dialect, task)
    if place == dialect.create.reply:
        return reading
    return Reading(reading.task, (*reading.lenient, Lenient(SECTION_1, f"create reply: {place} task")))


def read_task(dialect: Dialect, members: Members) -> Reading:
    """Read a task object of the dialect, or one nested in it. Raises CodecError, TaskUnknownError."""
    names = dialect.fields
    lenient: list[Lenient] = []
    nested = members.get(dialect.create.member, b"")
    if names.task_id not in members and nested[:1] == b"{":
        members = rawjson.members(nested)
        lenient.append(Lenient(SECTION_1, "nested task"))
    task = Task(
        task_id=_task_id(names.task_id, members),
        status=_status(dialect, members.get(names.status), lenient),
        status_message=_text(names.status_message, members, lenient),
        created_at=_text(names.created_at, members, lenient),
        last_updated_at=_text(names.last_updated_at, members, lenient),
        ttl_ms=_ttl(names.ttl, members, lenient),
        poll_interval_ms=_poll_interval(names.poll_interval, members, lenient),
        result=members.get(names.result or ""),
        error=members.get(names.error or ""),
        input_requests=_input_requests(names.input_requests, members, lenient),
        meta=_foreign(members.get("_meta", b"")),
    )
    return Reading(task, tuple(lenient))


def write_task(dialect: Dialect, task: Task) -> bytes:
    """Write a task object of the dialect, as far as it can carry the task. Raises CodecError (HUB-3)."""
    return rawjson.join(_detailed(dialect, task))


def write_get(dialect: Dialect, task: Task) -> bytes:
    """Write the result object of a status request. Raises CodecError (HUB-3)."""
    envelope = {"resultType": b'"complete"'} if dialect.era == "modern" else {}
    return rawjson.join({**envelope, **_detailed(dialect, task)})


def write_create(dialect: Dialect, task: Task, *, nested_too: bool = False) -> bytes:
    """Write the result object that hands a task out; `nested_too` is `[modern] create_result = "both"`."""
    state = dialect.create.first or dialect.outwards[task.status]
    shown = _plain(dialect, task, state, task.status_message)
    meta = {} if task.meta is None else {"_meta": task.meta}
    if dialect.create.reply == "nested":
        return rawjson.join({dialect.create.member: rawjson.join(shown), **meta})
    envelope = {"resultType": b'"task"'} if dialect.era == "modern" else {}
    both = {dialect.create.member: rawjson.join(shown)} if nested_too else {}
    return rawjson.join({**envelope, **shown, **both, **meta})


def _detailed(dialect: Dialect, task: Task) -> Members:
    """Give the task's members with what its state brings along, where the dialect has it in the task."""
    names, status = dialect.fields, task.status
    if status is Status.INPUT_REQUIRED and not (task.input_requests or dialect.carries.input_stream):
        status = Status.WORKING  # nothing was captured yet that could be shown (HUB-3)
    message = dialect.messages.get(status, task.status_message)
    shown = _plain(dialect, task, dialect.outwards[status], message)
    if names.result and status is Status.COMPLETED:
        result = _required(task.result, "completed", "result")
        shown[names.result] = _complete(result) if dialect.era == "modern" else result
    if names.error and status is Status.FAILED:
        shown[names.error] = _required(task.error, "failed", "error")
    if names.input_requests and status is Status.INPUT_REQUIRED and task.input_requests:
        shown[names.input_requests] = rawjson.join(task.input_requests)
    return shown


def _plain(dialect: Dialect, task: Task, state: str, message: str | None) -> Members:
    names = dialect.fields
    shown: Members = {names.task_id: rawjson.encode(task.task_id), names.status: rawjson.encode(state)}
    if names.status_message and message is not None:
        shown[names.status_message] = rawjson.encode(message)
    if names.created_at and task.created_at is not None:
        shown[names.created_at] = rawjson.encode(task.created_at)
    if names.last_updated_at and (updated_at := task.last_updated_at or task.created_at) is not None:
        shown[names.last_updated_at] = rawjson.encode(updated_at)
    if names.ttl and (task.ttl_ms is not None or dialect.carries.ttl_always):
        shown[names.ttl] = rawjson.encode(task.ttl_ms)
    if names.poll_interval and task.poll_interval_ms is not None:
        shown[names.poll_interval] = rawjson.encode(task.poll_interval_ms)
    return shown


def _required(payload: bytes | None, status: str, name: str) -> bytes:
    if payload is None:
        raise CodecError(f"a {status} task without its {name} cannot be shown")
    return payload


def _complete(result: bytes) -> bytes:
    """Give an inlined result its own discriminator, which clients insist on (PEERS)."""
    members = rawjson.members(result)
    if "resultType" in members:
        return result
    return rawjson.join({"resultType": b'"complete"', **members})


def _task_id(name: str, members: Members) -> str:
    task_id = rawjson.string(members.get(name))
    if not task_id or _storable(task_id) != task_id:
        raise CodecError(f"{name}: expected the id of a task")
    return task_id


def _status(dialect: Dialect, raw: bytes | None, lenient: list[Lenient]) -> Status:
    name = dialect.fields.status
    state = rawjson.string(raw)
    if state is None:
        raise CodecError(f"{name}: expected a state")
    if (known := dialect.inwards.get(state)) is not None:
        return known
    tolerated = dialect.lenient.get(state)
    if tolerated is None:
        raise CodecError(f"{name}: {state[:_SHOWN_CHARS]!r} is no state of {dialect.name}")
    if tolerated is False:
        raise TaskUnknownError(f"{name}: {state!r}")
    lenient.append(Lenient(SECTION_1, f"{name}: {state}"))
    return tolerated


def _text(name: str | Literal[False], members: Members, lenient: list[Lenient]) -> str | None:
    """Read a string of the task's own; what no database can hold of it is replaced."""
    raw = members.get(name or "")
    if number.is_absent(raw):
        return None
    text = rawjson.string(raw)
    if text is None:
        lenient.append(Lenient("HUB-5", f"{name}: no string"))
        return None
    kept = _storable(text)
    if kept != text:
        lenient.append(Lenient("HUB-5", f"{name}: lone surrogate"))
    return kept


def _storable(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _ttl(name: str | Literal[False], members: Members, lenient: list[Lenient]) -> int | None:
    """Read a ttl: missing and null are unlimited, fractions are floored, <= 0 is passed on (HUB-7)."""
    raw = members.get(name or "")
    value = number.floored(raw)
    if value is None and not number.is_absent(raw):
        lenient.append(Lenient("HUB-7", f"{name}: no number"))
    if value is not None and value <= 0:
        lenient.append(Lenient("HUB-7", f"{name}: not above 0"))
    return value


def _poll_interval(name: str | Literal[False], members: Members, lenient: list[Lenient]) -> int | None:
    """Read a poll interval: missing, null and <= 0 are none, fractions are ceiled (HUB-7)."""
    raw = members.get(name or "")
    value = number.ceiled(raw)
    if value is None and not number.is_absent(raw):
        lenient.append(Lenient("HUB-7", f"{name}: no number"))
    return None if value is None or value <= 0 else value


def _input_requests(
    name: str | Literal[False], members: Members, lenient: list[Lenient]
) -> dict[str, bytes] | None:
    raw = members.get(name or "")
    if raw is None or number.is_absent(raw):
        return None
    requests = {key: read_question(value, lenient) for key, value in _object(raw, name).items()}
    return requests or None


def read_question(raw: bytes, lenient: list[Lenient]) -> bytes:
    """Read a question; `{type, message, schema}` is the articles' form of an elicitation (section 1).

    Raises CodecError.
    """
    members = _object(raw, "a question")
    if "method" in members or rawjson.string(members.get("type")) != "elicitation":
        return raw
    lenient.append(Lenient(SECTION_1, "inputRequests: {type, message, schema}"))
    params = {
        "mode": b'"form"',
        "message": members.get("message", b'""'),
        "requestedSchema": members.get("schema", b'{"type":"object","properties":{}}'),
    }
    return rawjson.join({"method": b'"elicitation/create"', "params": rawjson.join(params)})


def _object(raw: bytes, where: object) -> Members:
    try:
        return rawjson.members(raw)
    except rawjson.RawJsonError as exc:
        raise CodecError(f"{where}: expected an object") from exc


def _foreign(meta: bytes) -> bytes | None:
    """Keep the `_meta` keys that belong to no dialect."""
    if meta[:1] != b"{":
        return None
    kept = {
        key: value
        for key, value in rawjson.members(meta).items()
        if not key.startswith("io.modelcontextprotocol/") or key in _KEPT
    }
    return rawjson.join(kept) if kept else None


_KEPT = frozenset(("io.modelcontextprotocol/model-immediate-response",))
