"""A legacy server on mcp 1.30 with all that the official conformance suite asks for; run by its environment.

    python legacy_server.py [--host H] [--port N] [--stock] [--no-tasks] [--no-events] [--json]

Prints `listening on <port>` when it accepts connections. `--stock` uses the SDK's task support as it comes,
with its faults: a cancelled task can take its session along, a session that ends stops task creation in all
others, a waiter can miss the end, two questions of a task can get one id. Without it, tasks run in one group
that lives as long as the process.
`--no-tasks` has none: the tools that would run as tasks are plain ones, which ask and report in the call.
`--no-events` leaves out the event store (no event ids, no resumption).
`--stdio` serves one client on standard input and output instead, and prints nothing.
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import socket
import uuid
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import legacy_questions as questions
import legacy_signals as signals
import mcp.types as t
import uvicorn
from anyio.abc import TaskGroup
from mcp.server.experimental.task_context import ServerTaskContext
from mcp.server.experimental.task_support import TaskSupport
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.lowlevel.helper_types import ReadResourceContents
from mcp.server.models import InitializationOptions
from mcp.server.session import ServerSession
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http import EventCallback, EventId, EventMessage, EventStore, StreamId
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from mcp.shared.exceptions import McpError
from mcp.shared.experimental.tasks.helpers import is_terminal
from mcp.shared.experimental.tasks.in_memory_task_store import InMemoryTaskStore
from mcp.shared.experimental.tasks.message_queue import InMemoryTaskMessageQueue
from pydantic import AnyUrl
from starlette.applications import Starlette
from starlette.routing import Route

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
SOUND = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="


class Announcing(Server[Any, Any]):
    """A server that says it announces changes of its lists; of subscriptions the SDK always says no."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        every = NotificationOptions(prompts_changed=True, resources_changed=True, tools_changed=True)
        return super().create_initialization_options(notification_options or every, experimental_capabilities)


server: Server[Any, Any] = Announcing("legacy-peer", version="1.0")


# tasks


class Guarded:
    """A task group's `start_soon` whose work may fail without ending the group."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group

    def start_soon(self, work: Callable[[], Awaitable[None]]) -> None:
        async def run() -> None:
            with contextlib.suppress(Exception):  # a cancelled task refuses to complete
                await work()

        self._group.start_soon(run)


class WakefulStore(InMemoryTaskStore):
    """A store that does not wait for an end that has come already, as the SDK's can when work is quick."""

    async def wait_for_update(self, task_id: str) -> None:
        task = await self.get_task(task_id)
        if task is None or not is_terminal(task.status):
            await super().wait_for_update(task_id)


