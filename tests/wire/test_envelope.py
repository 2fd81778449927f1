"""KEYS: what each era wraps around a payload comes off and goes on; the payload stays as it was."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.hub import rawjson
from shim.wire import envelope, questions, tool_lists
from shim.wire.envelope import LEGACY_ONLY_KEYS, MODERN_ONLY_KEYS, RELATED_TASK, read_modern_meta
from shim.wire.era import Era
from shim.wire.errors import ClientFault, UpstreamFault
from shim.wire.statuses import status_of_fault
from tests.models import check_legacy, check_modern

VERSION = "io.modelcontextprotocol/protocolVersion"
INFO = "io.modelcontextprotocol/clientInfo"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO = "io.modelcontextprotocol/serverInfo"
TASKS = "io.modelcontextprotocol/tasks"
MODERN = "2026-07-28"
LEAST = {VERSION: MODERN, CAPABILITIES: {}}
RELATED = b'{"%b":{"taskId":"t"}}' % RELATED_TASK.encode()


def params(meta: Any, **members: Any) -> dict[str, bytes]:
    return {key: rawjson.encode(value) for key, value in {**members, "_meta": meta}.items()}


def keys_of(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value).union(*(keys_of(inner) for inner in value.values()))
    return set().union(*(keys_of(inner) for inner in value)) if isinstance(value, list) else set()


# -- a modern request ---------------------------------------------------------------------------


@pytest.mark.rule("VALIDATE")
def test_everything_a_modern_request_says_of_itself() -> None:
    meta = read_modern_meta(
        params({
            **LEAST,
            INFO: {"name": "c", "version": "2"},
            CAPABILITIES: {
                "elicitation": {"url": {}}, "sampling": {}, "roots": None, "x": {}, "extensions": {TASKS: {}},
            },
            "io.modelcontextprotocol/logLevel": "debug",
            "progressToken": 1,
            "com.example/x": 1.5,
        })
    )  # fmt: skip
    assert (meta.version, meta.client_name, meta.client_version) == (MODERN, "c", "2")
    assert meta.kinds == {"elicitation", "sampling"}
    assert meta.capabilities == {"elicitation": b'{"url":{}}', "sampling": b"{}"}
    assert meta.declares_tasks
    assert (meta.log_level, meta.progress_token) == ("debug", b"1")
    assert meta.foreign == {"com.example/x": b"1.5"}


@pytest.mark.rule("VALIDATE")
def test_the_least_a_modern_request_may_say() -> None:
    meta = read_modern_meta(params(LEAST))
    assert (meta.kinds, meta.declares_tasks, meta.log_level, meta.progress_token) == (
        frozenset(), False, None, None,
    )  # fmt: skip


@pytest.mark.rule("ML-UNDECLARED")
@pytest.mark.parametrize(
    "capabilities",
    [
        {},
        {"extensions": {}},
        {"extensions": None},
        {"extensions": {TASKS: None}},
        {"extensions": {TASKS: True}},
        {"tasks": {}},
        {TASKS: {}},
        {"experimental": {TASKS: {}}},
    ],
)
def test_only_the_extension_itself_declares_tasks(capabilities: Any) -> None:
    assert not read_modern_meta(params({**LEAST, CAPABILITIES: capabilities})).declares_tasks


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(
    ("request_params", "code"),
    [
        ({}, -32602),
        ({"_meta": b"null"}, -32602),
        ({"_meta": b"7"}, -32602),
        (params({}), -32602),
        (params({VERSION: MODERN}), -32602),
        (params({CAPABILITIES: {}}), -32602),
        (params({VERSION: 7, CAPABILITIES: {}}), -32602),
        (params({VERSION: MODERN, CAPABILITIES: None}), -32602),
        (params({VERSION: MODERN, CAPABILITIES: []}), -32602),
        (params({VERSION: "2030-01-01", CAPABILITIES: {}}), -32022),
        (params({VERSION: "2030-01-01"}), -32022),
    ],
)
def test_what_is_missing_is_refused(request_params: dict[str, bytes], code: int) -> None:
    with pytest.raises(ClientFault) as caught:
        read_modern_meta(request_params)
    assert (caught.value.code, status_of_fault(caught.value, Era.MODERN)) == (code, 400)


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(
    ("stated", "code"), [(None, -32022), (MODERN, -32020), ("2030-01-01", -32022), ("v9", -32022)]
)
def test_a_header_that_the_body_contradicts_comes_first(stated: str | None, code: int) -> None:
    with pytest.raises(ClientFault) as caught:
        read_modern_meta(params({**LEAST, VERSION: "2030-01-01"}), stated)
    assert caught.value.code == code


@pytest.mark.rule("KEYS", "ML-CREATE", "HUB-5")
def test_a_legacy_server_gets_the_payload_and_foreign_meta_only() -> None:
    asked = {
        "name": b'"x"', "arguments": b'{"ttlMs":1.10,"task":-0}', "own": b"[ 1 ]",
        "task": b"{}", "inputResponses": b"{}", "requestState": b'"s"',
        "_meta": rawjson.encode({
            **LEAST, INFO: {}, "io.modelcontextprotocol/logLevel": "info", "progressToken": 7,
            "io.modelcontextprotocol/subscriptionId": 1, SERVER_INFO: {}, RELATED_TASK: {"taskId": "t"},
            "com.example/x": "y",
        }),
    }  # fmt: skip
    assert envelope.legacy_params(asked, read_modern_meta(asked)) == {
        "name": b'"x"', "arguments": b'{"ttlMs":1.10,"task":-0}', "own": b"[ 1 ]",
        "_meta": b'{"com.example/x":"y"}',
    }  # fmt: skip


@pytest.mark.rule("KEYS")
def test_a_meta_that_becomes_empty_is_left_out() -> None:
    asked = params(LEAST, name="x")
    assert envelope.legacy_params(asked, read_modern_meta(asked)) == {"name": b'"x"'}


@pytest.mark.rule("IDS")
def test_a_progress_token_goes_beside_foreign_meta() -> None:
    assert envelope.with_progress_token({"a": b"1"}, b'"ts-1-1"') == {
        "a": b"1", "_meta": b'{"progressToken":"ts-1-1"}',
    }  # fmt: skip
    assert envelope.with_progress_token({"_meta": b'{"x":1,"progressToken":2}'}, b'"t"') == {
        "_meta": b'{"x":1,"progressToken":"t"}'
    }


# -- a legacy server's answer ---------------------------------------------------------------------

INFO_RAW = b'{"name":"s","version":"1"}'
CACHEABLE = {
    "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list",
    "resources/read",
}  # fmt: skip


@pytest.mark.rule("KEYS", "ML-TOOLS")
@pytest.mark.parametrize("method", sorted(CACHEABLE | {"tools/call", "prompts/get", "completion/complete"}))
def test_only_what_may_be_kept_carries_hints(method: str) -> None:
    result = json.loads(envelope.modern_result(b"{}", method=method, server_info=None))
    hints = {"ttlMs": 0, "cacheScope": "private"} if method in CACHEABLE else {}
    assert result == {"resultType": "complete", **hints}


@pytest.mark.rule("ML-TOOLS", "HUB-5")
def test_a_list_of_tools_loses_execution_and_nothing_else() -> None:
    listed = (
        b'{"tools":[{"name":"b","inputSchema":{"type":"object","x": 1.10},'
        b'"execution":{"taskSupport":"optional"}},'
        b'{"name":"a","inputSchema":{"properties":{"execution":{}},"type":"object"}}],"nextCursor":"n"}'
    )
    made = envelope.modern_result(listed, method="tools/list", server_info=INFO_RAW)
    assert made == (
        b'{"resultType":"complete","tools":[{"name":"b","inputSchema":{"type":"object","x": 1.10}},'
        b'{"name":"a","inputSchema":{"properties":{"execution":{}},"type":"object"}}],"nextCursor":"n",'
        b'"_meta":{"%b":%b},"ttlMs":0,"cacheScope":"private"}' % (SERVER_INFO.encode(), INFO_RAW)
    )
    check_modern("ListToolsResult", json.loads(made))


@pytest.mark.rule("HUB-5", "KEYS")
def test_what_a_tool_answers_is_not_looked_into() -> None:
    payload = (
        b'[{"type":"text","text":"\\ud800","ttlMs":9007199254740993,"_meta":{"%b":{}}}]'
        % RELATED_TASK.encode()
    )
    result = b'{"content":' + payload + b',"_meta":{"x":1,"%b":{"taskId":"t"}}}' % RELATED_TASK.encode()
    assert envelope.modern_result(result, method="tools/call", server_info=None) == (
        b'{"resultType":"complete","content":' + payload + b',"_meta":{"x":1}}'
    )


@pytest.mark.rule("KEYS")
def test_a_legacy_server_cannot_speak_for_the_shim() -> None:
    """Keys of the modern envelope in a legacy server's result mean nothing there."""
    result = (
        b'{"resultType":"task","inputRequests":{},"requestState":"s",'
        b'"ttlMs":9,"cacheScope":"public","content":[]}'
    )
    made = envelope.modern_result(result, method="tools/call", server_info=None)
    assert made == b'{"resultType":"complete","content":[]}'


