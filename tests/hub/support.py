"""Samples and short ways the hub's tests share."""

from typing import Any

from shim.hub import rawjson
from shim.hub.registry import load_dialects
from shim.hub.status import Status
from shim.hub.task import Task

DIALECTS = load_dialects()
SEP_2663 = DIALECTS["sep-2663"]
EXPERIMENTAL = DIALECTS["experimental"]
CREATE_STATUS = DIALECTS["create-status"]
QUESTION = (
    b'{"method":"elicitation/create","params":{"mode":"form","message":"sure?",'
    b'"requestedSchema":{"type":"object","properties":{}}}}'
)

PAYLOAD = (
    b'{"content":[ {"type":"text","text":"\\ud800 lone"} ],"structuredContent":'
    b'{"big":9007199254740993,"price":1.10,"zero":-0,"e":1E+2,"unknown":{"x":[null]}}}'
)
"""What a typed model would not give back as it came (HUB-5)."""


def sample(status: Status, **changes: Any) -> Task:
    """Give a task with every field that its state may have."""
    fields: dict[str, Any] = {
        "task_id": "t-1",
        "status": status,
        "status_message": "half way",
        "created_at": "2025-11-25T10:30:00Z",
        "last_updated_at": "2025-11-25T10:40:00Z",
        "ttl_ms": 60_000,
        "poll_interval_ms": 500,
        "result": PAYLOAD if status is Status.COMPLETED else None,
        "error": b'{"code":-32000,"message":"no","data":1.10}' if status is Status.FAILED else None,
        "input_requests": {"k": QUESTION} if status is Status.INPUT_REQUIRED else None,
    }
    return Task(**{**fields, **changes})


def task_object(dialect_name: str, **changes: object) -> dict[str, bytes]:
    """Give a minimal task object of a dialect as raw members; None takes a member away."""
    ttl = "ttlMs" if dialect_name == "sep-2663" else "ttl"
    state = "running" if dialect_name == "create-status" else "working"
    plain: dict[str, object] = {
        "taskId": "t-1",
        "status": state,
        "createdAt": "2025-11-25T10:30:00Z",
        "lastUpdatedAt": "2025-11-25T10:30:00Z",
        ttl: 60_000,
    }
    raw = {key: rawjson.encode(value) for key, value in plain.items()}
    for key, value in changes.items():
        raw.pop(key, None)
        if value is not None:
            raw[key] = value if isinstance(value, bytes) else rawjson.encode(value)
    return raw
