"""`taskshim check --online` with two servers: where their tools differ."""

import pytest

from shim.cli.compare import differences
from shim.cli.survey import Survey

TEXT = {"type": "string"}


def server(schemas, support="decides"):
    found = Survey("http://x", "modern", "")
    found.schemas = schemas
    found.tools = dict.fromkeys(schemas, support)
    return found


@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ({"a": {}}, {"a": {}}, []),
        ({"a": {}, "b": {}}, {"a": {}}, [("b", "only on old")]),
        ({"a": {}}, {"a": {}, "b": {}}, [("b", "only on new")]),
        (
            {"a": {"properties": {"x": TEXT}}},
            {"a": {"properties": {"y": TEXT}}},
            [("a", "inputSchema differs at properties.x, properties.y")],
        ),
        (
            {"a": {"properties": {"x": TEXT}}},
            {"a": {"properties": {"x": {"type": "integer"}}}},
            [("a", "inputSchema differs at properties.x.type")],
        ),
        ({"a": {"description": "one"}}, {"a": {"description": "two"}}, []),
        (
            {"a": {"properties": {"title": TEXT}}},
            {"a": {"properties": {}}},
            [("a", "inputSchema differs at properties.title")],
        ),
        ({"a": None}, {"a": {}}, [("a", "inputSchema differs at its root")]),
    ],
)
def test_tools_are_compared(old, new, found):
    assert differences(server(old), server(new), ("old", "new")) == found


def test_task_support_is_compared_where_both_list_it():
    required, optional = server({"a": {}}, "required"), server({"a": {}}, "optional")
    assert differences(required, optional, ("o", "n")) == [("a", "task support required / optional")]
    assert differences(required, server({"a": {}}), ("o", "n")) == []