@pytest.mark.rule("ML-TOOLS")
@pytest.mark.parametrize("tools", [b"null", b"{}", b'"x"', b"[1]", b"[[]]"])
def test_tools_that_are_none_are_the_upstreams_fault(tools: bytes) -> None:
    listed = b'{"tools":' + tools + b"}"
    for read in (
        lambda: envelope.modern_result(listed, method="tools/list", server_info=None),
        lambda: tool_lists.tool_names(listed),
        lambda: tool_lists.tools_with_support(listed, {}),
    ):
        with pytest.raises((UpstreamFault, rawjson.RawJsonError)):
            read()


@pytest.mark.rule("ML-DISCOVER")
@pytest.mark.parametrize("has_tasks", [True, False])
def test_discover_is_made_of_initialize(*, has_tasks: bool) -> None:
    init = {
        "protocolVersion": b'"2025-11-25"',
        "capabilities": b'{"tasks":{},"tools":{"listChanged": true},"extensions":{"com.example/x":{}}}',
        "serverInfo": INFO_RAW,
        "instructions": b'"be kind"',
        "own": b"1",
    }
    made = json.loads(envelope.discover_result(init, has_tasks=has_tasks))
    extensions: dict[str, Any] = {"com.example/x": {}, **({TASKS: {}} if has_tasks else {})}
    assert made == {
        "resultType": "complete",
        "supportedVersions": [MODERN],
        "capabilities": {"tools": {"listChanged": True}, "extensions": extensions},
        "instructions": "be kind",
        "_meta": {SERVER_INFO: json.loads(INFO_RAW)},
        "ttlMs": 0,
        "cacheScope": "private",
    }
    check_modern("DiscoverResult", made)


