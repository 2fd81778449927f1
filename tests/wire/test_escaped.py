"""A message says the same however its letters are written: any of them may be escaped (HUB-5, KEYS)."""

import pytest

from shim.hub import rawjson
from shim.wire import envelope, tool_lists
from shim.wire.jsonrpc import Response, is_error
from shim.wire.modern import is_question, wants_tasks
from shim.wire.url_elicitation import as_input_required

WANTS = (
    b'{"code":-32021,"message":"m","data":{"requiredCapabilities":'
    b'{"extensions":{"io.modelcontextprotocol%btasks":{}}}}}'
)


@pytest.mark.rule("LM-META")
@pytest.mark.parametrize("slash", [b"/", b"\\/", b"\\u002f"])
def test_a_server_that_wants_the_extension_is_understood(slash: bytes) -> None:
    assert wants_tasks(WANTS % slash)


@pytest.mark.rule("LM-META")
@pytest.mark.parametrize(
    "error",
    [
        None,
        WANTS % b"\\\\",
        (WANTS % b"/").replace(b"-32021", b"-32020"),
        b'{"code":-32021,"message":"a\\/b"}',
    ],
)
def test_an_error_that_says_something_else_wants_nothing(error: bytes | None) -> None:
    assert not wants_tasks(error)


@pytest.mark.rule("LM-MRTR")
@pytest.mark.parametrize("said", [b"input_required", b"input\\u005frequired"])
def test_a_question_is_none_the_less_one(said: bytes) -> None:
    assert is_question(b'{"resultType":"%b","inputRequests":{}}' % said)
    assert not is_question(b'{"resultType":"complete","x":"%b"}' % said)


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize("key", [b"error", b"err\\u006fr"])
def test_an_error_is_none_the_less_one(key: bytes) -> None:
    assert is_error(b'{"jsonrpc":"2.0","id":1,"%b":{"code":1,"message":""}}' % key)
    assert not is_error(b'{"jsonrpc":"2.0","id":1,"result":{"%b":1}}' % key)


@pytest.mark.rule("ML-TOOLS")
@pytest.mark.parametrize("tools", [b'["\\ud800"]', b'[{"name":"a","description":"\\ud800"},1]'])
def test_tools_with_a_lone_surrogate_are_split_as_any(tools: bytes) -> None:
    with pytest.raises(rawjson.RawJsonError):
        tool_lists.tool_names(b'{"tools":%b}' % tools)
    listed = b'{"tools":[{"name":"a","description":"\\ud800","execution":{}}]}'
    made = envelope.modern_result(listed, method="tools/list", server_info=None)
    assert b'{"name":"a","description":"\\ud800"}' in made


@pytest.mark.rule("ERRORS", "HUB-5")
def test_a_url_to_visit_is_asked_with_the_bytes_that_came() -> None:
    error = (
        b'{"code":-32042,"message":"m","data":{"elicitations":['
        b'{"mode":"url","url":"u","elicitationId":"e","a":1.10,"b":1e400,"c":123456789012345678901},{"mode":"form"},7]}}'
    )
    made = as_input_required(Response(b"1", None, error), "tools/call", {"elicitation": b'{"url":{}}'})
    assert made.result is not None
    requests = rawjson.members(rawjson.members(made.result)["inputRequests"])
    assert requests == {
        "elicitation-1": b'{"method":"elicitation/create","params":'
        b'{"mode":"url","url":"u","a":1.10,"b":1e400,"c":123456789012345678901}}'
    }
