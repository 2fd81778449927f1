"""Dialect JSON to hub task and back, by the dialect's table alone.

Readers take an object's raw members; writers give raw JSON. Payloads pass through untouched (HUB-5).
"""

import math
from dataclasses import dataclass

from shim.hub import rawjson
from shim.hub.dialect import Dialect
from shim.hub.rawjson import Members
from shim.hub.status import Status
from shim.hub.task import Task

_NULL = b"null"


class CodecError(ValueError):
    """What an upstream says of a task cannot be read (HUB-4); never taken for `working`."""


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
    """Read the answer to a create; None when it holds no handle but the call's own answer.

    Both places of the task are read, whatever the dialect writes (section 1 of the rules).
    """
    nested = result.get("task")
    if dialect.era == "modern" and rawjson.string(result.get("resultType")) != "task":
        return None
    if nested is not None and nested[:1] == b"{":
        reading = read_task(dialect, rawjson.members(nested), meta=result.get("_meta"))
        if dialect.create.reply == "nested":
            return reading
        return Reading(reading.task, (*reading.lenient, Lenient("section-1", "create reply: nested task")))
    if dialect.fields.task_id not in result or dialect.fields.status not in result:
        return None
    reading = read_task(dialect, result)
    if dialect.create.reply == "flat":
        return reading
    return Reading(reading.task, (*reading.lenient, Lenient("section-1", "create reply: flat task")))


def read_task(dialect: Dialect, members: Members, *, meta: bytes | None = None) -> Reading:
    """Read a task object of the dialect. Raises CodecError."""
    names = dialect.fields
    lenient: list[Lenient] = []
    task_id = rawjson.string(members.get(names.task_id))
    if not task_id:
        raise CodecError(f"{names.task_id}: expected the id of a task")
    task = Task(
        task_id=task_id,
        status=_status(dialect, members.get(names.status), lenient),
        status_message=rawjson.string(members.get(names.status_message)),
        created_at=rawjson.string(members.get(names.created_at)),
        last_updated_at=rawjson.string(members.get(names.last_updated_at)),
        ttl_ms=_ttl(members.get(names.ttl), lenient),
        poll_interval_ms=_poll_interval(members.get(names.poll_interval)),
        result=members.get("result") if dialect.carries.result_inline else None,
        error=members.get("error") if dialect.carries.result_inline else None,
        input_requests=_input_requests(dialect, members, lenient),
        meta=_foreign(members.get("_meta", meta)),
    )
    return Reading(task, tuple(lenient))


def write_task(dialect: Dialect, task: Task) -> bytes:
    """Write a task object of the dialect, as far as it can carry the task."""
    return rawjson.join(_task_members(dialect, task, dialect.outwards[task.status]))


def write_create(dialect: Dialect, task: Task, *, nested_too: bool = False) -> bytes:
    """Write the result object that hands a task out; `nested_too` is `[modern] create_result = "both"`."""
    shown = _task_members(dialect, task, dialect.create.first or dialect.outwards[task.status], handle=True)
    meta = {} if task.meta is None else {"_meta": task.meta}
    if dialect.create.reply == "nested":
        return rawjson.join({"task": rawjson.join(shown), **meta})
    envelope = {"resultType": b'"task"'} if dialect.era == "modern" else {}
    both = {"task": rawjson.join(shown)} if nested_too else {}
    return rawjson.join({**envelope, **shown, **both, **meta})


def write_get(dialect: Dialect, task: Task) -> bytes:
    """Write the result object of a status request, with what the state brings along inlined if it may be."""
    shown = _task_members(dialect, task, dialect.outwards[task.status])
    if dialect.carries.result_inline:
        if task.status is Status.COMPLETED and task.result is not None:
            shown["result"] = _complete(task.result)
        if task.status is Status.FAILED and task.error is not None:
            shown["error"] = task.error
    if dialect.carries.input_inline and task.input_requests:
        shown["inputRequests"] = rawjson.join(task.input_requests)
    envelope = {"resultType": b'"complete"'} if dialect.era == "modern" else {}
    return rawjson.join({**envelope, **shown})


