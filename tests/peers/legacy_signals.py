"""What legacy_server.py says beside its answers: log messages, changes; and calls that are cancelled."""

import json
import weakref
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp.types as t
from mcp.server.lowlevel.server import request_ctx
from mcp.server.session import ServerSession
from pydantic import AnyUrl

Plain = Callable[[dict[str, Any]], Awaitable[t.CallToolResult]]

LEVELS: list[t.LoggingLevel] = ["debug", "info", "warning", "error"]
_level_of: weakref.WeakKeyDictionary[ServerSession, t.LoggingLevel] = weakref.WeakKeyDictionary()
begun: list[str] = []
cancelled: list[str] = []


def set_level(level: t.LoggingLevel) -> None:
    """From now on the session hears of nothing below the level."""
    _level_of[request_ctx.get().session] = level


def text(value: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=value)])


async def log_levels(_: dict[str, Any]) -> t.CallToolResult:
    """Log at four levels, as far as the session's level lets them through."""
    context = request_ctx.get()
    least = LEVELS.index(_level_of.get(context.session, "debug"))
    for level in LEVELS[least:]:
        await context.session.send_log_message(
            level, {"said": level}, "peer", related_request_id=context.request_id
        )
    return text("logged")


async def touch(arguments: dict[str, Any]) -> t.CallToolResult:
    """Announce one of each change on the session of the call."""
    session = request_ctx.get().session
    await session.send_prompt_list_changed()
    await session.send_tool_list_changed()
    await session.send_resource_list_changed()
    await session.send_resource_updated(AnyUrl(arguments.get("uri", "test://watched-resource")))
    return text("touched")


async def wait_for_cancel(arguments: dict[str, Any]) -> t.CallToolResult:
    """Go on until the call is cancelled, and keep that it was."""
    begun.append(arguments["label"])
    try:
        await anyio.sleep_forever()
    except anyio.get_cancelled_exc_class():
        cancelled.append(arguments["label"])
        raise


async def calls(_: dict[str, Any]) -> t.CallToolResult:
    """Which calls of wait_for_cancel were begun and cancelled."""
    return text(json.dumps({"begun": begun, "cancelled": cancelled}))


STRING = {"type": "string"}
TOOLS: dict[str, tuple[dict[str, Any], Plain]] = {
    "test_log_levels": ({}, log_levels),
    "touch": ({"uri": STRING}, touch),
    "wait_for_cancel": ({"label": STRING}, wait_for_cancel),
    "calls": ({}, calls),
}
"""Each with the properties of its arguments."""
