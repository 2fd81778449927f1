import pytest

from shim.wire.param_headers import mirrored_params, param_headers

SCHEMA = {
    "type": "object",
    "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"},
        "count": {"type": "integer", "x-mcp-header": "Count"},
        "dry": {"type": "boolean", "x-mcp-header": "Dry"},
        "where": {"type": "object", "properties": {"city": {"type": "string", "x-mcp-header": "City"}}},
        "ratio": {"type": "number", "x-mcp-header": "Ratio"},
        "bad": {"type": "string", "x-mcp-header": "no good\r\nX: y"},
        "many": {"type": "array", "items": {"properties": {"a": {"type": "string", "x-mcp-header": "A"}}}},
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
        (None, {}),
    ],
)
def test_the_headers_of_a_call(arguments: bytes | None, headers: dict[str, str]) -> None:
    assert dict(param_headers(mirrored_params(SCHEMA), arguments)) == headers
