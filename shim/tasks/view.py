"""A ledger row as the hub task that a client is shown."""

from collections.abc import Sequence

from msgspec.structs import replace

from shim.hub import rawjson
from shim.hub.status import Status
from shim.hub.task import Task
from shim.ledger.records import InputRow, TaskRow
from shim.tasks.terminal import first_text

UNSEEN = "waiting for input that this client did not declare support for"


def task_of(row: TaskRow, asked: Sequence[InputRow] = (), kinds: frozenset[str] | None = None) -> Task:
    """Show a row; `kinds` are the question kinds the asking client declared (None: shown without questions).

    A client that cannot answer any of the questions sees `working` with a message (ML-UPDATE). Who is shown
    results sees `failed` where there is an error in the place of one that is not kept (DUR-8).
    """
    status, message = row.status, row.status_message
    if status is Status.COMPLETED and row.result is None and row.error is not None:
        status = Status.FAILED
    requests: dict[str, bytes] | None = None
    if status is Status.INPUT_REQUIRED and kinds is not None:
        requests = {
            one.key: rawjson.join({"method": rawjson.encode(one.method), "params": one.params})
            for one in asked
            if one.kind in kinds
        }
        if not requests:
            # with none outstanding they have been answered, and the server is about to go on
            status, message, requests = Status.WORKING, message or (UNSEEN if asked else None), None
    return Task(
        task_id=row.task_id, status=status, status_message=message, created_at=row.created_at,
        last_updated_at=row.last_updated_at, ttl_ms=row.ttl_ms, poll_interval_ms=row.poll_interval_ms,
        result=row.result, error=row.error, input_requests=requests, meta=row.meta,
    )  # fmt: skip


def with_tool_error(row: TaskRow, task: Task, shown_as: str) -> Task:
    """Show a task whose tool reported an error to a legacy client, by `legacy.tool_error_status` (LM-GET).

    The 2025-11-25 text has it as `failed`; clients that then look no further see the error's first text,
    where that is kept.
    """
    if task.status is not Status.COMPLETED or shown_as == "completed":
        return task
    members = {} if row.result is None else rawjson.members(row.result)
    if not row.tool_error and members.get("isError") != b"true":
        return task
    return replace(task, status=Status.FAILED, status_message=task.status_message or first_text(members))
