"""The demo servers' tools."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from shim.audit.counted import counted
from shim.demo.jobs import Job, Json, RpcError
from shim.wire.errors import INVALID_PARAMS


@dataclass(frozen=True)
class Tool:
    """A tool: what tools/list says of it, and what it does."""

    name: str
    description: str
    support: Literal["required", "optional", "forbidden"]
    properties: Json
    run: Callable[[Job, Mapping[str, Any]], Awaitable[Json]]

    def listing(self) -> Json:
        """Give the tools/list entry, without `execution`."""
        return {
            "name": self.name,
            "description": self.description,
            "inputSchema": {"type": "object", "properties": self.properties},
        }


def text(value: str, **fields: Any) -> Json:
    """Build a CallToolResult with one text."""
    return {"content": [{"type": "text", "text": value}], **fields}


def number(arguments: Mapping[str, Any], name: str, default: float) -> float:
    """Give a number from the arguments that is not negative. Raises RpcError -32602."""
    value = arguments.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1_000_000:  # noqa: PLR2004 - a bound
        raise RpcError(INVALID_PARAMS, f"{name} must be a number from 0 to 1000000")
    return value


async def _greet(_: Job, arguments: Mapping[str, Any]) -> Json:
    return text(f"Hello, {arguments.get('name', 'world')}!")


async def _resize_images(job: Job, arguments: Mapping[str, Any]) -> Json:
    count, seconds = int(number(arguments, "count", 4)), number(arguments, "seconds", 2)
    for done in range(count):
        job.say(f"resized {done} of {counted(count, 'image')}")
        await job.pause(seconds / count)
    return text(f"Resized {counted(count, 'image')}.", structuredContent={"resized": count})


async def _deploy(job: Job, arguments: Mapping[str, Any]) -> Json:
    place, seconds = arguments.get("environment", "production"), number(arguments, "seconds", 1)
    job.say("building")
    await job.pause(seconds / 2)
    schema = {
        "type": "object",
        "properties": {"confirm": {"type": "boolean", "description": "Go on with the deployment"}},
        "required": ["confirm"],
    }
    answer = await job.ask(f"Deploy to {place}?", schema)
    content = answer.get("content")
    if (
        answer.get("action") != "accept"
        or not isinstance(content, dict)
        or content.get("confirm") is not True
    ):
        return text(f"Not deployed to {place}: nobody confirmed.", structuredContent={"deployed": False})
    job.say("releasing")
    await job.pause(seconds / 2)
    return text(f"Deployed to {place}.", structuredContent={"deployed": True})


async def _fails(job: Job, arguments: Mapping[str, Any]) -> Json:
    await job.pause(number(arguments, "seconds", 0))
    return text("The disk is full.", isError=True)


async def _crashes(job: Job, arguments: Mapping[str, Any]) -> Json:
    await job.pause(number(arguments, "seconds", 0))
    raise RpcError(-32000, "The worker crashed.", {"signal": "SIGSEGV"})


_SECONDS: Json = {"type": "number", "minimum": 0, "description": "How long the work takes"}

TOOLS: dict[str, Tool] = {
    tool.name: tool
    for tool in (
        Tool("greet", "Say hello, at once.", "forbidden", {"name": {"type": "string"}}, _greet),
        Tool(
            "resize_images",
            "Resize a batch of images, one after the other.",
            "optional",
            {"count": {"type": "integer", "minimum": 0}, "seconds": _SECONDS},
            _resize_images,
        ),
        Tool(
            "deploy",
            "Build, ask for a confirmation, release.",
            "required",
            {"environment": {"type": "string"}, "seconds": _SECONDS},
            _deploy,
        ),
        Tool("fails", "End with a tool error.", "optional", {"seconds": _SECONDS}, _fails),
        Tool("crashes", "End with a JSON-RPC error.", "optional", {"seconds": _SECONDS}, _crashes),
    )
}