class LastingTaskSupport(TaskSupport):
    """Task support whose group is the process's, not that of the session that came last.

    Questions are numbered: the SDK takes an object's address as their id, and that comes again.
    """

    _numbers = itertools.count(1)

    @contextlib.asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        yield

    def configure_session(self, session: ServerSession, *, stateless: bool = False) -> None:
        super().configure_session(session, stateless=stateless)
        build = session._build_elicit_form_request

        def numbered(*args: Any, **kwargs: Any) -> t.JSONRPCRequest:
            request = build(*args, **kwargs)
            if isinstance(request.id, str):
                request.id = f"{request.id}-{next(self._numbers)}"
            return request

        session._build_elicit_form_request = numbered  # type: ignore[method-assign]

    @contextlib.asynccontextmanager
    async def run_process(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as group:
            self._task_group = Guarded(group)  # type: ignore[assignment]
            try:
                yield
            finally:
                group.cancel_scope.cancel()


def enable_tasks(*, stock: bool) -> contextlib.AbstractAsyncContextManager[None]:
    """Switch tasks on; gives what must be entered for as long as the process serves."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        handlers = server.experimental
    if stock:
        handlers.enable_tasks()
        return contextlib.nullcontext()
    support = LastingTaskSupport(WakefulStore(), InMemoryTaskMessageQueue())
    handlers._task_support = support
    handlers._register_default_task_handlers()
    return support.run_process()


# tools

Work = Callable[[ServerTaskContext, dict[str, Any]], Awaitable[t.CallToolResult]]
Plain = Callable[[dict[str, Any]], Awaitable[t.CallToolResult]]


def text(value: str, **fields: Any) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=value)], **fields)


def form(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


async def slow_compute(task: ServerTaskContext, arguments: dict[str, Any]) -> t.CallToolResult:
    seconds = float(arguments.get("seconds", 1))
    await task.update_status("computing")
    await anyio.sleep(seconds)
    return text(
        f"computed {arguments.get('label', '')} in {seconds:g} s", structuredContent={"seconds": seconds}
    )


async def failing_job(_: ServerTaskContext, arguments: dict[str, Any]) -> t.CallToolResult:
    await anyio.sleep(float(arguments.get("seconds", 0.2)))
    return text("the job failed", isError=True)


async def protocol_error_job(_: ServerTaskContext, arguments: dict[str, Any]) -> t.CallToolResult:
    await anyio.sleep(float(arguments.get("seconds", 0.2)))
    raise McpError(t.ErrorData(code=t.INTERNAL_ERROR, message="the job broke the protocol"))


async def confirm_delete(task: ServerTaskContext, arguments: dict[str, Any]) -> t.CallToolResult:
    name = arguments.get("filename", "a file")
    answer = await task.elicit(
        f"Delete {name}?", {**form(confirm={"type": "boolean"}), "required": ["confirm"]}
    )
    if answer.action == "accept" and answer.content and answer.content.get("confirm"):
        return text(f"deleted {name}")
    return text(f"kept {name} ({answer.action})")


async def multi_input(task: ServerTaskContext, _: dict[str, Any]) -> t.CallToolResult:
    answers: dict[str, Any] = {}

    async def ask(key: str) -> None:
        answer = await task.elicit(f"Your {key}?", form(**{key: {"type": "string"}}))
        answers[key] = answer.content

    async with anyio.create_task_group() as group:
        for key in ("name", "colour"):
            group.start_soon(ask, key)
    return text(json.dumps(answers, sort_keys=True))


async def two_rounds(task: ServerTaskContext, _: dict[str, Any]) -> t.CallToolResult:
    name = await task.elicit("Your name?", form(name={"type": "string"}))
    colour = await task.elicit("Your colour?", form(colour={"type": "string"}))
    return text(f"colour of {(name.content or {}).get('name')}: {(colour.content or {}).get('colour')}")


async def echo(_: ServerTaskContext, arguments: dict[str, Any]) -> t.CallToolResult:
    value = arguments.get("value", {})
    return text(json.dumps(value, sort_keys=True), structuredContent=value)


async def ask_twice(task: ServerTaskContext, arguments: dict[str, Any]) -> t.CallToolResult:
    """Ask, wait until a file is there, ask again."""
    answers = []
    for key in ("first", "second"):
        answer = await task.elicit(f"Your {key}?", form(**{key: {"type": "string"}}))
        answers.append((answer.content or {}).get(key))
        while key == "first" and not await anyio.Path(arguments["file"]).exists():  # noqa: ASYNC110 - made by the test
            await anyio.sleep(0.01)
    return text(json.dumps(answers))


TASK_TOOLS: dict[str, tuple[str, dict[str, Any], Work]] = {
    "slow_compute": ("optional", form(seconds={"type": "number"}, label={"type": "string"}), slow_compute),
    "failing_job": ("required", form(seconds={"type": "number"}), failing_job),
    "protocol_error_job": ("optional", form(seconds={"type": "number"}), protocol_error_job),
    "confirm_delete": ("optional", form(filename={"type": "string"}), confirm_delete),
    "multi_input": ("optional", form(), multi_input),
    "ask_twice": ("optional", form(file={"type": "string"}), ask_twice),
    "two_rounds_job": ("optional", form(), two_rounds),
    "echo": ("optional", form(value={"type": "object"}), echo),
}


async def report(task: ServerTaskContext, arguments: dict[str, Any]) -> t.CallToolResult:
    """Take its time, ask in the middle, take its time again."""
    await task.update_status("collecting")
    await anyio.sleep(float(arguments.get("seconds", 0.3)))
    answer = await task.elicit("Your name?", form(name={"type": "string"}))
    await anyio.sleep(float(arguments.get("seconds", 0.3)))
    return text(f"report for {(answer.content or {}).get('name', 'nobody')}")


def disable_tasks() -> None:
    """Make plain tools of those that run as tasks."""

    def plain(work: Work) -> Plain:
        return lambda arguments: work(PlainCall(), arguments)  # type: ignore[arg-type]

    PLAIN_TOOLS.update({name: (schema, plain(work)) for name, (_, schema, work) in TASK_TOOLS.items()})
    PLAIN_TOOLS["report"] = (form(seconds={"type": "number"}), plain(report))
    TASK_TOOLS.clear()


async def ask_then_work(_: dict[str, Any]) -> t.CallToolResult | t.CreateTaskResult:
    """Ask on the call's own stream, then go on as a task."""
    answer = await elicit("Your name?", {**form(name={"type": "string"}), "required": ["name"]})
    name = (answer.content or {}).get("name", "nobody")

    async def work(_: ServerTaskContext) -> t.CallToolResult:
        return text(f"Hello, {name}, from a task!")

    context = server.request_context.experimental
    context.validate_task_mode("required")
    return await context.run_task(work)


async def greet(arguments: dict[str, Any]) -> t.CallToolResult:
    return text(f"Hello, {arguments.get('name', 'world')}!")


async def simple_text(_: dict[str, Any]) -> t.CallToolResult:
    return text("This is a simple text response for testing.")


async def image_content(_: dict[str, Any]) -> t.CallToolResult:
    return t.CallToolResult(content=[image()])


async def audio_content(_: dict[str, Any]) -> t.CallToolResult:
    return t.CallToolResult(content=[t.AudioContent(type="audio", data=SOUND, mimeType="audio/wav")])


async def embedded_resource(_: dict[str, Any]) -> t.CallToolResult:
    return t.CallToolResult(
        content=[embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]
    )


async def multiple_content(_: dict[str, Any]) -> t.CallToolResult:
    return t.CallToolResult(
        content=[
            t.TextContent(type="text", text="Multiple content types test:"),
            image(),
            embedded(
                "test://mixed-content-resource",
                "application/json",
                json.dumps({"test": "data", "value": 123}),
            ),
        ]
    )


async def with_logging(_: dict[str, Any]) -> t.CallToolResult:
    context = server.request_context
    for message in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await context.session.send_log_message("info", message, related_request_id=context.request_id)
        await anyio.sleep(0.05)
    return text("Tool with logging executed successfully")


async def with_progress(_: dict[str, Any]) -> t.CallToolResult:
    context = server.request_context
    token = context.meta.progressToken if context.meta and context.meta.progressToken is not None else 0
    for progress in (0, 50, 100):
        await context.session.send_progress_notification(
            token,
            progress,
            100,
            f"Completed step {progress} of 100",
            related_request_id=str(context.request_id),
        )
        await anyio.sleep(0.05)
    return text(str(token))


async def error_handling(_: dict[str, Any]) -> t.CallToolResult:
    return text("This tool intentionally returns an error for testing", isError=True)


async def reconnection(_: dict[str, Any]) -> t.CallToolResult:
    close = server.request_context.close_sse_stream
    if close is not None:
        await close()
    await anyio.sleep(0.1)
    return text("Reconnection test completed successfully.")


async def sampling(arguments: dict[str, Any]) -> t.CallToolResult:
    context = server.request_context
    prompt = t.SamplingMessage(role="user", content=t.TextContent(type="text", text=arguments["prompt"]))
    answer = await context.session.create_message(
        [prompt], max_tokens=100, related_request_id=context.request_id
    )
    said = answer.content.text if isinstance(answer.content, t.TextContent) else "No response"
    return text(f"LLM response: {said}")


async def elicitation(arguments: dict[str, Any]) -> t.CallToolResult:
    schema = form(response={"type": "string", "description": "User's response"}, email={"type": "string"})
    answer = await elicit(arguments["message"], {**schema, "required": ["response"]})
    return text(f"User response: action={answer.action}, content={json.dumps(answer.content or {})}")


async def elicitation_defaults(_: dict[str, Any]) -> t.CallToolResult:
    schema = form(
        name={"type": "string", "description": "User name", "default": "John Doe"},
        age={"type": "integer", "description": "User age", "default": 30},
        score={"type": "number", "description": "User score", "default": 95.5},
        status={"type": "string", "enum": ["active", "inactive", "pending"], "default": "active"},
        verified={"type": "boolean", "description": "Verification status", "default": True},
    )
    answer = await elicit(
        "Please review and update the form fields with defaults", {**schema, "required": []}
    )
    return text(f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content or {})}")


