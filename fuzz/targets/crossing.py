"""Envelopes between the eras: no key of one on the other side, every other byte as it was."""

from typing import Any

from fuzz.reference import NotJson, TooDeep, plain
from fuzz.source import Source
from shim.hub import rawjson
from shim.hub.codec import CodecError
from shim.hub.rawjson import Members, RawJsonError
from shim.wire import envelope, hosting, modern, probe, tool_lists, url_elicitation
from shim.wire.envelope import MODERN_ONLY_KEYS, RELATED_TASK
from shim.wire.era import META_VERSION, Era
from shim.wire.errors import MISSING_CAPABILITY, TASKS_EXTENSION, ClientFault, UpstreamFault
from shim.wire.jsonrpc import Response, is_error

_META = (
    b'"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},'
    b'"extensions":{"io.modelcontextprotocol/tasks":{}}},"io.modelcontextprotocol/clientInfo":{"name":"n","version":"1"}'
)
SEEDS = (
    b'\0{"name":"x","task":{},"inputResponses":{},"requestState":"s","_meta":{' + _META + b"}}",
    b'\0{"name":"x","arguments":{"a":1.10},"_meta":{' + _META + b',"progressToken":1,"own":2}}',
    b'\1{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"},"a":1}}',
    b'\1{"tools":[{"name":"a","execution":{"taskSupport":"optional"},"inputSchema":{}}]}',
    b'\1{"resultType":"input_required","inputRequests":{"k":{"method":"elicitation/create","params":{}}},"requestState":"s"}',
    b'\2{"code":-32042,"message":"m","data":{"elicitations":[{"url":"u","elicitationId":"e","x":1.10}]}}',
    b'\2{"code":-32021,"message":"m","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}',
    b'\1{"protocolVersion":"2025-11-25","capabilities":{"tasks":{"requests":{"tools":{"call":{}}}},"tools":{}}}',
    b'\1{"supportedVersions":["2026-07-28"],"capabilities":{"extensions":{}},"ttlMs":5,"structuredContent":[1]}',
    b'\2{"code":-32021,"message":"m","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol\\/tasks":{}}}}}',
    b'\1{"resultType":"input\\u005frequired","inputRequests":{}}', b'\1{"err\\u006fr":{"code":1,"message":""}}',
    b'\2{"code":-32042,"message":"m","data":{"elicitations":[{"url":"u","x":1e400,"y":123456789012345678901234567890}]}}',
)  # fmt: skip
WORDS = (
    _META, b'"_meta":{', b'"task":{}', b'"ttlMs":1', b'"resultType":"complete"', b'"resultType":"input_required"',
    b'"resultT\\u0079pe":"input\\u005frequired"', b'"io.modelcontextprotocol\\/related-task":{"taskId":"t"}', b'"tools":[',
    b'"io.modelcontextprotocol\\/tasks":{}', b'"requestState":"s"', b'"inputRequests":{', b'"inputResponses":{', b'"code":-32042',
    b'"code":1e400', b'"code":-32021', b'"data":{"elicitations":[', b'{"url":"u"}', b'"err\\u006fr":{}', b'"execution":{}',
    b'"x-mcp-header":1', b"null", b"[", b"]", b"{", b"}", b",", b'"\\ud800"', b"9" * 30, b'"capabilities":[]',
)  # fmt: skip
_MODERN_META = frozenset(key for key in MODERN_ONLY_KEYS if "/" in key)
_ENVELOPE = ("resultType", "ttlMs", "cacheScope", "inputRequests", "requestState")
_METHODS = ("tools/list", "tools/call", "resources/read")


def check(data: bytes) -> None:
    """Bring params, a result and an error across, both ways."""
    source = Source(data)
    way, method, raw = source.byte() % 3, "", source.rest()
    method = _METHODS[len(raw) % 3]
    try:
        value, members = plain(raw), rawjson.members(raw)
    except (NotJson, TooDeep, RawJsonError):
        return
    try:
        if way == 0:
            _params(value, members)
        elif way == 1:
            _result(value, raw, method)
        else:
            _error(value, raw, method)
    except ClientFault:
        pass
    except (UpstreamFault, CodecError):
        assert way, "the client's fault is said to be the server's"
    except RawJsonError as exc:
        assert exc.fault in {"not_object", "too_deep"}


def _params(value: dict[str, Any], members: Members) -> None:
    url_elicitation.refuse_declined(members)
    kept, _ = hosting.upstream_params(members)
    _payload_kept(members, kept, ("task", "inputResponses", "requestState"))
    _foreign_kept(value, kept)
    undeclared = modern.undeclared(members)
    declared = _of(plain(undeclared["_meta"]), envelope.META_CLIENT_CAPABILITIES, "extensions")
    assert TASKS_EXTENSION not in _object(declared), "the extension is declared still"
    meta = envelope.read_modern_meta(members)
    assert meta.version == value["_meta"][META_VERSION]
    extensions = _of(value["_meta"], envelope.META_CLIENT_CAPABILITIES, "extensions")
    assert meta.declares_tasks == isinstance(_of(extensions, TASKS_EXTENSION), dict)
    legacy = envelope.legacy_params(members, meta)
    _payload_kept(members, legacy, ("task", "inputResponses", "requestState"))
    _foreign_kept(value, legacy)
    for takes in (False, True):
        sent = modern.modern_params(
            members, client_name=meta.client_name, client_version=meta.client_version, capabilities=meta.declared,
            takes_tasks=takes, log_level=meta.log_level, progress_token=meta.progress_token,
        )  # fmt: skip
        again = envelope.read_modern_meta(sent)
        assert again.declares_tasks == takes, "the extension is declared by mistake, or not"
        assert (again.client_name, again.kinds, again.foreign) == (meta.client_name, meta.kinds, meta.foreign)


