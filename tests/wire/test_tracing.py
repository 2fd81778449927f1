import json

import pytest

from shim.wire.tracing import traced

PARENT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

TABLE = [
    # in `_meta`, in headers; then the same afterwards
    ({}, {}, {}, {}),
    ({"traceparent": PARENT}, {}, {"traceparent": PARENT}, {"traceparent": PARENT}),
    ({}, {"traceparent": PARENT}, {"traceparent": PARENT}, {"traceparent": PARENT}),
    ({}, {"TraceParent": PARENT}, {"traceparent": PARENT}, {"TraceParent": PARENT}),
    (
        {"traceparent": PARENT, "tracestate": "a=1", "baggage": "b=2"},
        {},
        {"traceparent": PARENT, "tracestate": "a=1", "baggage": "b=2"},
        {"traceparent": PARENT, "tracestate": "a=1", "baggage": "b=2"},
    ),
    ({"traceparent": PARENT}, {"traceparent": OTHER}, {"traceparent": PARENT}, {"traceparent": OTHER}),
    (
        {"traceparent": PARENT, "tracestate": "a=1"},
        {"traceparent": OTHER},
        {"traceparent": PARENT, "tracestate": "a=1"},
        {"traceparent": OTHER},
    ),
    (
        {"traceparent": PARENT},
        {"baggage": "b=2"},
        {"traceparent": PARENT, "baggage": "b=2"},
        {"baggage": "b=2", "traceparent": PARENT},
    ),
    ({"tracestate": "a=1"}, {}, {"tracestate": "a=1"}, {}),
    ({"traceparent": "made up"}, {}, {"traceparent": "made up"}, {}),
    ({"traceparent": 7, "baggage": ["x"]}, {}, {"traceparent": 7, "baggage": ["x"]}, {}),
    ({"baggage": "a\r\nX-Evil: 1"}, {}, {"baggage": "a\r\nX-Evil: 1"}, {}),
    ({"baggage": "größe=1"}, {}, {"baggage": "größe=1"}, {}),
    ({"baggage": "b" * 8_193}, {}, {"baggage": "b" * 8_193}, {}),
]


@pytest.mark.rule("HEADERS")
@pytest.mark.parametrize(("meta", "headers", "meta_after", "headers_after"), TABLE)
def test_trace_context_is_said_in_both_places(
    meta: dict[str, object],
    headers: dict[str, str],
    meta_after: dict[str, object],
    headers_after: dict[str, str],
) -> None:
    before = {"_meta": json.dumps(meta).encode()} if meta else {}
    params, onwards = traced(before, list(headers.items()))
    assert json.loads(params.get("_meta", b"{}")) == meta_after
    assert dict(onwards) == headers_after


@pytest.mark.rule("HEADERS")
def test_the_lines_of_a_header_are_one_list() -> None:
    params, _ = traced({}, [("baggage", "a=1"), ("baggage", "b=2")])
    assert json.loads(params["_meta"]) == {"baggage": "a=1,b=2"}


@pytest.mark.rule("HUB-5")
def test_other_keys_stay_byte_for_byte() -> None:
    params, _ = traced({"_meta": b'{ "k": 1.10 }', "n": b"-0"}, [("traceparent", PARENT)])
    assert params["n"] == b"-0"
    assert b'"k":1.10' in params["_meta"]
