"""JSON-RPC messages: nothing ambiguous is read from a client, and what is read is what was said."""

from fuzz.reference import NotJson, Pairs, TooDeep, loads
from shim.hub import rawjson
from shim.wire.errors import INVALID_REQUEST, PARSE_ERROR, ClientFault, UpstreamFault
from shim.wire.jsonrpc import (
    Message,
    Notification,
    Request,
    Response,
    is_error,
    read_client,
    read_upstream,
    write_message,
)

SEEDS = (
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"a":[1.0]},"_meta":{}}}',
    b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"a"}}',
    b'{"jsonrpc":"2.0","id":"a","result":{"x":1}}', b'{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"m"}}',
    b'[{"jsonrpc":"2.0","id":1,"method":"a"}]', b'{"jsonrpc":"2.0","id":null,"method":"a","params":null}',
    b'{"jsonrpc":"2.0","id":1,"Method":"a","method":"b"}', b'{"jsonrpc":"2.0","id":1.0,"method":"a"}',
    b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"ta\xc5\xbfkId":1}}',
    b'{"jsonrpc":"2.0","id":1,"method":"a","params":{"_meta":{"a":1,"A":2}}}',
    b'{"jsonrpc":"2.0","id":1,"method":"a","Params":{}}',
)  # fmt: skip
WORDS = (
    b'"jsonrpc":"2.0",', b'"id":1,', b'"id":"1",', b'"id":null,', b'"method":"a",', b'"params":{},', b'"params":[],',
    b'"result":{},', b'"error":{},', b'"_meta":{"a":1,"A":2},', b'"taskId":"1",', b'"taskid":"2",', b'"Method":"b",',
    b'"meth\\u006fd":"c",', b"-0", b"01", b"1.0", b"null", b"{", b"}", b"[", b"]", b"\xe2\x84\xaa", b"\xc5\xbf", b",",
    b'"ta\xc5\xbfkId":"3",', b'"ta\xe2\x84\xaaid":1', b"\\u017f",
)  # fmt: skip
_KNOWN = ("jsonrpc", "id", "method", "params", "result", "error")
_READ = ("_meta", "name", "uri", "taskId", "arguments", "task", "inputResponses", "requestState", "cursor")


def check(data: bytes) -> None:
    """Read a message as a client's and as an upstream's."""
    is_error(data)
    theirs: Message | None = None
    try:
        theirs = read_upstream(data)
    except UpstreamFault:
        pass
    else:
        _same(theirs, data)
    try:
        ours = read_client(data)
    except ClientFault as fault:
        assert fault.code in {PARSE_ERROR, INVALID_REQUEST}, fault.code
        return
    said = _same(ours, data)
    assert said.get("jsonrpc") == "2.0"
    _unambiguous(said, _KNOWN)
    if isinstance(params := said.get("params"), Pairs):
        _unambiguous(params, _READ)
        if isinstance(meta := params.get("_meta"), Pairs):
            assert not meta.repeats(), "_meta says one thing twice"
    if not isinstance(ours, Notification):
        assert ours.id is not None
        assert type(loads(ours.id)) in {str, int}, "an id that is no id is taken"
    assert theirs == ours, "read as an upstream's it is another message"
    assert read_client(write_message(ours)) == ours, "written it is another message"


def _same(message: Message, data: bytes) -> Pairs:
    """Hold a message against the JSON that it was read from."""
    try:
        said = loads(data)
    except (NotJson, TooDeep) as exc:
        raise AssertionError("what is no JSON was read") from exc
    assert isinstance(said, Pairs)
    named = {key for key, _ in said.items}
    if isinstance(message, Response):
        assert "method" not in named
        assert message.id is None or loads(message.id) == said.get("id")
        for raw, key in ((message.result, "result"), (message.error, "error")):
            assert (raw is None) == (key not in named)
            assert raw is None or loads(raw) == said.get(key)
        return said
    assert isinstance(message, Request) == (said.get("id") is not None)
    if isinstance(message, Request):
        assert loads(message.id) == said.get("id")
        assert type(loads(message.id)) is type(said.get("id"))
    assert message.method == (said.get("method") if isinstance(said.get("method"), str) else "")
    params = said.get("params")
    assert rawjson.members(rawjson.join(message.params)) == message.params
    expected = dict(params.items) if isinstance(params, Pairs) else {}
    assert {key: loads(raw) for key, raw in message.params.items()} == expected
    return said


def _unambiguous(said: Pairs, read: tuple[str, ...]) -> None:
    """Hold that no member that the shim reads can be taken for another by a server that overlooks case."""
    assert not said.repeats(), "a member stands twice"
    for key, _ in said.items:
        assert key in read or key.casefold() not in map(str.casefold, read), f"{key!r} is read as another"
