"""A ledger row as the hub task that a client is shown."""

from collections.abc import Sequence

from shim.hub import rawjson
from shim.hub.status import Status
from shim.hub.task import Task
from shim.ledger.records import InputRow, TaskRow

UNSEEN = "waiting for input that this client did not declare support for"


def task_of(row: TaskRow, asked: Sequence[InputRow] = (), kinds: frozenset[str] | None = None) -> Task:
    """Show a row; `kinds` are the question kinds the asking client declared (None: shown without questions).

    A client that cannot answer any of the questions sees `working` with a message (ML-UPDATE).
    """
    status, message = row.status, row.status_message
    requests: dict[str, bytes] | None = None
    if status is Status.INPUT_REQUIRED and kinds is not None:
        requests = {
            one.key: rawjson.join({"method": rawjson.encode(one.method), "params": one.params})
            for one in asked
            if one.kind in kinds
        }
        if not requests:
            status, message, requests = Status.WORKING, message or UNSEEN, None
    return Task(
        task_id=row.task_id, status=status, status_message=message, created_at=row.created_at,
        last_updated_at=row.last_updated_at, ttl_ms=row.ttl_ms, poll_interval_ms=row.poll_interval_ms,
        result=row.result, error=row.error, input_requests=requests, meta=row.meta,
    )  # fmt: skip
