"""What an upstream's ended task becomes in the hub (ML-TERMINAL). Pure."""

from dataclasses import dataclass

from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.hub.status import Status
from shim.ledger.records import TaskRow
from shim.wire.envelope import strip_related_task
from shim.wire.errors import INTERNAL
from shim.wire.jsonrpc import Response

_TEXT_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class End:
    """How a task ended: with a result or an error; `reason` when a reading had to be made."""

    status: Status
    result: bytes | None = None
    error: bytes | None = None
    reason: str | None = None


def end_of(status: Status, response: Response | None, status_message: str | None) -> End:
    """Settle an upstream's `completed` or `failed` and what its tasks/result said (None: none to be had)."""
    if status is Status.CANCELLED:
        return End(status)
    if response is not None and response.error is not None:
        reason = "error_of_completed" if status is Status.COMPLETED else None
        return End(Status.FAILED, error=response.error, reason=reason)
    result = strip_related_task(response.result) if response is not None and response.result else None
    if status is Status.COMPLETED and result is not None:
        return End(status, result=result)
    members = rawjson.members(result) if result is not None else {}
    if members.get("isError") == b"true":
        return End(Status.COMPLETED, result=result)
    message = status_message or first_text(members) or "the task failed and the upstream gave no reason"
    return End(Status.FAILED, error=error(INTERNAL, message), reason="error_made")


def error(code: int, message: str) -> bytes:
    """Build a JSON-RPC error object."""
    return rawjson.encode({"code": code, "message": message})


CANCELLED = error(INTERNAL, "task was cancelled")
"""What is told for a result to who waited for a task that was cancelled."""


def outcome(row: TaskRow) -> Response:
    """Give what a plain call would have got of a task that has ended (ML-UNDECLARED, LM-PLAIN)."""
    if row.result is not None:
        return Response(None, row.result, None)
    return Response(None, None, row.error or CANCELLED)


def first_text(result: Members) -> str | None:
    """Give the start of the first text of a tool's result."""
    content = result.get("content")
    if content is None:
        return None
    items = rawjson.decode(content)
    for item in items if isinstance(items, list) else ():
        if isinstance(item, dict) and isinstance(text := item.get("text"), str) and text:
            return text[:_TEXT_CHARS]
    return None
