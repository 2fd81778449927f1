"""The hub task: the only picture of a task that the core knows."""

import msgspec

from shim.hub.status import Status


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A task as SEP-2663 sees it; payloads are raw JSON as they came (HUB-5)."""

    task_id: str
    status: Status
    status_message: str | None = None
    created_at: str | None = None
    last_updated_at: str | None = None
    ttl_ms: int | None = None
    poll_interval_ms: int | None = None
    result: bytes | None = None
    error: bytes | None = None
    input_requests: dict[str, bytes] | None = None
    """Key -> raw `{"method", "params"}`, the questions outstanding."""
    meta: bytes | None = None
    """Raw `_meta` with the keys that belong to no dialect."""