def titled(*names: str) -> list[dict[str, str]]:
    return [{"const": f"value{n}", "title": name} for n, name in enumerate(names, 1)]


async def elicitation_enums(_: dict[str, Any]) -> t.CallToolResult:
    options = ["option1", "option2", "option3"]
    schema = form(
        untitledSingle={"type": "string", "enum": options},
        titledSingle={"type": "string", "oneOf": titled("First Option", "Second Option", "Third Option")},
        legacyEnum={
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        untitledMulti={
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {"type": "string", "enum": options},
        },
        titledMulti={
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {"anyOf": titled("First Choice", "Second Choice", "Third Choice")},
        },
    )
    answer = await elicit("Please select options from the enum fields", {**schema, "required": []})
    return text(f"Elicitation completed: action={answer.action}, content={json.dumps(answer.content or {})}")


async def json_schema(arguments: dict[str, Any]) -> t.CallToolResult:
    return text(f"JSON Schema 2020-12 tool called with: {json.dumps(arguments)}")


JSON_SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}

PLAIN_TOOLS: dict[str, tuple[dict[str, Any], Plain]] = {
    "greet": (form(name={"type": "string"}), greet),
    "test_simple_text": (form(), simple_text),
    "test_image_content": (form(), image_content),
    "test_audio_content": (form(), audio_content),
    "test_embedded_resource": (form(), embedded_resource),
    "test_multiple_content_types": (form(), multiple_content),
    "test_tool_with_logging": (form(), with_logging),
    "test_tool_with_progress": (form(), with_progress),
    "test_error_handling": (form(), error_handling),
    "test_reconnection": (form(), reconnection),
    "test_sampling": ({**form(prompt={"type": "string"}), "required": ["prompt"]}, sampling),
    "test_elicitation": ({**form(message={"type": "string"}), "required": ["message"]}, elicitation),
    "test_elicitation_sep1034_defaults": (form(), elicitation_defaults),
    "test_elicitation_sep1330_enums": (form(), elicitation_enums),
    "json_schema_2020_12_tool": (JSON_SCHEMA_2020_12, json_schema),
    **{name: (form(), ask) for name, ask in questions.TOOLS.items()},
    **{name: (form(**properties), tool) for name, (properties, tool) in signals.TOOLS.items()},
}


