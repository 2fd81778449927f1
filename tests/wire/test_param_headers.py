from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from shim.wire.errors import ClientFault
from shim.wire.param_headers import InvalidAnnotation, check_param_headers, mirrored_params, param_headers

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "where": {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}},
        "x-mcp-header": {"type": "string", "default": {"x-mcp-header": "Data"}},
        "query": {"type": "string"},
    },
}


@pytest.mark.rule("LM-META")
def test_what_a_schema_wants_mirrored() -> None:
    assert mirrored_params(SCHEMA) == {
        "Mcp-Param-Region": ("region",),
        "Mcp-Param-Count": ("count",),
        "Mcp-Param-Dry": ("dry",),
        "Mcp-Param-City": ("where", "city"),
    }


@pytest.mark.parametrize("schema", [None, [], {}, {"properties": []}, {"properties": {"a": 1}}])
def test_a_schema_that_wants_nothing(schema: object) -> None:
    assert mirrored_params(schema) == {}


@pytest.mark.rule("LM-META")
@pytest.mark.parametrize(
    ("arguments", "headers"),
    [
        (b'{"region":"us-west1","query":"q"}', {"Mcp-Param-Region": "us-west1"}),
        (b'{"count":42}', {"Mcp-Param-Count": "42"}),
        (b'{"count":-7,"dry":true}', {"Mcp-Param-Count": "-7", "Mcp-Param-Dry": "true"}),
        (b'{"dry":false}', {"Mcp-Param-Dry": "false"}),
        (b'{"where":{"city":"x"}}', {"Mcp-Param-City": "x"}),
        (b'{"where":"x","region":null,"count":99007199254740993}', {}),
        ('{"region":"世界"}'.encode(), {"Mcp-Param-Region": "=?base64?5LiW55WM?="}),
        (b'{"region":" padded "}', {"Mcp-Param-Region": "=?base64?IHBhZGRlZCA=?="}),
        (b'{"region":"line1\\nline2"}', {"Mcp-Param-Region": "=?base64?bGluZTEKbGluZTI=?="}),
        (b'{"region":"=?base64?literal?="}', {"Mcp-Param-Region": "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="}),
        (b'{"region":"\\uDDDD","count":1}', {"Mcp-Param-Count": "1"}),
        (b'{"region":"\\ud83c\\udf0d"}', {"Mcp-Param-Region": "=?base64?8J+MjQ==?="}),
        (None, {}),
    ],
)
def test_the_headers_of_a_call(arguments: bytes | None, headers: dict[str, str]) -> None:
    assert dict(param_headers(mirrored_params(SCHEMA), arguments)) == headers


def _annotated(header: Any, kind: Any = "string") -> dict[str, Any]:
    return {"type": kind, "x-mcp-header": header}


@pytest.mark.rule("LM-TOOLS")
@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": _annotated("")}},
        {"properties": {"a": _annotated("no good")}},
        {"properties": {"a": _annotated("no:good")}},
        {"properties": {"a": _annotated("no\r\nX: y")}},
        {"properties": {"a": _annotated("Größe")}},
        {"properties": {"a": _annotated(7)}},
        {"properties": {"a": _annotated("A", "number")}},
        {"properties": {"a": _annotated("A", "object")}},
        {"properties": {"a": _annotated("A", ["string", "null"])}},
        {"properties": {"a": {"x-mcp-header": "A"}}},
        {"properties": {"a": _annotated("A"), "b": _annotated("a")}},
        {"x-mcp-header": "A", "type": "string"},
        {"properties": {"many": {"items": {"properties": {"a": _annotated("A")}}}}},
        {"oneOf": [{"properties": {"a": _annotated("A")}}]},
        {"$defs": {"one": _annotated("A")}},
        {"properties": {"a": {"if": {"not": _annotated("A")}}}},
    ],
)
def test_an_annotation_against_the_rules(schema: object) -> None:
    with pytest.raises(InvalidAnnotation):
        mirrored_params(schema)


_FITS = [
    ({}, b"{}"),
    ({}, None),
    ({}, b'{"region":null,"count":[1],"query":"q"}'),
    ({"Mcp-Param-Region": "us"}, b'{"region":"us"}'),
    ({"mcp-param-region": "=?base64?5LiW55WM?="}, '{"region":"世界"}'.encode()),
    ({"Mcp-Param-Count": "42.0", "Mcp-Param-Dry": "true"}, b'{"count":42,"dry":true}'),
    ({"Mcp-Param-Count": "99007199254740993"}, b'{"count":99007199254740993}'),
    ({"Mcp-Param-City": "x"}, b'{"where":{"city":"x"}}'),
    ({"Mcp-Param-Elsewhere": "anything"}, b"{}"),
    ({}, b'{"region":"\\uDDDD"}'),
]
_MISFITS = [
    ({}, b'{"region":"us"}'),
    ({}, b'{"count":0}'),
    ({}, b'{"dry":false}'),
    ({"Mcp-Param-Region": "us"}, b'{"region":"eu"}'),
    ({"Mcp-Param-Region": "us"}, b"{}"),
    ({"Mcp-Param-Region": "us"}, b'{"region":null}'),
    ({"Mcp-Param-Region": "us"}, None),
    ({"Mcp-Param-Region": "=?base64?!!?="}, b'{"region":"us"}'),
    ({"Mcp-Param-Region": "a\x7fb"}, b'{"region":"a\x7fb"}'),
    ({"Mcp-Param-Count": "43"}, b'{"count":42}'),
    ({"Mcp-Param-Count": "42.5"}, b'{"count":42}'),
    ({"Mcp-Param-Count": "4_2"}, b'{"count":42}'),
    ({"Mcp-Param-Region": "=?base64?7bed?="}, b'{"region":"\\uDDDD"}'),
    ({"Mcp-Param-Dry": "True"}, b'{"dry":true}'),
    ({"Mcp-Param-Dry": "1"}, b'{"dry":true}'),
]


def _check(headers: dict[str, str], arguments: bytes | None) -> None:
    check_param_headers(CIMultiDictProxy(CIMultiDict(headers)), mirrored_params(SCHEMA), arguments)


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(("headers", "arguments"), _FITS)
def test_headers_that_say_what_the_arguments_say(headers: dict[str, str], arguments: bytes | None) -> None:
    _check(headers, arguments)


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(("headers", "arguments"), _MISFITS)
def test_headers_that_do_not(headers: dict[str, str], arguments: bytes | None) -> None:
    with pytest.raises(ClientFault) as refused:
        _check(headers, arguments)
    assert refused.value.code == -32020


@pytest.mark.rule("VALIDATE")
def test_a_doubled_header_that_contradicts_itself() -> None:
    doubled = CIMultiDict([("Mcp-Param-Region", "us"), ("Mcp-Param-Region", "eu")])
    with pytest.raises(ClientFault, match="twice"):
        check_param_headers(CIMultiDictProxy(doubled), mirrored_params(SCHEMA), b'{"region":"us"}')
