"""What legacy_server.py asks in the middle of a call: what the `input-required-result-*` scenarios need."""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import mcp.types as t
from mcp.server.lowlevel.server import request_ctx
from mcp.shared.exceptions import UrlElicitationRequiredError

Plain = Callable[[dict[str, Any]], Awaitable[t.CallToolResult]]


async def elicit(message: str, **properties: Any) -> dict[str, Any]:
    """Ask for a form; gives what was filled in."""
    context = request_ctx.get()
    schema = {"type": "object", "properties": properties, "required": list(properties)}
    answer = await context.session.elicit(message, schema, related_request_id=context.request_id)
    return dict(answer.content or {})


async def sample(prompt: str) -> str:
    """Ask the client's model."""
    context = request_ctx.get()
    message = t.SamplingMessage(role="user", content=t.TextContent(type="text", text=prompt))
    answer = await context.session.create_message(
        [message], max_tokens=100, related_request_id=context.request_id
    )
    return answer.content.text if isinstance(answer.content, t.TextContent) else "nothing"


async def visit(arguments: dict[str, Any]) -> t.CallToolResult:
    """Ask the user to open a page."""
    context = request_ctx.get()
    answer = await context.session.elicit_url(
        "Please sign in", arguments["url"], "sign-in", related_request_id=context.request_id
    )
    return text(f"visited {arguments['url']}: {answer.action}")


async def visit_first(arguments: dict[str, Any]) -> t.CallToolResult:
    """Refuse the first call of each label with the pages to open before the next."""
    if arguments["label"] in _visited:
        return text("let in")
    _visited.add(arguments["label"])
    page = t.ElicitRequestURLParams(
        message="Please sign in", url="https://example.com/first", elicitationId="first"
    )
    raise UrlElicitationRequiredError([page])


_visited: set[str] = set()


async def roots() -> list[str]:
    """Ask for the roots: the SDK has no way to ask on the call's own stream, so it goes to the GET stream."""
    answer = await request_ctx.get().session.list_roots()
    return [str(root.uri) for root in answer.roots]


def text(value: str) -> t.CallToolResult:
    return t.CallToolResult(content=[t.TextContent(type="text", text=value)])


STRING = {"type": "string"}


async def elicitation(_: dict[str, Any]) -> t.CallToolResult:
    return text(f"Hello, {(await elicit('What is your name?', name=STRING)).get('name')}!")


async def sampling(_: dict[str, Any]) -> t.CallToolResult:
    return text(await sample("What is the capital of France?"))


async def list_roots(_: dict[str, Any]) -> t.CallToolResult:
    return text(json.dumps(await roots()))


async def confirmed(_: dict[str, Any]) -> t.CallToolResult:
    await elicit("Please confirm", ok={"type": "boolean"})
    return text("state-ok")


async def multiple(_: dict[str, Any]) -> t.CallToolResult:
    answers: dict[str, Any] = {}

    async def keep(name: str, ask: Callable[[], Awaitable[Any]]) -> None:
        answers[name] = await ask()

    async with anyio.create_task_group() as group:
        group.start_soon(keep, "name", lambda: elicit("What is your name?", name=STRING))
        group.start_soon(keep, "greeting", lambda: sample("Generate a greeting"))
        group.start_soon(keep, "roots", roots)
    return text(json.dumps(answers, sort_keys=True))


async def rounds(_: dict[str, Any]) -> t.CallToolResult:
    name = (await elicit("Step 1: What is your name?", name=STRING)).get("name")
    colour = (await elicit("Step 2: What is your favorite color?", color=STRING)).get("color")
    return text(f"{name} likes {colour}")


async def as_declared(_: dict[str, Any]) -> t.CallToolResult:
    """Ask only what the client can be asked."""
    session = request_ctx.get().session
    if session.check_client_capability(t.ClientCapabilities(elicitation=t.ElicitationCapability())):
        return await elicitation({})
    return await sampling({})


async def context_prompt() -> t.GetPromptResult:
    """Ask what the prompt is about."""
    about = (await elicit("What context should the prompt use?", context=STRING)).get("context")
    content = t.TextContent(type="text", text=f"Use this context: {about}")
    return t.GetPromptResult(messages=[t.PromptMessage(role="user", content=content)])


async def asked_resource() -> str:
    """Ask before a resource is read."""
    return f"read by {(await elicit('Who reads?', name=STRING)).get('name')}"


TOOLS: dict[str, Plain] = {
    "test_input_required_result_elicitation": elicitation,
    "test_input_required_result_sampling": sampling,
    "test_input_required_result_list_roots": list_roots,
    "test_input_required_result_request_state": confirmed,
    "test_input_required_result_tampered_state": confirmed,
    "test_input_required_result_multiple_inputs": multiple,
    "test_input_required_result_multi_round": rounds,
    "test_input_required_result_capabilities": as_declared,
    "test_elicitation_url": visit,
    "test_url_elicitation_required": visit_first,
}
PROMPT = "test_input_required_result_prompt"
RESOURCE = "test://asks-first"