def image() -> t.ImageContent:
    return t.ImageContent(type="image", data=PIXEL, mimeType="image/png")


def embedded(uri: str, mime_type: str, body: str) -> t.EmbeddedResource:
    contents = t.TextResourceContents(uri=AnyUrl(uri), mimeType=mime_type, text=body)
    return t.EmbeddedResource(type="resource", resource=contents)


async def elicit(message: str, schema: dict[str, Any]) -> t.ElicitResult:
    context = server.request_context
    return await context.session.elicit(message, schema, related_request_id=context.request_id)


@server.list_tools()
async def list_tools() -> list[t.Tool]:
    twice = t.ToolAnnotations(idempotentHint=True)
    plain = [
        t.Tool(name=n, description=n, inputSchema=schema, annotations=twice if n == "report" else None)
        for n, (schema, _) in PLAIN_TOOLS.items()
    ]
    if not TASK_TOOLS:
        return plain
    as_task = {**TASK_TOOLS, "test_tool_with_task": ("required", form(), ask_then_work)}
    tasks = [
        t.Tool(name=n, description=n, inputSchema=schema, execution=t.ToolExecution(taskSupport=support))
        for n, (support, schema, _) in as_task.items()
    ]
    return [*plain, *tasks]


@server.call_tool()
async def call_tool(name: str, arguments: dict[str, Any]) -> t.CallToolResult | t.CreateTaskResult:
    if name in PLAIN_TOOLS:
        return await PLAIN_TOOLS[name][1](arguments)
    if name == "test_tool_with_task":
        return await ask_then_work(arguments)
    if name not in TASK_TOOLS:
        raise ValueError(f"Unknown tool: {name}")
    support, _, work = TASK_TOOLS[name]
    context = server.request_context.experimental
    context.validate_task_mode(support)
    if context.is_task:
        return await context.run_task(lambda task: work(task, arguments))
    return await work(PlainCall(), arguments)


