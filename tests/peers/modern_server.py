"""A modern server on mcp 2.3, which has no tasks; run by its environment.

    python modern_server.py [--host H] [--port N] [--json]
    python modern_server.py --stdio

Prints `listening on <port>` when it accepts connections, or speaks on standard input and output. Where it has
a tool of legacy_server.py it has it under the same name; what is a task there is a plain call here, and what
asks asks by MRTR. `touch` announces one of each change that there is. Legacy clients are served as well: they
are asked by requests, and hear of changes on their GET streams.
"""

import argparse
import asyncio
import json
import socket
import warnings
from collections.abc import Callable
from typing import Any

import asking
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.shared.exceptions import MCPDeprecationWarning, MCPError
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    INTERNAL_ERROR,
    CallToolResult,
    Completion,
    CompletionArgument,
    CompletionContext,
    CreateMessageResult,
    ElicitResult,
    EmptyResult,
    InputRequiredResult,
    ListRootsResult,
    LoggingLevel,
    ResourceTemplateReference,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    ToolAnnotations,
    UnsubscribeRequestParams,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

warnings.simplefilter("ignore", MCPDeprecationWarning)  # logging, which the new era still has

# asking

Step = Callable[[asking.Answers, str | None], str | InputRequiredResult]
ANSWERS: dict[str, type[Any]] = {
    "elicitation/create": ElicitResult,
    "sampling/createMessage": CreateMessageResult,
    "roots/list": ListRootsResult,
}


async def ask(context: Context, step: Step) -> str | InputRequiredResult:
    """Ask in the way of the client's era until the step has its text."""
    said = step(context.input_responses, context.request_state)
    while isinstance(said, InputRequiredResult) and context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
        about = ServerMessageMetadata(related_request_id=context.request_id)
        answers = {
            key: await context.session.send_request(request, ANSWERS[request.method], metadata=about)
            for key, request in (said.input_requests or {}).items()
        }
        said = step(answers, said.request_state)
    return said


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
    return await ask(context, lambda answers, _: asking.confirm_delete(filename, answers))


async def multi_input(context: Context) -> str | InputRequiredResult:
    return await ask(context, lambda answers, _: asking.multi_input(answers))


async def elicitation(context: Context, message: str) -> str | InputRequiredResult:
    return await ask(context, lambda answers, _: asking.elicitation(message, answers))


async def two_rounds(context: Context) -> str | InputRequiredResult:
    return await ask(context, asking.two_rounds)


async def in_steps(context: Context) -> str | InputRequiredResult:
    return await ask(context, asking.in_steps)


async def all_kinds(context: Context) -> str | InputRequiredResult:
    return await ask(context, lambda answers, _: asking.all_kinds(answers))


async def sampling(context: Context, prompt: str) -> str | InputRequiredResult:
    return await ask(context, lambda answers, _: asking.sampled(prompt, answers))


async def list_roots(context: Context) -> str | InputRequiredResult:
    return await ask(context, lambda answers, _: asking.rooted(answers))


async def elicitation_url(context: Context, url: str) -> str | InputRequiredResult:
    return await ask(context, lambda answers, _: asking.visited(url, answers))


async def report(context: Context, seconds: float = 0.3) -> str | InputRequiredResult:
    """Take its time, ask in the middle, take its time again."""
    await context.report_progress(1, None, "collecting")
    await asyncio.sleep(seconds)
    return await ask(context, lambda answers, _: asking.report(answers))


async def with_progress(context: Context) -> str:
    for progress in (0, 50, 100):
        await context.report_progress(progress, 100, f"Completed step {progress} of 100")
    return "done"


async def echo(value: dict[str, Any]) -> CallToolResult:
    said = TextContent(type="text", text=json.dumps(value, sort_keys=True))
    return CallToolResult(content=[said], structured_content=value)


async def log_levels(context: Context) -> str:
    """Log at four levels; in the old era only what the session's level lets through."""
    least = LEVELS.index(_level_of.get(context.session._connection, "debug"))
    for level in LEVELS[least:]:
        await context.log(level, {"said": level}, logger_name="peer")
    return "logged"