@pytest.mark.rule("ML-DISCOVER")
def test_discover_of_a_server_that_says_nothing() -> None:
    made = json.loads(envelope.discover_result({}, has_tasks=False))
    assert made["capabilities"] == {}
    assert not {"instructions", "_meta"} & set(made)


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (b'{"code":-32002,"message":"no","data":{"uri":"u"}}', (-32602, "no", b'{"uri":"u"}')),
        (b'{"code":-32603,"message":"no","data":1.10}', (-32603, "no", b"1.10")),
        (b'{"code":7,"message":"no"}', (7, "no", None)),
        (b'{"code":true,"message":"no"}', (-32603, "no", None)),
        (b'{"code":"x","message":5}', (-32603, "", None)),
        (b"{}", (-32603, "", None)),
    ],
)
def test_an_error_as_modern_clients_know_it(error: bytes, expected: tuple[int, str, bytes | None]) -> None:
    assert envelope.modern_error(error) == expected


# -- related-task ---------------------------------------------------------------------------------


@pytest.mark.rule("ML-TERMINAL")
@pytest.mark.parametrize(
    ("result", "stripped"),
    [
        (b'{"content":[]}', b'{"content":[]}'),
        (b'{ "content": [] }', b'{ "content": [] }'),
        (b'{"_meta":' + RELATED + b',"content":[ ]}', b'{"content":[ ]}'),
        (
            b'{"_meta":{"a":1.10,"%b":{"taskId":"t"},"b":2}}' % RELATED_TASK.encode(),
            b'{"_meta":{"a":1.10,"b":2}}',
        ),
        (b'{"_meta":{"io.modelcontextprotocol\\/related-task":{}},"a":1}', b'{"a":1}'),
        (b'{"_meta":{"io.modelcontextprotocol/related-tas\\u006b":{}},"a":1}', b'{"a":1}'),
        (b'{"content":[{"_meta":' + RELATED + b"}]}", b'{"content":[{"_meta":' + RELATED + b"}]}"),
        (b'{"_meta":{}}', b'{"_meta":{}}'),
        (b'{"_meta":"related-task"}', b'{"_meta":"related-task"}'),
    ],
)
def test_related_task_comes_off_alone(result: bytes, stripped: bytes) -> None:
    assert envelope.strip_related_task(result) == stripped


@pytest.mark.rule("HUB-5")
@given(st.text(), st.dictionaries(st.text(), st.integers() | st.text(), max_size=3))
def test_what_is_put_on_comes_off(task_id: str, meta: dict[str, Any]) -> None:
    result = rawjson.encode({"content": [], "_meta": meta} if meta else {"content": []})
    named = envelope.with_related_task(result, task_id)
    assert envelope.related_task_of(rawjson.members(named)) == task_id
    assert json.loads(envelope.strip_related_task(named)) == json.loads(result)


