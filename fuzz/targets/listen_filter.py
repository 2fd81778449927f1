"""What a subscription asks for: read as it was said, written as it was read, and nothing else gets out."""

from fuzz.reference import NotJson, Pairs, TooDeep, loads
from shim.wire.errors import INVALID_PARAMS, ClientFault
from shim.wire.subscriptions import EVERY_TASK, LIST_OF, LISTS, read_filter, write_filter

SEEDS = (
    b'{"toolsListChanged":true,"resourceSubscriptions":["a://b"],"taskIds":["t","t"]}', b'["notifications/tasks"]', b"{}",
    b'{"taskIds":[]}', b'{"taskids":["t"],"promptsListChanged":false}', b'["notifications/tools/list_changed",1]', b'{"taskIds":[1]}',
)  # fmt: skip
WORDS = (
    b'"toolsListChanged":', b"true", b"false", b'"taskIds":[', b'"taskids":["x"]', b'"tas\xe2\x84\xaaIds":["x"]', b"null",
    b'"resourceSubscriptions":[', b'"t"', b'"notifications/tasks"', b"[", b"]", b"{", b"}", b",", b'"\\ud800"',
)  # fmt: skip


def check(data: bytes) -> None:
    """Read a filter, hold it against the JSON, write it and read it again."""
    try:
        said = loads(data)
    except (NotJson, TooDeep):
        return
    try:
        wanted = read_filter({"notifications": data.strip()})
    except ClientFault as fault:
        assert fault.code == INVALID_PARAMS
        return
    if isinstance(said, list):
        assert wanted.named
        assert wanted.every_task == (EVERY_TASK in said)
        assert wanted.lists == {LIST_OF[name] for name in said if name in LIST_OF}
        return
    assert isinstance(said, Pairs)
    assert not said.repeats(), "an ambiguous filter is read"
    assert all(isinstance(one, str) for one in (*wanted.uris, *(wanted.task_ids or ())))
    assert wanted.lists == {name for name in LISTS if said.get(name) is True}
    assert wanted.task_ids is None or list(wanted.task_ids) == list(dict.fromkeys(said.get("taskIds")))
    assert (wanted.task_ids is None) == ("taskIds" not in {key for key, _ in said.items})
    assert list(wanted.uris) == list(dict.fromkeys(said.get("resourceSubscriptions") or ()))
    again = read_filter({"notifications": write_filter(wanted.lists, wanted.uris, wanted.task_ids)})
    assert again == wanted, "written it asks for something else"