class PlainCall:
    """Stands in for the task context where a task tool is called plainly."""

    async def update_status(self, message: str) -> None:
        context = server.request_context
        if context.meta and context.meta.progressToken is not None:
            await context.session.send_progress_notification(
                context.meta.progressToken, 1, None, message, related_request_id=str(context.request_id)
            )

    async def elicit(self, message: str, schema: dict[str, Any]) -> t.ElicitResult:
        return await elicit(message, schema)


# resources, prompts, completion, logging

RESOURCES = {
    "test://static-text": ("Static Text Resource", "text/plain"),
    "test://static-binary": ("Static Binary Resource", "image/png"),
    "test://watched-resource": ("Watched Resource", "text/plain"),
}


@server.list_resources()
async def list_resources() -> list[t.Resource]:
    return [
        t.Resource(uri=AnyUrl(uri), name=uri.removeprefix("test://"), title=title, mimeType=mime_type)
        for uri, (title, mime_type) in RESOURCES.items()
    ]


@server.list_resource_templates()
async def list_resource_templates() -> list[t.ResourceTemplate]:
    return [
        t.ResourceTemplate(
            uriTemplate="test://template/{id}/data", name="template", mimeType="application/json"
        )
    ]


@server.read_resource()
async def read_resource(uri: AnyUrl) -> list[ReadResourceContents]:
    found = str(uri)
    if found == questions.RESOURCE:
        return [ReadResourceContents(await questions.asked_resource(), "text/plain")]
    if found == "test://static-text":
        return [ReadResourceContents("This is the content of the static text resource.", "text/plain")]
    if found == "test://static-binary":
        return [ReadResourceContents(bytes.fromhex("89504e470d0a1a0a"), "image/png")]
    if found == "test://watched-resource":
        return [ReadResourceContents("Watched resource content", "text/plain")]
    if found.startswith("test://template/") and found.endswith("/data"):
        key = found.removeprefix("test://template/").removesuffix("/data")
        body = {"id": key, "templateTest": True, "data": f"Data for ID: {key}"}
        return [ReadResourceContents(json.dumps(body), "application/json")]
    raise McpError(t.ErrorData(code=-32002, message="Resource not found", data={"uri": found}))


@server.subscribe_resource()
async def subscribe(uri: AnyUrl) -> None:
    await server.request_context.session.send_resource_updated(uri)


@server.unsubscribe_resource()
async def unsubscribe(_: AnyUrl) -> None:
    return


PROMPTS: dict[str, list[str]] = {
    "test_simple_prompt": [],
    "test_prompt_with_arguments": ["arg1", "arg2"],
    "test_prompt_with_embedded_resource": ["resourceUri"],
    "test_prompt_with_image": [],
    questions.PROMPT: [],
}


@server.list_prompts()
async def list_prompts() -> list[t.Prompt]:
    return [
        t.Prompt(
            name=name,
            description=name,
            arguments=[t.PromptArgument(name=key, description=key, required=True) for key in keys],
        )
        for name, keys in PROMPTS.items()
    ]


