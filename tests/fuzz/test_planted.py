# ruff: noqa: E501 - lines of the readers are quoted whole
"""What the targets are for they find: each planted fault, within so many inputs."""

from importlib import import_module
from itertools import chain, islice

import pytest

from fuzz.mutate import inputs
from fuzz.targets import NAMES, corpus, target
from tests.fuzz.faults import planted

AT_MOST = 20_000
SEED = 11

FAULTS = (
    ("json_object", "hub.rawjson", "len(set(map(str.lower, found)))", "len(set(found))"),
    ("json_object", "hub.rawjson", 'if data[at : at + 1] != b"}":', "if False:"),
    ("json_object", "hub.rawjson", "_require_utf8(data)  # msgspec", "pass  # msgspec"),
    ("message", "wire.jsonrpc", "_refuse_variants(envelope, _ENVELOPE)", "pass"),
    ("message", "wire.jsonrpc", "_refuse_variants(members, _PARAMS)", "pass"),
    ("message", "wire.jsonrpc", "_SPELLING.get(key.casefold(), key)", "_SPELLING.get(key.lower(), key)"),
    ("message", "wire.jsonrpc", "            _strict_meta(meta)", "            pass"),
    ("message", "wire.jsonrpc", "message_id is None or (result is None) == (error is None)", "message_id is None"),
    ("message", "wire.jsonrpc", "if message_id is not None and not _is_id(message_id):", "if False:"),
    ("sse", "wire.sse", 'if end.group() == b"\\r" and end.end() == len(self._buffer):', "if False:"),
    ("sse", "wire.sse", "self._scanned = len(self._buffer)", "self._scanned = len(self._buffer) + 1"),
    ("sse", "wire.sse", "self._line_start = self._scanned = 0", "self._scanned = 0"),
    ("sse", "wire.sse", "if end.end() > self._max:", "if end.end() >= self._max:"),
    ("sse", "wire.sse", "if end.end() > self._max:", "if end.end() > self._max + 1:"),
    ("sse", "wire.sse", 'value.removeprefix(b" ")', 'value.lstrip(b" ")'),
    ("sse", "wire.sse", "if self._first:", "if True:"),
    ("headers", "wire.headers", "except ValueError:  # no", "except UnicodeDecodeError:  # no"),
    ("headers", "wire.headers", "and value == value.strip()", ""),
    ("headers", "wire.headers", "if len(values) > 1:", "if False:"),
    ("headers", "wire.headers", "if decode_value(given) != named:", "if False:"),
    ("headers", "wire.headers", "name.strip().lower() for name in listed", "name.strip() for name in listed"),
    ("param_headers", "wire.param_headers", "return given == _text(value)", "return True"),
    ("param_headers", "wire.param_headers", "if _text(value) is not None:", "if False:"),
    ("param_headers", "wire.param_headers", 'and not fraction.strip("0")', ""),
    ("param_headers", "wire.param_headers", 'and b"\\\\u" not in schema', ""),
    ("challenge", "wire.tracing", "return key not in there and not", "return not"),
    ("challenge", "wire.challenge", "if m[1] else m[0]", "if m[1] else m[0][:80]"),
    ("cursor", "callers.keys", "if hmac.compare_digest(tag, expected):", "if True:"),
    ("cursor", "callers.keys", "compare_digest(tag, expected)", "compare_digest(tag[:1], expected[:1])"),
    ("request_state", "callers.keys", "compare_digest(tag, expected)", "compare_digest(tag, expected[:len(tag)])"),
    ("cursor", "callers.keys", "or _text(raw) != text", ""),
    ("cursor", "callers.keys", 'bound_to.encode() + b"\\0" + data', "data"),
    ("cursor", "callers.keys", "purpose.encode(), hashlib", 'b"", hashlib'),
    ("cursor", "callers.keys", "for number in range(len(self._roots)):\n            expected", "for number in range(1):\n            expected"),
    ("request_state", "tasks.parked", "json.dumps([ctx.caller.key, ", "json.dumps(["),
    ("request_state", "tasks.parked", "upstream.name, upstream.dialect.name, ", ""),
    ("request_state", "tasks.parked", "request.method, digest]", "digest]"),
    ("request_state", "tasks.parked", "request.method, digest]", "request.method]"),
    ("request_state", "tasks.parked", "if self._room.clock.now_ms() >= int(until_ms):", "if False:"),
    ("request_state", "tasks.parked", "json.dumps(rawjson.decode(raw), sort_keys=True)", "raw.decode()"),
    ("request_state", "callers.keys", "compare_digest(tag, expected)", "compare_digest(tag[:4], expected[:4])"),
    ("token", "callers.claims", "now_ms >= expires + settings.leeway_ms", "now_ms > expires + settings.leeway_ms"),
    ("token", "callers.claims", 'if claims.get("iss") != settings.issuer:', "if False:"),
    ("token", "callers.claims", "isinstance(value, bool) or not isinstance(value, str | int)", "not isinstance(value, str | int)"),
    ("token", "callers.claims", "now_ms < begins - settings.leeway_ms", "now_ms < begins"),
    ("token", "callers.jwt", "if any(name in header for name in _UNDERSTOOD_NOWHERE):", "if False:"),
    ("token", "callers.jwk", "_LONG_ENOUGH)", '{"verify_signature": False})'),
    ("token", "callers.encoded", "except ValueError:", "except TypeError:"),
    ("jwk_set", "callers.jwk", 'or "d" in jwk ', ""),
    ("jwk_set", "callers.jwk", 'or jwk.get("use", "sig") != "sig"', ""),
    ("jwk_set", "callers.jwk", "return allowed & {named} if", "return allowed if"),
    ("listen_filter", "wire.subscriptions", "rawjson.strict_members(raw)", "rawjson.members(raw)"),
    ("listen_filter", "wire.subscriptions", "not all(isinstance(one, str) for one in found)", "False"),
    ("task_object", "hub.number", "max(-SAFE, min(SAFE, value))", "value"),
    ("task_object", "hub.codec", "kept = _storable(text)", "kept = text"),
    ("task_object", "hub.codec", "value is None or value <= 0 else value", "value is None else value"),
    ("crossing", "wire.envelope", "if key not in _MODERN_PARAMS", ""),
    ("crossing", "wire.hosting", 'key != RELATED_TASK and not key.startswith("io.modelcontextprotocol/")', "True"),
    ("crossing", "wire.modern", 'and b"\\\\u00" not in result', ""),
    ("crossing", "wire.modern", "TASKS_EXTENSION.encode() in rawjson.encode(rawjson.decode(error))", "TASKS_EXTENSION.encode() in error"),
    ("crossing", "wire.jsonrpc", 'and b"\\\\u00" not in answer', ""),
    ("crossing", "wire.url_elicitation", "question_params(one)", "question_params(rawjson.encode(rawjson.decode(one)))"),
    ("crossing", "wire.envelope", "meta.pop(RELATED_TASK, None) is None", "meta.get(RELATED_TASK) is None"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "module", "before", "after"), FAULTS)
def test_a_planted_fault_is_found(name: str, module: str, before: str, after: str) -> None:
    one = target(name)
    kept = corpus(name)
    with planted(import_module(f"shim.{module}"), before, after):
        for data in islice(chain(kept, inputs(kept, one.WORDS, SEED)), AT_MOST):
            try:
                one.check(data)
            except Exception:  # noqa: BLE001 - a fault may show as anything
                return
    pytest.fail(f"{AT_MOST} inputs do not find it")


def test_every_target_has_faults_to_find() -> None:
    assert {name for name, *_ in FAULTS} == set(NAMES)