def _result(value: dict[str, Any], raw: bytes, method: str) -> None:
    said = value.get("resultType")
    assert modern.is_question(raw) == (said == "input_required"), "a question is overlooked"
    assert is_error(raw) == ("error" in value), "an error is overlooked"
    probe.classify_discover(200, b'{"result":%b}' % raw)
    shown = envelope.modern_result(raw, method=method, server_info=b'{"name":"s"}')
    told = plain(shown)
    assert told["resultType"] == "complete"
    assert RELATED_TASK not in (told.get("_meta") or {})
    assert not {"inputRequests", "requestState"} & set(told)
    if method != "tools/list":
        _payload_kept(rawjson.members(raw), rawjson.members(shown), _ENVELOPE)
    elif isinstance(told.get("tools"), list):
        assert not any("execution" in tool for tool in told["tools"])
        tool_lists.tool_names(shown)
    bare = modern.bare_result(shown)
    assert not set(plain(bare)) & set(_ENVELOPE), "a key of the new era is left"
    assert not _MODERN_META & set(_object(plain(bare).get("_meta"))) & modern.META_OF_SERVER
    legacy, _ = hosting.legacy_result(raw)
    assert not set(plain(legacy)) & set(_ENVELOPE)
    assert isinstance(plain(legacy).get("structuredContent", {}), dict)
    named = envelope.with_related_task(raw, "t")
    assert envelope.related_task_of(rawjson.members(named)) == "t"
    stripped = envelope.strip_related_task(named)
    assert RELATED_TASK not in (plain(stripped).get("_meta") or {}), "the task is still named"
    fitted = envelope.fit_capabilities(raw, tasks=True)
    assert envelope.offers_task_calls(fitted)
    assert not envelope.offers_task_calls(envelope.fit_capabilities(raw, tasks=False))
    discovered = rawjson.members(
        envelope.discover_result(rawjson.members(raw), has_tasks=method == "tools/call")
    )
    assert "tasks" not in plain(discovered["capabilities"])
    assert modern.has_tasks(modern.with_tasks(discovered))
    init = plain(hosting.initialize_result(discovered, None, name="n", tasks=method == "tools/call"))
    assert "extensions" not in init["capabilities"]
    assert ("tasks" in init["capabilities"]) == (method == "tools/call")
    modern.more_input(raw)


def _error(value: dict[str, Any], raw: bytes, method: str) -> None:
    probe.contradicts(Era.LEGACY, 400, b'{"error":%b}' % raw)
    probe.classify_discover(400, b'{"error":%b}' % raw)
    for known in (envelope.modern_error, envelope.legacy_error):
        code, message, data = known(raw)
        assert isinstance(code, int)
        assert message == (value.get("message") if isinstance(value.get("message"), str) else "")
        assert data is None or plain(data) == value["data"]
        rawjson.encode(code)
    envelope.recoded(raw)
    if rawjson.members(raw).get("code") == b"%d" % MISSING_CAPABILITY and TASKS_EXTENSION in str(value):
        assert modern.wants_tasks(raw), "a server that wants the extension is not understood"
    elif modern.wants_tasks(raw):
        raise AssertionError("an error is taken for one that wants the extension")
    hosting.missing_resource(Response(b"1", None, raw), method)
    asked = url_elicitation.as_input_required(
        Response(b"1", None, raw), method, {"elicitation": b'{"url":{}}'}
    )
    if asked.result is not None:
        found = plain(asked.result)["inputRequests"]
        listed = [
            one
            for one in value["data"]["elicitations"]
            if isinstance(one, dict) and isinstance(one.get("url"), str)
        ]
        assert len(found) == len(listed)
        for one, question in zip(listed, found.values(), strict=True):
            kept = {key: item for key, item in one.items() if key not in {"elicitationId", "task", "_meta"}}
            asking = {key: item for key, item in question["params"].items() if key != "_meta"}
            assert asking == kept, "a question is not what the server asked"


def _payload_kept(before: Members, after: Members, taken: tuple[str, ...]) -> None:
    expected = {key: raw for key, raw in before.items() if key not in {*taken, "_meta"}}
    assert {key: raw for key, raw in after.items() if key not in {*taken, "_meta"}} == expected, (
        "a payload is changed"
    )


def _foreign_kept(value: dict[str, Any], after: Members) -> None:
    meta = plain(after["_meta"]) if "_meta" in after else {}
    assert not {"task", "inputResponses", "requestState"} & set(after)
    assert not {*_MODERN_META, RELATED_TASK, "progressToken"} & set(meta), "a key of the envelope is left"
    own = {
        key: one
        for key, one in _object(value.get("_meta")).items()
        if "/" not in key and key != "progressToken"
    }
    assert {key: meta.get(key) for key in own} == own, "a foreign key is lost"


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _of(value: Any, *keys: str) -> Any:
    for key in keys:
        value = _object(value).get(key)
    return value
