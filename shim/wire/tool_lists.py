"""The tools in a tools/list result: their names, and whether they can run as tasks (ML-CREATE, LM-TOOLS)."""

from collections.abc import Callable, Mapping

from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.wire.errors import UpstreamFault


def tool_names(result: bytes) -> list[str]:
    """Give the names in a tools/list result."""
    tools = _items(rawjson.members(result).get("tools", b"[]"))
    names = (rawjson.string(tool.get("name")) for tool in tools)
    return [name for name in names if name is not None]


def tools_with_support(result: bytes, support: Mapping[str, str]) -> bytes:
    """Say in a tools/list result which tools can run as tasks; one that is not named stays as it is."""
    members = rawjson.members(result)

    def supported(tool: Members) -> Members:
        said = support.get(rawjson.string(tool.get("name")) or "")
        return tool if said is None else {**tool, "execution": rawjson.encode({"taskSupport": said})}

    if "tools" in members:
        members["tools"] = _each_tool(members["tools"], supported)
    return rawjson.join(members)


def without_tools(result: bytes, is_out: Callable[[Members], bool]) -> bytes:
    """Leave tools out of a tools/list result; one that needs none left out stays as it came."""
    members = rawjson.members(result)
    tools = _items(members.get("tools", b"[]"))
    kept = [tool for tool in tools if not is_out(tool)]
    if len(kept) == len(tools):
        return result
    return rawjson.join({**members, "tools": b"[" + b",".join(map(rawjson.join, kept)) + b"]"})


def without_support(tools: bytes) -> bytes:
    """Give a list of tools that says nothing of which can run as tasks."""
    return _each_tool(tools, _without_execution)


def _each_tool(tools: bytes, change: Callable[[Members], Members]) -> bytes:
    return b"[" + b",".join(rawjson.join(change(tool)) for tool in _items(tools)) + b"]"


def _items(tools: bytes) -> list[Members]:
    if tools[:1] != b"[":
        raise UpstreamFault("the upstream's tools are no list")
    return [rawjson.members(item) for item in rawjson.items(tools)]


def _without_execution(tool: Members) -> Members:
    return {key: value for key, value in tool.items() if key != "execution"}
