"""Task objects of every dialect: read or refused, and what the hub keeps stays the same there and back."""

from collections.abc import Callable, Mapping

from fuzz.reference import NotJson, TooDeep, plain
from fuzz.source import Source
from shim.hub import rawjson
from shim.hub.codec import CodecError, Reading, read_create, read_task, write_create, write_get, write_task
from shim.hub.dialect import Dialect
from shim.hub.rawjson import Members, RawJsonError
from shim.hub.registry import load_dialects
from shim.hub.task import Task

SEEDS = (
    b'\0{"taskId":"t","status":"working","ttl":1.5,"pollInterval":0,"createdAt":"c","lastUpdatedAt":"u"}',
    b'\1{"task":{"taskId":"t","status":"completed","ttl":null},"_meta":{"a":1}}',
    b'\2{"resultType":"task","taskId":"t","status":"completed","result":{"content":[]},"ttlMs":-1,"pollIntervalMs":9e99}',
    b'\2{"taskId":"t","status":"input_required","inputRequests":{"k":{"type":"elicitation","message":"m"}}}',
    b'\2{"taskId":"t","status":"failed","error":{"code":1,"message":"m"},"statusMessage":"\\ud800"}',
    b'\0{"taskId":"t","status":"submitted","statusMessage":7}',
)  # fmt: skip
WORDS = (
    b'"taskId":"t"', b'"status":"working"', b'"status":"completed"', b'"status":"failed"', b'"status":"cancelled"',
    b'"status":"input_required"', b'"status":"unknown"', b'"task":{', b'"result":{}', b'"result":[]', b'"error":{}', b'"ttl":',
    b'"ttlMs":', b'"pollIntervalMs":', b'"inputRequests":{', b'"_meta":{"x":1}', b'"resultType":"task"', b"null", b"-1",
    b"1e400", b"0.5", b'"\\ud800"', b'"\\u0000"', b"{", b"}", b",", b'"id":"t"', b'"state":"running"', b'"task_id":"t"',
)  # fmt: skip
_READERS: Mapping[Callable[[Dialect, Task], bytes], Callable[[Dialect, Members], Reading | None]] = {
    write_task: read_task,
    write_get: read_task,
    write_create: read_create,  # what stands beside a nested task is the task's too
}
_DIALECTS = tuple(load_dialects().values())


def check(data: bytes) -> None:
    """Read a task in a dialect, write it and read it again, in each of the three places."""
    source = Source(data)
    dialect, raw = source.pick(_DIALECTS), source.rest()
    try:
        plain(raw)
        members = rawjson.members(raw)
    except (NotJson, TooDeep, RawJsonError):
        return
    try:
        read_create(dialect, members)
        task = read_task(dialect, members).task
    except CodecError:
        return
    except RawJsonError as exc:
        assert exc.fault in {"not_object", "too_deep"}
        return
    assert task.ttl_ms is None or abs(task.ttl_ms) < 2**53
    assert task.poll_interval_ms is None or 0 < task.poll_interval_ms < 2**53
    for text in (task.task_id, task.status_message, task.created_at):
        assert text is None or text.encode().decode() == text, "what no database holds is kept"
    for write in _READERS:
        try:
            written = write(dialect, task)
        except CodecError:
            continue
        except RawJsonError as exc:
            assert exc.fault in {"not_object", "too_deep"}
            continue
        plain(written)
        reading = _READERS[write](dialect, rawjson.members(written))
        assert reading is not None, "a handle is read as one"
        again = reading.task
        assert again.task_id == task.task_id
        assert write is write_create or again.status in {task.status, "working"}
        assert write(dialect, again) == written, "there and back it is another task"
