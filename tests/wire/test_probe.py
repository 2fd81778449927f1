"""ERA-PROBE: what an answer to server/discover proves, and what it does not."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shim.wire.era import Era
from shim.wire.probe import Verdict, classify_discover, contradicts


def error(code: Any, data: Any = None) -> bytes:
    fault = {"code": code, "message": "no", **({} if data is None else {"data": data})}
    return json.dumps({"jsonrpc": "2.0", "id": 1, "error": fault}).encode()


def result(value: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "result": value}).encode()


@pytest.mark.rule("ERA-PROBE")
@pytest.mark.parametrize(
    ("status", "body", "era"),
    [
        (200, result({"supportedVersions": ["2026-07-28"]}), Era.MODERN),
        (200, result({"supportedVersions": ["2025-11-25", "2026-07-28"]}), Era.MODERN),
        (400, error(-32020), Era.MODERN),
        (400, error(-32021), Era.MODERN),
        (200, error(-32021), Era.MODERN),
        (400, error(-32022, {"supported": ["2026-07-28"]}), Era.MODERN),
        (400, error(-32022, {"supported": ["2025-11-25"]}), Era.LEGACY),
        (400, error(-32022), Era.LEGACY),
        (400, error(-32022, "text"), Era.LEGACY),
        (200, result({"supportedVersions": ["2025-11-25"]}), Era.LEGACY),
        (200, result({"supportedVersions": [{}, [], 1]}), Era.LEGACY),
        (200, result({"supportedVersions": "2026-07-28"}), Era.LEGACY),
        (200, result({}), Era.LEGACY),
        (200, result([]), Era.LEGACY),
        (200, error(-32601), Era.LEGACY),
        (200, error([]), Era.LEGACY),
        (200, error({}), Era.LEGACY),
        (400, error(-32600), Era.LEGACY),
        (400, b"", Era.LEGACY),
        (404, b"", Era.LEGACY),
        (404, error(-32601), Era.LEGACY),
        (405, b"", Era.LEGACY),
        (406, b"", Era.LEGACY),
        (200, b"", Era.LEGACY),
        (202, b"", Era.LEGACY),
        (200, b"<!doctype html>", Era.LEGACY),
        (200, b"\xff", Era.LEGACY),
        *((status, result({"supportedVersions": ["2026-07-28"]}), None) for status in (401, 403, 500, 502)),
        *((status, b"", None) for status in (301, 307, 401, 403, 408, 413, 421, 429, 500, 502, 503, 504)),
        (None, b"", None),
    ],
)
def test_the_verdict(status: int | None, body: bytes, era: Era | None) -> None:
    verdict = classify_discover(status, body)
    assert verdict.era is era
    assert verdict.evidence


JSON = st.recursive(
    st.none() | st.integers() | st.text() | st.just("2026-07-28") | st.just(-32022),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["result", "error", "code", "data", "supported", "supportedVersions"]), inner
        )
    ),
)


@pytest.mark.rule("ERA-PROBE")
@given(st.sampled_from([200, 400, 404]), st.binary() | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_answer_is_a_surprise(status: int, body: bytes) -> None:
    assert isinstance(classify_discover(status, body), Verdict)


@pytest.mark.rule("ERA-PROBE")
@pytest.mark.parametrize(
    ("era", "status", "body", "expected"),
    [
        (Era.LEGACY, 400, b'{"error":{"code":-32022,"message":""}}', True),
        (Era.LEGACY, 200, b'{"error":{"code":-32021,"message":""}}', True),
        (Era.LEGACY, 200, b'{"error":{"code":-32602,"message":""}}', False),
        (Era.LEGACY, 404, b'{"error":{"code":-32600,"message":"Session not found"}}', False),
        (Era.LEGACY, 500, b"<html>", False),
        (Era.LEGACY, 200, b'{"error":{}}', False),
        (Era.MODERN, 400, b'{"error":{"code":-32600,"message":"Missing session ID"}}', True),
        (Era.MODERN, 404, b"<html>", True),
        (Era.MODERN, 405, b"", True),
        (Era.MODERN, 404, b'{"error":{"code":-32601,"message":"Method not found"}}', False),
        (Era.MODERN, 400, b'{"error":{"code":-32020,"message":""}}', False),
        (Era.MODERN, 502, b"", False),
        (Era.MODERN, 401, b"", False),
    ],
)
def test_what_no_server_of_an_era_answers(era: Era, status: int, body: bytes, *, expected: bool) -> None:
    assert contradicts(era, status, body) is expected


def test_a_redirect_says_what_to_do():
    verdict = classify_discover(307, b"")
    assert verdict.era is None
    assert verdict.evidence == "HTTP 307: redirects are not followed, name the final address"