@server.get_prompt()
async def get_prompt(name: str, arguments: dict[str, str] | None) -> t.GetPromptResult:
    if name == questions.PROMPT:
        return await questions.context_prompt()
    given = arguments or {}
    contents: dict[str, list[Any]] = {
        "test_simple_prompt": ["This is a simple prompt for testing."],
        "test_prompt_with_arguments": [
            f"Prompt with arguments: arg1='{given.get('arg1')}', arg2='{given.get('arg2')}'"
        ],
        "test_prompt_with_embedded_resource": [
            embedded(
                given.get("resourceUri", "test://none"),
                "text/plain",
                "Embedded resource content for testing.",
            ),
            "Please process the embedded resource above.",
        ],
        "test_prompt_with_image": [image(), "Please analyze the image above."],
    }
    if name not in contents:
        raise McpError(t.ErrorData(code=t.INVALID_PARAMS, message=f"Unknown prompt: {name}"))
    blocks = [t.TextContent(type="text", text=b) if isinstance(b, str) else b for b in contents[name]]
    return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=block) for block in blocks])


@server.completion()
async def complete(
    reference: Any, argument: t.CompletionArgument, context: t.CompletionContext | None
) -> t.Completion:
    of_template = isinstance(reference, t.ResourceTemplateReference)
    known = ("17", "171") if of_template else ("paris", "park", "party")
    given = "".join((context.arguments or {}).values()) if context else ""
    values = [value + given for value in known if value.startswith(argument.value)]
    return t.Completion(values=values, total=len(values), hasMore=False)


@server.set_logging_level()
async def set_logging_level(level: t.LoggingLevel) -> None:
    signals.set_level(level)


# serving


class MemoryEvents(EventStore):
    """The last events of every stream, in memory."""

    def __init__(self) -> None:
        self._events: list[tuple[EventId, StreamId, t.JSONRPCMessage | None]] = []

    async def store_event(self, stream_id: StreamId, message: t.JSONRPCMessage | None) -> EventId:
        event_id = uuid.uuid4().hex
        self._events = [*self._events[-999:], (event_id, stream_id, message)]
        return event_id

    async def replay_events_after(self, last_event_id: EventId, send: EventCallback) -> StreamId | None:
        at = next((n for n, (event_id, _, _) in enumerate(self._events) if event_id == last_event_id), None)
        if at is None:
            return None
        stream_id = self._events[at][1]
        for event_id, stream, message in self._events[at + 1 :]:
            if stream == stream_id and message is not None:
                await send(EventMessage(message, event_id))
        return stream_id


async def serve(args: argparse.Namespace) -> None:
    """Serve until stopped."""
    if args.no_tasks:
        disable_tasks()
    lasting = contextlib.nullcontext() if args.no_tasks else enable_tasks(stock=args.stock)
    if args.stdio:
        async with lasting, stdio_server() as (reads, writes):
            await server.run(reads, writes, server.create_initialization_options())
        return
    manager = StreamableHTTPSessionManager(
        server,
        event_store=None if args.no_events else MemoryEvents(),
        json_response=args.json,
        retry_interval=None if args.no_events else 500,
        security_settings=TransportSecuritySettings(
            enable_dns_rebinding_protection=True,
            allowed_hosts=["127.0.0.1:*", "localhost:*"],
            allowed_origins=["http://127.0.0.1:*", "http://localhost:*"],
        ),
    )

    class Endpoint:
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            await manager.handle_request(scope, receive, send)

    app = Starlette(routes=[Route("/mcp", endpoint=Endpoint())])
    listener = socket.create_server((args.host, args.port))
    web = uvicorn.Server(
        uvicorn.Config(app, log_level="warning", lifespan="off", timeout_graceful_shutdown=1)
    )
    async with lasting, manager.run():
        print(f"listening on {listener.getsockname()[1]}", flush=True)  # noqa: T201 - the caller reads it
        await web.serve(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--stock", action="store_true")
    parser.add_argument("--no-tasks", action="store_true")
    parser.add_argument("--no-events", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--stdio", action="store_true")
    asyncio.run(serve(parser.parse_args()))


if __name__ == "__main__":
    main()