@pytest.mark.parametrize(
    "meta",
    [None, b"7", b"{}", b'{"%b":7}', b'{"%b":{}}', b'{"%b":{"taskId":7}}', b'{"other":{"taskId":"t"}}'],
)
def test_what_names_no_task(meta: bytes | None) -> None:
    members = {} if meta is None else {"_meta": meta.replace(b"%b", RELATED_TASK.encode())}
    assert envelope.related_task_of(members) is None


@pytest.mark.rule("ML-INPUT")
def test_a_question_loses_what_is_the_upstreams_own() -> None:
    asked = (
        b'{"mode":"url","url":"https://e.example/?elicitationId=1","elicitationId":"e","message":"m\\ud800",'
        b'"requestedSchema":{"properties":{"elicitationId":{}}},"_meta":' + RELATED + b"}"
    )
    assert questions.question_params(asked) == (
        b'{"mode":"url","url":"https://e.example/?elicitationId=1","message":"m\\ud800",'
        b'"requestedSchema":{"properties":{"elicitationId":{}}}}'
    )


# -- sessions -------------------------------------------------------------------------------------


@pytest.mark.rule("ML-SESSION")
def test_a_session_declares_the_clients_kinds_and_never_tasks() -> None:
    declared = b'{"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true},"sampling":null,"tasks":{}}'
    kinds = envelope.declared_kinds(declared)
    assert kinds == {"elicitation": b'{"form":{},"url":{}}', "roots": b'{"listChanged":true}'}
    made = envelope.initialize_params("c", "1", kinds, "2025-11-25")
    said = json.loads(rawjson.join(made))
    assert said == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}},
        "clientInfo": {"name": "c", "version": "1"},
    }
    check_legacy("InitializeRequestParams", said)


@pytest.mark.parametrize("capabilities", [None, b"null", b"[]", b"{}", b'{"elicitation":true}'])
def test_who_declares_nothing_is_asked_nothing(capabilities: bytes | None) -> None:
    assert envelope.declared_kinds(capabilities) == {}


@pytest.mark.rule("LL-1")
@pytest.mark.parametrize("tasks", [True, False])
def test_initialize_is_made_to_fit_another_dialect(*, tasks: bool) -> None:
    init = (
        b'{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"own":1},"tools":{}},"serverInfo":'
        + INFO_RAW
        + b"}"
    )
    made = json.loads(envelope.fit_capabilities(init, tasks=tasks))
    capability: dict[str, Any] = {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert made["capabilities"] == {"tools": {}, **({"tasks": capability} if tasks else {})}
    check_legacy("InitializeResult", made)


@pytest.mark.rule("LL-1")
def test_what_tools_support_is_said_per_tool() -> None:
    listed = (
        b'{"tools":[{"name":"a","inputSchema":{"x":1.10}},'
        b'{"name":"b","execution":{"taskSupport":"required"}}]}'
    )
    assert tool_lists.tool_names(listed) == ["a", "b"]
    assert json.loads(tool_lists.tools_with_support(listed, {"a": "optional"})) == {
        "tools": [
            {"name": "a", "inputSchema": {"x": 1.1}, "execution": {"taskSupport": "optional"}},
            {"name": "b", "execution": {"taskSupport": "required"}},
        ]
    }


# -- the two sets of keys ---------------------------------------------------------------------------


@pytest.mark.rule("KEYS")
def test_no_key_is_both_eras_own() -> None:
    assert not MODERN_ONLY_KEYS & LEGACY_ONLY_KEYS


@pytest.mark.rule("KEYS")
def test_no_modern_key_reaches_a_legacy_server() -> None:
    reserved: dict[str, Any] = {key: {} for key in MODERN_ONLY_KEYS if "/" in key}
    asked = params({**reserved, **LEAST}, name="x", task={}, inputResponses={}, requestState="s")
    upstream = json.loads(rawjson.join(envelope.legacy_params(asked, read_modern_meta(asked))))
    assert not keys_of(upstream) & (MODERN_ONLY_KEYS | {"task"})


@pytest.mark.rule("KEYS")
def test_no_legacy_key_reaches_a_modern_client() -> None:
    tools = [{"name": "x", "execution": {"taskSupport": "required"}}]
    result = rawjson.encode({"tools": tools, "_meta": {RELATED_TASK: {"taskId": "t"}}})
    made = json.loads(envelope.modern_result(result, method="tools/list", server_info=None))
    assert not keys_of(made) & LEGACY_ONLY_KEYS
