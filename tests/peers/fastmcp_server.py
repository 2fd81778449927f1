"""A genuine SEP-2663 server on fastmcp 4 and fastmcp-tasks, in memory; run by its environment.

    python fastmcp_server.py [--host H] [--port N] [--ttl-ms N] [--json] [--quick]

Prints `listening on <port>` when it accepts connections. Its tools are those of legacy_server.py under the
same names, so that a client can be held to the same outcome on both. `--ttl-ms` is how long a task that ended
is kept (900000), `--json` answers JSON where it would stream, `--quick` makes slow_compute a tool that never
becomes a task.
"""

import argparse
import asyncio
import json
import socket
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import asking
import uvicorn
from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.tools import ToolResult
from fastmcp.utilities.tasks import TaskConfig
from fastmcp_tasks import TasksExtension
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    CompletionArgument,
    EmbeddedResource,
    ImageContent,
    InputRequiredResult,
    TextContent,
    TextResourceContents,
)

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
POLL = timedelta(milliseconds=200)
OPTIONAL = TaskConfig(mode="optional", poll_interval=POLL)
REQUIRED = TaskConfig(mode="required", poll_interval=POLL)

# tools


async def greet(name: str = "world") -> str:
    return f"Hello, {name}!"


async def slow_compute(context: Context, seconds: float = 1, label: str = "") -> ToolResult:
    await context.report_progress(0, 1, "computing")
    await asyncio.sleep(seconds)
    said = TextContent(type="text", text=f"computed {label} in {seconds:g} s")
    return ToolResult(content=[said], structured_content={"seconds": seconds})


async def failing_job(seconds: float = 0.2) -> str:
    await asyncio.sleep(seconds)
    raise ToolError("the job failed")


async def protocol_error_job(seconds: float = 0.2) -> str:
    await asyncio.sleep(seconds)
    raise MCPError(code=INTERNAL_ERROR, message="the job broke the protocol")


async def confirm_delete(context: Context, filename: str = "a file") -> str | InputRequiredResult:
    return asking.confirm_delete(filename, context.input_responses)


async def multi_input(context: Context) -> str | InputRequiredResult:
    return asking.multi_input(context.input_responses)


async def elicitation(context: Context, message: str) -> str | InputRequiredResult:
    return asking.elicitation(message, context.input_responses)


async def name_first(context: Context) -> str | InputRequiredResult:
    return asking.name_first(context.input_responses)


async def two_rounds(context: Context) -> str | InputRequiredResult:
    return asking.two_rounds(context.input_responses, context.request_state)


async def with_progress(context: Context) -> str:
    for progress in (0, 50, 100):
        await context.report_progress(progress, 100, f"Completed step {progress} of 100")
        await asyncio.sleep(0.05)
    return "done"


async def with_logging(context: Context) -> str:
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.info(message)
    return "Tool with logging executed successfully"


async def multiple_content() -> ToolResult:
    body = TextResourceContents(
        uri="test://mixed-content-resource",
        mime_type="application/json",
        text=json.dumps({"test": "data", "value": 123}),
    )
    return ToolResult(
        content=[
            TextContent(type="text", text="Multiple content types test:"),
            ImageContent(type="image", data=PIXEL, mime_type="image/png"),
            EmbeddedResource(type="resource", resource=body),
        ]
    )


async def echo(value: dict[str, Any]) -> ToolResult:
    said = TextContent(type="text", text=json.dumps(value, sort_keys=True))
    return ToolResult(content=[said], structured_content=value)


TOOLS: dict[str, tuple[TaskConfig | None, Callable[..., Any]]] = {
    "greet": (None, greet),
    "slow_compute": (OPTIONAL, slow_compute),
    "failing_job": (REQUIRED, failing_job),
    "protocol_error_job": (OPTIONAL, protocol_error_job),
    "confirm_delete": (OPTIONAL, confirm_delete),
    "multi_input": (OPTIONAL, multi_input),
    "test_tool_with_progress": (None, with_progress),
    "test_tool_with_logging": (None, with_logging),
    "test_multiple_content_types": (None, multiple_content),
    "progress_job": (OPTIONAL, with_progress),
    "test_elicitation": (None, elicitation),
    "test_tool_with_task": (REQUIRED, name_first),
    "two_rounds": (None, two_rounds),
    "two_rounds_job": (OPTIONAL, two_rounds),
    "echo": (OPTIONAL, echo),
    "test_error_handling": (None, failing_job),
}


# resources, prompts


def static_text() -> str:
    return "This is the content of the static text resource."


def simple_prompt() -> str:
    return "This is a simple prompt for testing."


def prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


def complete(_: Any, argument: CompletionArgument, __: Any) -> list[str]:
    return [value for value in ("paris", "park", "party") if value.startswith(argument.value)]


def build(*, quick: bool) -> FastMCP:
    """Give the server with all its parts."""
    server = FastMCP("fastmcp-peer", version="1.0", instructions="A peer for tests.")
    server.add_extension(TasksExtension(minimum_check_interval=timedelta(milliseconds=10)))
    for name, (tasks, function) in TOOLS.items():
        as_task = None if quick and name == "slow_compute" else tasks
        server.tool(function, name=name, task=as_task, output_schema=None)
    server.resource("test://static-text", name="static-text", mime_type="text/plain")(static_text)
    server.prompt(name="test_simple_prompt")(simple_prompt)
    server.prompt(name="test_prompt_with_arguments")(prompt_with_arguments)
    server.add_completion_handler(complete)
    return server


async def serve(args: argparse.Namespace) -> None:
    """Serve until stopped."""
    server = build(quick=args.quick)
    app = server.http_app(path="/mcp", json_response=args.json)
    listener = socket.create_server((args.host, args.port))
    web = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    )
    async with app.lifespan(app):
        if args.ttl_ms is not None:
            server._docket.execution_ttl = timedelta(milliseconds=args.ttl_ms)
        print(f"listening on {listener.getsockname()[1]}", flush=True)  # noqa: T201 - the caller reads it
        await web.serve(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--ttl-ms", type=int)
    parser.add_argument("--json", action="store_true", default=None)
    parser.add_argument("--quick", action="store_true")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