def _task_members(dialect: Dialect, task: Task, state: str, *, handle: bool = False) -> Members:
    names = dialect.fields
    message = task.status_message
    if not handle and task.status in dialect.messages:
        fixed = dialect.messages[task.status]
        message = fixed if not message else f"{fixed}: {message}"
    shown: Members = {names.task_id: rawjson.encode(task.task_id), names.status: rawjson.encode(state)}
    if message is not None:
        shown[names.status_message] = rawjson.encode(message)
    if task.created_at is not None:
        shown[names.created_at] = rawjson.encode(task.created_at)
        shown[names.last_updated_at] = rawjson.encode(task.last_updated_at or task.created_at)
    if task.ttl_ms is not None or dialect.carries.ttl_always:
        shown[names.ttl] = rawjson.encode(task.ttl_ms)
    if task.poll_interval_ms is not None:
        shown[names.poll_interval] = rawjson.encode(task.poll_interval_ms)
    return shown


def _complete(result: bytes) -> bytes:
    """Give an inlined result its own discriminator, which clients insist on (PEERS)."""
    members = rawjson.members(result)
    if "resultType" in members:
        return result
    return rawjson.join({"resultType": b'"complete"', **members})


def _status(dialect: Dialect, raw: bytes | None, lenient: list[Lenient]) -> Status:
    state = rawjson.string(raw)
    if state is not None and (known := dialect.inwards.get(state)) is not None:
        return known
    if state is not None and (tolerated := dialect.lenient.get(state)) is not None:
        lenient.append(Lenient("section-1", f"status {state}"))
        return tolerated
    raise CodecError(f"{dialect.fields.status}: a state that {dialect.name} does not have")


def _ttl(raw: bytes | None, lenient: list[Lenient]) -> int | None:
    """Read a ttl: missing and null are unlimited, fractions are floored, <= 0 is passed on (HUB-7)."""
    number = _number(raw)
    if number is None:
        return None
    value = math.floor(number)
    if value <= 0:
        lenient.append(Lenient("HUB-7", "ttl not above 0"))
    return value


def _poll_interval(raw: bytes | None) -> int | None:
    """Read a poll interval: missing, null and <= 0 are none, fractions are ceiled (HUB-7)."""
    number = _number(raw)
    return None if number is None or number <= 0 else math.ceil(number)


def _number(raw: bytes | None) -> int | float | None:
    if raw is None or raw == _NULL:
        return None
    value = rawjson.decode(raw)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return value


def _input_requests(dialect: Dialect, members: Members, lenient: list[Lenient]) -> dict[str, bytes] | None:
    raw = members.get("inputRequests")
    if raw is None or not dialect.carries.input_inline or raw[:1] != b"{":
        return None
    return {key: _input_request(value, lenient) for key, value in rawjson.members(raw).items()} or None


def _input_request(raw: bytes, lenient: list[Lenient]) -> bytes:
    """Read a question; `{type, message, schema}` is the articles' form of an elicitation (section 1)."""
    members = rawjson.members(raw)
    if "method" in members or rawjson.string(members.get("type")) != "elicitation":
        return raw
    lenient.append(Lenient("section-1", "inputRequests: {type, message, schema}"))
    params: Members = {"mode": b'"form"'}
    for old, new in (("message", "message"), ("schema", "requestedSchema")):
        if old in members:
            params[new] = members[old]
    return rawjson.join({"method": b'"elicitation/create"', "params": rawjson.join(params)})


def _foreign(meta: bytes | None) -> bytes | None:
    """Keep the `_meta` keys that belong to no dialect."""
    if meta is None or meta[:1] != b"{":
        return None
    kept = {
        key: value
        for key, value in rawjson.members(meta).items()
        if not key.startswith("io.modelcontextprotocol/") or key in _KEPT
    }
    return rawjson.join(kept) if kept else None


_KEPT = frozenset(("io.modelcontextprotocol/model-immediate-response",))