async def touch(context: Context, uri: str = "test://static-text") -> str:
    if context.protocol_version in MODERN_PROTOCOL_VERSIONS:
        await context.notify_tools_changed()
        await context.notify_prompts_changed()
        await context.notify_resources_changed()
        await context.notify_resource_updated(uri)
    else:
        await context.session.send_tool_list_changed()
        await context.session.send_prompt_list_changed()
        await context.session.send_resource_list_changed()
        await context.session.send_resource_updated(uri)
    return "touched"


async def wait_for_cancel(label: str) -> str:
    """Go on until the call is cancelled, and keep that it was."""
    begun.append(label)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        cancelled.append(label)
        raise
    return "never"


async def calls() -> str:
    """Which calls of wait_for_cancel were begun and cancelled."""
    return json.dumps({"begun": begun, "cancelled": cancelled})


LEVELS: list[LoggingLevel] = ["debug", "info", "warning", "error"]
_level_of: dict[Any, LoggingLevel] = {}
begun: list[str] = []
cancelled: list[str] = []

TOOLS: dict[str, Callable[..., Any]] = {
    "greet": greet,
    "slow_compute": slow_compute,
    "failing_job": failing_job,
    "protocol_error_job": protocol_error_job,
    "confirm_delete": confirm_delete,
    "test_elicitation": elicitation,
    "multi_input": multi_input,
    "two_rounds": two_rounds,
    "test_sampling": sampling,
    "test_elicitation_url": elicitation_url,
    "test_input_required_result_list_roots": list_roots,
    "test_input_required_result_multiple_inputs": all_kinds,
    "test_input_required_result_multi_round": in_steps,
    "test_tool_with_progress": with_progress,
    "test_log_levels": log_levels,
    "wait_for_cancel": wait_for_cancel,
    "calls": calls,
    "report": report,
    "echo": echo,
    "touch": touch,
}

# resources, prompts, completion, and what only the old era asks for


def static_text() -> str:
    return "This is the content of the static text resource."


def watched() -> str:
    return "Watched resource content"


def template(id: str) -> str:  # noqa: A002 - the template's own name for it
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


async def asked_resource(order: str, context: Context) -> str | InputRequiredResult:  # noqa: ARG001 - of the URI
    return await ask(context, lambda answers, _: asking.reader(answers))


def simple_prompt() -> str:
    return "This is a simple prompt for testing."


def prompt_with_arguments(arg1: str, arg2: str) -> str:
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


async def asked_prompt(context: Context) -> str | InputRequiredResult:
    return await ask(context, lambda answers, _: asking.about(answers))


async def complete(
    reference: Any, argument: CompletionArgument, context: CompletionContext | None
) -> Completion:
    of_template = isinstance(reference, ResourceTemplateReference)
    known = ("17", "171") if of_template else ("paris", "park", "party")
    given = "".join((context.arguments or {}).values()) if context else ""
    values = [value + given for value in known if value.startswith(argument.value)]
    return Completion(values=values, total=len(values), has_more=False)


async def set_level(context: Any, params: SetLevelRequestParams) -> EmptyResult:
    _level_of[context.session._connection] = params.level
    return EmptyResult()


async def subscribe(context: Any, params: SubscribeRequestParams) -> EmptyResult:
    await context.session.send_resource_updated(params.uri)
    return EmptyResult()


async def unsubscribe(_: Any, __: UnsubscribeRequestParams) -> EmptyResult:
    return EmptyResult()


def build() -> MCPServer:
    """Give the server with all its parts."""
    server = MCPServer("modern-peer", version="1.0", instructions="A peer for tests.", log_level="WARNING")
    for name, function in TOOLS.items():
        twice = ToolAnnotations(idempotent_hint=True) if name == "report" else None
        server.add_tool(function, name=name, structured_output=False, annotations=twice)
    server.resource("test://static-text", name="static-text", mime_type="text/plain")(static_text)
    server.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")(watched)
    server.resource("test://template/{id}/data", name="template", mime_type="application/json")(template)
    server.resource("test://asks-{order}", name="asks", mime_type="text/plain")(asked_resource)
    server.prompt(name="test_simple_prompt")(simple_prompt)
    server.prompt(name="test_prompt_with_arguments")(prompt_with_arguments)
    server.prompt(name="test_input_required_result_prompt")(asked_prompt)
    server.completion()(complete)
    old = server._lowlevel_server
    old.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
    old.add_request_handler("resources/subscribe", SubscribeRequestParams, subscribe)
    old.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, unsubscribe)
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
