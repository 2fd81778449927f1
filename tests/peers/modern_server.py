"""A modern server on mcp 2.3, which has no tasks; run by its environment.

    python modern_server.py [--host H] [--port N] [--json]
    python modern_server.py --stdio

Prints `listening on <port>` when it accepts connections, or speaks on standard input and output. Where it has
a tool of legacy_server.py it has it under the same name; what is a task there is a plain call here, and what
asks asks by MRTR. `touch` publishes one of each change that a `subscriptions/listen` can hear of.
"""

import argparse
import asyncio
import json
import socket
from collections.abc import Callable
from typing import Any

import asking
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    CallToolResult,
    Completion,
    CompletionArgument,
    InputRequiredResult,
    TextContent,
    ToolAnnotations,
)

# tools


async def greet(name: str = "world") -> str:
    return f"Hello, {name}!"


async def slow_compute(seconds: float = 1, label: str = "") -> CallToolResult:
    await asyncio.sleep(seconds)
    said = TextContent(type="text", text=f"computed {label} in {seconds:g} s")
    return CallToolResult(content=[said], structured_content={"seconds": seconds})


async def failing_job(seconds: float = 0.2) -> str:
    await asyncio.sleep(seconds)
    raise ToolError("the job failed")


async def protocol_error_job(seconds: float = 0.2) -> str:
    await asyncio.sleep(seconds)
    raise MCPError(code=INTERNAL_ERROR, message="the job broke the protocol", data={"why": "asked to"})


async def confirm_delete(context: Context, filename: str = "a file") -> str | InputRequiredResult:
    return asking.confirm_delete(filename, context.input_responses)


async def multi_input(context: Context) -> str | InputRequiredResult:
    return asking.multi_input(context.input_responses)


async def elicitation(context: Context, message: str) -> str | InputRequiredResult:
    return asking.elicitation(message, context.input_responses)


async def two_rounds(context: Context) -> str | InputRequiredResult:
    return asking.two_rounds(context.input_responses, context.request_state)


async def report(context: Context, seconds: float = 0.3) -> str | InputRequiredResult:
    """Take its time, ask in the middle, take its time again."""
    await context.report_progress(1, None, "collecting")
    await asyncio.sleep(seconds)
    return asking.report(context.input_responses)


async def with_progress(context: Context) -> str:
    for progress in (0, 50, 100):
        await context.report_progress(progress, 100, f"Completed step {progress} of 100")
    return "done"


async def echo(value: dict[str, Any]) -> CallToolResult:
    said = TextContent(type="text", text=json.dumps(value, sort_keys=True))
    return CallToolResult(content=[said], structured_content=value)


async def touch(context: Context) -> str:
    await context.notify_tools_changed()
    await context.notify_prompts_changed()
    await context.notify_resources_changed()
    await context.notify_resource_updated("test://static-text")
    return "touched"


TOOLS: dict[str, Callable[..., Any]] = {
    "greet": greet,
    "slow_compute": slow_compute,
    "failing_job": failing_job,
    "protocol_error_job": protocol_error_job,
    "confirm_delete": confirm_delete,
    "test_elicitation": elicitation,
    "multi_input": multi_input,
    "two_rounds": two_rounds,
    "test_tool_with_progress": with_progress,
    "report": report,
    "echo": echo,
    "touch": touch,
}

# resources, prompts, completion


def static_text() -> str:
    return "This is the content of the static text resource."


def simple_prompt() -> str:
    return "This is a simple prompt for testing."


def prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


async def complete(_: Any, argument: CompletionArgument, __: Any) -> Completion:
    values = [value for value in ("paris", "park", "party") if value.startswith(argument.value)]
    return Completion(values=values, total=len(values), has_more=False)


def build() -> MCPServer:
    """Give the server with all its parts."""
    server = MCPServer("modern-peer", version="1.0", instructions="A peer for tests.", log_level="WARNING")
    for name, function in TOOLS.items():
        twice = ToolAnnotations(idempotent_hint=True) if name == "report" else None
        server.add_tool(function, name=name, structured_output=False, annotations=twice)
    server.resource("test://static-text", name="static-text", mime_type="text/plain")(static_text)
    server.prompt(name="test_simple_prompt")(simple_prompt)
    server.prompt(name="test_prompt_with_arguments")(prompt_with_arguments)
    server.completion()(complete)
    return server


async def serve(args: argparse.Namespace) -> None:
    """Serve until stopped."""
    server = build()
    app = server.streamable_http_app(json_response=args.json)
    listener = socket.create_server((args.host, args.port))
    web = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    )
    async with server.session_manager.run():
        print(f"listening on {listener.getsockname()[1]}", flush=True)  # noqa: T201 - the caller reads it
        await web.serve(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--stdio", action="store_true")
    args = parser.parse_args()
    asyncio.run(build().run_stdio_async() if args.stdio else serve(args))


if __name__ == "__main__":
    main()
