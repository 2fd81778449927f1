"""VALIDATE, IDS, HUB-5: how messages are read and built."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shim.hub import rawjson
from shim.wire import jsonrpc
from shim.wire.era import Era
from shim.wire.errors import ClientFault, UpstreamFault
from shim.wire.jsonrpc import Message, Notification, Request, Response, read_client, read_upstream
from shim.wire.statuses import status_of_fault

DEEP = b"[" * 100_000 + b"]" * 100_000
LONG = b"9" * 5_000


def request(params: bytes = b"{}", *, method: bytes = b'"a"', message_id: bytes = b"1") -> bytes:
    return b'{"jsonrpc":"2.0","id":%b,"method":%b,"params":%b}' % (message_id, method, params)


@pytest.mark.rule("VALIDATE", "IDS")
@pytest.mark.parametrize(
    ("body", "message"),
    [
        (request(b'{"a":1}'), Request(b"1", "a", {"a": b"1"})),
        (request(message_id=b'"1"'), Request(b'"1"', "a", {})),
        (request(message_id=b"-0"), Request(b"-0", "a", {})),
        (request(message_id=LONG), Request(LONG, "a", {})),
        (request(message_id=b'"\\ud800"'), Request(b'"\\ud800"', "a", {})),
        (request(method=b'"\\u0061\xc3\xa9"'), Request(b"1", "aé", {})),
        (b' { "jsonrpc" : "2.0" , "id" : 1 , "method" : "a" } ', Request(b"1", "a", {})),
        (b'{"jsonrpc":"2.0","method":"n"}', Notification("n", {})),
        (b'{"jsonrpc":"2.0","method":"n","params":{"x":[ 1 ]}}', Notification("n", {"x": b"[ 1 ]"})),
        (b'{"jsonrpc":"2.0","id":1,"result":{"a":1}}', Response(b"1", b'{"a":1}', None)),
        (b'{"jsonrpc":"2.0","id":"x","error":{"code":1}}', Response(b'"x"', None, b'{"code":1}')),
    ],
)
def test_what_a_client_may_send(body: bytes, message: Message) -> None:
    assert read_client(body) == message


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"", -32700),
        (b"nonsense", -32700),
        (b"<html>", -32700),
        (request() + b" x", -32700),
        (b"\xef\xbb\xbf" + request(), -32700),
        (request(b'{"a":"\xff"}'), -32700),
        (request(b'{"a":"\xed\xa0\x80"}'), -32700),
        (request(b'{"a":"\x01"}'), -32700),
        (request(b'{"a":"\\x"}'), -32700),
        (request(b'{"a":NaN}'), -32700),
        (request(b'{"a":[-Infinity]}'), -32700),
        (request(b'{"a":01}'), -32700),
        (request(b'{"a":[1,]}'), -32700),
        (request(b'{"a":' + DEEP + b"}"), -32700),
        (request(b'{"\\ud800":' + DEEP + b"}"), -32700),
        (b'{"a":' * 100_000, -32700),
        (DEEP, -32600),
        (b"[" + request() + b"]", -32600),
        (b"null", -32600),
        (b'"text"', -32600),
        (b"{}", -32600),
        (b'{"id":1,"method":"a"}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"a"}', -32600),
        (b'{"jsonrpc":2.0,"id":1,"method":"a"}', -32600),
        (request(message_id=b"null"), -32600),
        (request(message_id=b"1.0"), -32600),
        (request(message_id=b"1e3"), -32600),
        (request(message_id=b"true"), -32600),
        (request(message_id=b"{}"), -32600),
        (request(message_id=b"[]"), -32600),
        (request(method=b"1"), -32600),
        (request(method=b"null"), -32600),
        (request(b"[]"), -32600),
        (request(b"null"), -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":{},"error":{}}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"result":[]}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"error":"no"}', -32600),
        (b'{"jsonrpc":"2.0","id":null,"result":{}}', -32600),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_what_a_client_may_not_send(body: bytes, code: int) -> None:
    with pytest.raises(ClientFault) as caught:
        read_client(body)
    assert (caught.value.code, status_of_fault(caught.value, Era.MODERN)) == (code, 400)


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"a"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","method":"a"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","\\u006dethod":"b"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","Method":"b"}',
        b'{"jsonrpc":"2.0","id":1,"method":"a","PARAMS":{}}',
        request(b'{"taskId":"a","taskId":"b"}'),
        request(b'{"taskId":"a","TaskID":"b"}'),
        request(b'{"name":"a","Task":{}}'),
        request(b'{"_META":{}}'),
        request('{"name":"a","ta\u017fk":{}}'.encode()),
        request(b'{"x":1,"X":1}'),
        request(b'{"_meta":{"k":1,"k":1}}'),
        request(b'{"_meta":{"progressToken":1,"ProgressToken":2}}'),
    ],
)
def test_a_key_that_two_readers_would_read_differently_is_refused(body: bytes) -> None:
    with pytest.raises(ClientFault) as caught:
        read_client(body)
    assert (caught.value.code, status_of_fault(caught.value, Era.MODERN)) == (-32600, 400)


@pytest.mark.rule("HUB-5")
def test_keys_inside_a_payload_are_nobodys_business() -> None:
    arguments = b'{"a":1,"A":2,"a":3}'
    assert read_client(request(b'{"arguments":' + arguments + b"}")) == Request(
        b"1", "a", {"arguments": arguments}
    )


@pytest.mark.rule("HUB-5")
@pytest.mark.parametrize("read", [read_client, read_upstream])
@pytest.mark.parametrize(
    "value",
    [
        b"9007199254740993", b"1.10", b"-0", b"1e400", LONG,
        b'"\\ud800"', b'"\\u0041\\/"', b'{ "b" : [ 1 , 2 ] }',
        '"é😀"'.encode(),
    ],
    ids=lambda value: repr(value)[:40],
)  # fmt: skip
def test_a_payload_arrives_as_sent(read: Any, value: bytes) -> None:
    message = read(request(b'{"a":' + value + b',"b":{"c":' + value + b"}}"))
    assert message.params == {"a": value, "b": b'{"c":' + value + b"}"}
    assert jsonrpc.write_message(message) == request(rawjson.join(message.params))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def outcome(body: bytes) -> type[Message] | int:
    try:
        return type(read_client(body))
    except ClientFault as fault:
        return fault.code


@pytest.mark.rule("VALIDATE")
@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
@example(b'{"\\ud800":')
def test_no_body_is_a_surprise(body: bytes) -> None:
    """Whatever comes is a message or a fault of the client."""
    for whole in (body, request(body), request(b'{"_meta":' + body + b"}"), request(message_id=body)):
        assert outcome(whole) in {Request, Notification, Response, -32700, -32600}


@pytest.mark.rule("HUB-5", "VALIDATE")
@given(st.dictionaries(st.text(max_size=4), JSON, max_size=4))
def test_read_and_written_again_nothing_changes(values: dict[str, Any]) -> None:
    params = {f"p-{index}-{key}": rawjson.encode(value) for index, (key, value) in enumerate(values.items())}
    written = jsonrpc.write_request(b'"i"', "m", params)
    assert read_client(written) == Request(b'"i"', "m", params)
    assert json.loads(written)["params"] == {
        f"p-{index}-{key}": value for index, (key, value) in enumerate(values.items())
    }


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'{"jsonrpc":"2.0","id":0,"method":"a","x":1}', Request(b"0", "a", {})),
        (b'{"id":0,"method":"a","params":null}', Request(b"0", "a", {})),
        (b'{"id":null,"method":"a"}', Notification("a", {})),
        (b'{"id":1,"result":{"a":1,"a":2}}', Response(b"1", b'{"a":1,"a":2}', None)),
        (b'{"id":null,"error":{"code":-32700}}', Response(None, None, b'{"code":-32700}')),
        (b'{"error":{"code":-32700}}', Response(None, None, b'{"code":-32700}')),
    ],
)
def test_what_an_upstream_may_send(data: bytes, message: Message) -> None:
    assert read_upstream(data) == message


@pytest.mark.rule("HUB-5")
@pytest.mark.parametrize(
    "data",
    [
        b"", b"<html>", b"null", b"[]", b"{}", b"\xff", DEEP,
        b'{"id":1,"result":{"a":NaN}}', b'{"id":1,"result":{"a":' + DEEP + b"}}",
        b'{"id":1,"result":[]}', b'{"id":1,"result":null}', b'{"id":1,"error":"no"}',
        b'{"id":1,"result":{},"error":{}}', b'{"id":1,"method":"a","params":[]}',
    ],
    ids=lambda value: repr(value)[:40],
)  # fmt: skip
def test_an_upstream_that_sends_garbage_is_to_blame(data: bytes) -> None:
    with pytest.raises(UpstreamFault) as caught:
        read_upstream(data)
    assert (caught.value.code, caught.value.http_status) == (-32603, 502)


@pytest.mark.rule("IDS")
@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (jsonrpc.write_request(b"1", "a", None), b'{"jsonrpc":"2.0","id":1,"method":"a"}'),
        (
            jsonrpc.write_request(b'"1"', "a", {"é": b"1.10"}),
            '{"jsonrpc":"2.0","id":"1","method":"a","params":{"é":1.10}}'.encode(),
        ),
        (jsonrpc.write_notification("n", None), b'{"jsonrpc":"2.0","method":"n"}'),
        (jsonrpc.write_notification("n", {"a": b"1"}), b'{"jsonrpc":"2.0","method":"n","params":{"a":1}}'),
        (jsonrpc.write_result(b"1", b"{ }"), b'{"jsonrpc":"2.0","id":1,"result":{ }}'),
        (
            jsonrpc.write_error(b"1", -32602, 'no "x"', b'{"d":1.0}'),
            b'{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no \\"x\\"","data":{"d":1.0}}}',
        ),
        (
            jsonrpc.write_error(None, -32700, "x"),
            b'{"jsonrpc":"2.0","error":{"code":-32700,"message":"x"}}',
        ),
        (
            jsonrpc.write_message(Response(None, None, b'{"code":1}')),
            b'{"jsonrpc":"2.0","id":null,"error":{"code":1}}',
        ),
        (
            jsonrpc.write_message(Response(b"1", b"{}", None)),
            b'{"jsonrpc":"2.0","id":1,"result":{}}',
        ),
    ],
)
def test_messages_are_built_from_slices(written: bytes, expected: bytes) -> None:
    assert written == expected
