"""`x-mcp-header`: a modern client's headers are checked, a legacy client's are made."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.corners import lm, ml, mm
from tests.scripted import EXPERIMENTAL, Error, Scripted, scripted, text, tool

MISMATCH = -32020


def schema(header: Any = "Region", kind: str = "string") -> dict[str, Any]:
    """An input schema that wants one parameter in a header."""
    return {"type": "object", "properties": {"region": {"type": kind, "x-mcp-header": header}}}


def listing(**fields: Any) -> dict[str, Any]:
    """A tools/list result: one tool that wants a header, one that breaks the rules, one without."""
    return {
        "tools": [
            tool("query", inputSchema=schema()),
            tool("broken", inputSchema=schema("no good")),
            tool("run"),
        ],
        **fields,
    }


@pytest.fixture
async def modern_upstream() -> AsyncIterator[Scripted]:
    async with scripted(sessions=False) as server:
        yield server


CALLS = [
    ({"region": "us"}, {"Mcp-Param-Region": "us"}, True),
    ({"region": "世界"}, {"mcp-param-region": "=?base64?5LiW55WM?="}, True),
    ({}, {}, True),
    ({"region": None}, {}, True),
    ({"region": "us"}, {"Mcp-Param-Region": "us", "Mcp-Param-Else": "x"}, True),
    ({"region": "us"}, {"Mcp-Param-Region": "eu"}, False),
    ({"region": "us"}, {}, False),
    ({}, {"Mcp-Param-Region": "us"}, False),
    ({"region": "us"}, {"Mcp-Param-Region": "=?base64?!?="}, False),
]


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(("arguments", "headers", "passes"), CALLS)
@pytest.mark.parametrize("tasks", [True, False])
async def test_ml_a_call_has_to_say_alike_in_both_places(
    tmp_path: Path, arguments: dict[str, Any], headers: dict[str, str], passes: Any, tasks: Any
) -> None:
    async with (
        scripted(capabilities=EXPERIMENTAL if tasks else {"tools": {}}) as upstream,
        ml.corner(upstream, tmp_path, tools=listing()) as here,
    ):
        upstream.on("tools/call", text("done"))
        await here.client.request("tools/list")
        reply = await here.client.call("query", arguments, headers=headers)
        if passes:
            assert reply.result["content"] == text("done")["content"]
            assert not [
                name for name in upstream.seen("tools/call")[0].headers if name.startswith("Mcp-Param")
            ]
        else:
            assert (reply.status, reply.error["code"]) == (400, MISMATCH)
            assert not upstream.seen("tools/call")


@pytest.mark.rule("VALIDATE")
async def test_ml_the_list_is_read_for_headers_of_a_client_that_was_shown_none(tmp_path: Path) -> None:
    async with scripted() as upstream, ml.corner(upstream, tmp_path, tools=listing()) as here:
        upstream.on("tools/call", text("done"))
        wrong = await here.client.call("query", {"region": "us"}, headers={"Mcp-Param-Region": "eu"})
        assert (wrong.status, wrong.error["code"]) == (400, MISMATCH)
        right = await here.client.call("query", {"region": "us"}, headers={"Mcp-Param-Region": "us"})
        assert right.status == 200


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize("name", ["broken", "run", "unheard of"])
async def test_ml_headers_that_no_tool_wants_are_ignored(tmp_path: Path, name: str) -> None:
    async with scripted() as upstream, ml.corner(upstream, tmp_path, tools=listing()) as here:
        upstream.on("tools/call", text("done"))
        reply = await here.client.call(name, {"region": "us"}, headers={"Mcp-Param-Region": "eu"})
        assert reply.result["content"] == text("done")["content"]


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(("arguments", "headers", "passes"), CALLS)
async def test_mm_a_call_is_refused_before_the_server_sees_it(
    tmp_path: Path, arguments: dict[str, Any], headers: dict[str, str], passes: Any
) -> None:
    async with mm.corner(tmp_path) as here:
        here.upstream.on("tools/list", listing(resultType="complete"))
        here.upstream.on("tools/call", mm.result())
        await here.client.request("tools/list")
        reply = await here.client.call("query", arguments, headers=headers)
        assert (reply.status == 200) is passes
        seen = here.upstream.seen("tools/call")
        assert len(seen) == passes
        if passes:
            sent = {name.lower(): value for name, value in headers.items()}
            came = {name.lower(): value for name, value in seen[0].headers.items()}
            assert sent.items() <= came.items()
        else:
            assert reply.error["code"] == MISMATCH


@pytest.mark.rule("VALIDATE")
async def test_mm_what_the_client_was_not_shown_is_for_the_server_to_judge(tmp_path: Path) -> None:
    async with mm.corner(tmp_path) as here:
        here.upstream.on("tools/call", Error(MISMATCH, "header mismatch", status=400))
        reply = await here.client.call("query", {"region": "us"}, headers={"Mcp-Param-Region": "eu"})
        assert reply.error == {"code": MISMATCH, "message": "header mismatch"}
        here.upstream.on("tools/list", listing(resultType="complete"))
        await here.client.request("tools/list")
        here.upstream.on("tools/call", mm.result())
        again = await here.client.call("query", {"region": "us"}, headers={"Mcp-Param-Region": "us"})
        assert again.status == 200


@pytest.mark.rule("VALIDATE")
async def test_the_next_list_takes_the_place_of_the_last(tmp_path: Path) -> None:
    async with mm.corner(tmp_path) as here:
        here.upstream.once("tools/list", listing(resultType="complete", nextCursor="2"))
        here.upstream.once("tools/list", {"resultType": "complete", "tools": [tool("more")]})
        here.upstream.on("tools/call", mm.result())
        await here.client.request("tools/list")
        await here.client.request("tools/list", {"cursor": "2"})
        assert (await here.client.call("query", {"region": "us"})).status == 400
        here.upstream.once("tools/list", {"resultType": "complete", "tools": [tool("query")]})
        await here.client.request("tools/list")
        assert (await here.client.call("query", {"region": "us"})).status == 200


@pytest.mark.rule("LM-META")
async def test_lm_the_headers_are_made_once_the_server_misses_them(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on("tools/list", listing(resultType="complete"))
    async with lm.corner(modern_upstream, tmp_path) as here:
        modern_upstream.once("tools/call", Error(MISMATCH, "missing", status=400))
        modern_upstream.on("tools/call", {"resultType": "complete", **text("done")})
        first = await here.client.call("query", {"region": "世界"})
        second = await here.client.call("query", {"region": "us"})
        assert first.result == second.result == text("done")
        made = [seen.headers.get("Mcp-Param-Region") for seen in modern_upstream.seen("tools/call")]
        assert made == [None, "=?base64?5LiW55WM?=", "us"]


@pytest.mark.rule("LM-TOOLS")
@pytest.mark.parametrize("discover", [lm.DISCOVER, lm.WITHOUT_TASKS])
async def test_lm_a_tool_that_breaks_the_rules_of_annotations_is_left_out(
    modern_upstream: Scripted, tmp_path: Path, discover: dict[str, Any]
) -> None:
    modern_upstream.on("server/discover", discover)
    modern_upstream.on("tools/list", listing(resultType="complete"))
    async with lm.corner(modern_upstream, tmp_path) as here:
        shown = (await here.client.request("tools/list")).result["tools"]
        assert [one["name"] for one in shown] == ["query", "run"]
        assert shown[0]["inputSchema"] == schema()
    (told,) = here.events("upstream.invalid")
    assert told["rule"] == "LM-TOOLS"
    assert "broken" in told["detail"]
