"""VALIDATE: the headers that mirror a modern request's body."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict, CIMultiDictProxy

from shim.hub import rawjson
from shim.hub.codec import Lenient
from shim.wire.era import Era
from shim.wire.errors import ClientFault
from shim.wire.headers import check_modern_headers, decode_value, encode_value
from shim.wire.jsonrpc import Request
from shim.wire.statuses import status_of_fault

VERSION = "2026-07-28"
Pairs = list[tuple[str, str]]


def check(
    method: str, params: dict[str, Any], pairs: Pairs, missing_name: Any = "allow"
) -> tuple[Lenient, ...]:
    request = Request(b"1", method, {key: rawjson.encode(value) for key, value in params.items()})
    headers = CIMultiDictProxy(CIMultiDict(pairs))
    return check_modern_headers(headers, request, VERSION, missing_name=missing_name)


def pairs(method: str, name: str | None = None) -> Pairs:
    named = [] if name is None else [("mcp-name", name)]
    return [("mcp-protocol-version", VERSION), ("mcp-method", method), *named]


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "greet"}, "greet"),
        ("tools/call", {"name": "greet"}, " greet\t"),
        ("tools/call", {"name": "grüße"}, "=?base64?Z3LDvMOfZQ==?="),
        ("tools/call", {"name": "greet"}, "=?base64?Z3JlZXQ=?="),
        ("tools/call", {"name": "=?base64?literal?="}, "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
        ("prompts/get", {"name": "p"}, "p"),
        ("resources/read", {"uri": "file:///a"}, "file:///a"),
        ("tasks/get", {"taskId": "t"}, "t"),
        ("tasks/update", {"taskId": "t"}, "t"),
        ("tasks/cancel", {"taskId": "t"}, "t"),
        ("tools/list", {}, None),
        ("tools/list", {}, "whatever"),
        ("tasks/list", {}, None),
    ],
)
@pytest.mark.parametrize("missing_name", ["allow", "reject"])
def test_headers_that_match(method: str, params: dict[str, Any], name: str | None, missing_name: str) -> None:
    assert check(method, params, pairs(method, name), missing_name) == ()


CALL = {"name": "greet"}
GOOD = pairs("tools/call", "greet")


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(
    ("method", "params", "sent"),
    [
        ("tools/call", CALL, GOOD[1:]),
        ("tools/call", CALL, [GOOD[0], GOOD[2]]),
        ("tools/call", CALL, GOOD[:2]),
        ("prompts/get", CALL, pairs("prompts/get")),
        ("resources/read", {"uri": "a"}, pairs("resources/read")),
        ("tools/call", CALL, [("MCP-Protocol-Version", "2025-11-25"), *GOOD[1:]]),
        ("tools/call", CALL, pairs("tasks/get", "greet")),
        ("tools/call", CALL, pairs("Tools/Call", "greet")),
        ("tools/call", CALL, pairs("tools/call", "Greet")),
        ("tools/call", CALL, pairs("tools/call", "")),
        ("tools/call", CALL, pairs("tools/call", "=?base64?Z3JlZXQ?=")),
        ("tools/call", CALL, pairs("tools/call", "=?base64?!!!!?=")),
        ("tools/call", CALL, pairs("tools/call", "=?base64?/w==?=")),
        ("tools/call", CALL, pairs("tools/call", "=?BASE64?Z3JlZXQ=?=")),
        ("tools/call", {}, pairs("tools/call", "greet")),
        ("tools/call", {"name": 7}, pairs("tools/call", "7")),
        ("tools/call", CALL, [*GOOD, ("Mcp-Name", "other")]),
        ("tools/call", CALL, [*GOOD, ("Mcp-Method", "tasks/get")]),
        ("tools/call", CALL, [*GOOD, ("MCP-Protocol-Version", "2025-11-25")]),
        ("tasks/get", {"taskId": "t"}, pairs("tasks/get", "u")),
        ("tasks/get", {}, pairs("tasks/get", "u")),
    ],
)
def test_headers_that_do_not_match(method: str, params: dict[str, Any], sent: Pairs) -> None:
    with pytest.raises(ClientFault) as caught:
        check(method, params, sent)
    assert (caught.value.code, status_of_fault(caught.value, Era.MODERN)) == (-32020, 400)


@pytest.mark.rule("VALIDATE")
def test_a_header_may_stand_twice_with_one_value() -> None:
    assert check("tools/call", CALL, [*GOOD, *GOOD]) == ()


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_a_missing_name_on_tasks_is_as_configured(method: str) -> None:
    assert check(method, {"taskId": "t"}, pairs(method)) == (Lenient("VALIDATE", "Mcp-Name missing"),)
    with pytest.raises(ClientFault) as caught:
        check(method, {"taskId": "t"}, pairs(method), "reject")
    assert caught.value.code == -32020


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(
    ("value", "header"),
    [
        ("us-west1", "us-west1"),
        ("a b", "a b"),
        ("", ""),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ],
)
def test_the_examples_of_the_specification(value: str, header: str) -> None:
    assert encode_value(value) == header
    assert decode_value(header) == value


@pytest.mark.rule("VALIDATE")
@given(st.text())
def test_any_name_survives_and_is_a_safe_header(value: str) -> None:
    header = encode_value(value)
    assert header.isascii()
    assert header.isprintable()
    assert header == header.strip()
    assert decode_value(header) == value


def test_a_lone_surrogate_makes_a_header_that_nobody_accepts() -> None:
    with pytest.raises(ClientFault):
        decode_value(encode_value("\ud800"))


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(
    "value", ["=?base64?cn\u00e9Vu?=", "=?base64?\udcff?=", "=?base64?cn=Vu?=", "=?base64?/w==?="]
)
def test_what_is_no_base64_is_a_mismatch(value: str) -> None:
    with pytest.raises(ClientFault) as caught:
        decode_value(value)
    assert caught.value.code == -32020
