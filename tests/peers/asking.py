"""What the modern peers' tools ask, whatever the framework: answers in, a text or questions out.

Questions go out as an InputRequiredResult, and the tool is run again from its start with the answers.
"""

import json
from collections.abc import Mapping
from typing import Any

from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitRequestURLParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)

Answers = Mapping[str, Any] | None


def confirm_delete(filename: str, answers: Answers) -> str | InputRequiredResult:
    """One question, answered or declined."""
    if not answers:
        return InputRequiredResult(
            input_requests={
                "confirm": _ask(f"Delete {filename}?", "confirm", "boolean", required=["confirm"])
            }
        )
    answer = _read(answers["confirm"])
    if answer.action == "accept" and answer.content and answer.content.get("confirm"):
        return f"deleted {filename}"
    return f"kept {filename} ({answer.action})"


def multi_input(answers: Answers) -> str | InputRequiredResult:
    """Two questions at once."""
    keys = ("name", "colour")
    if not answers:
        return InputRequiredResult(input_requests={key: _ask(f"Your {key}?", key) for key in keys})
    return json.dumps({key: _read(answers[key]).content for key in keys}, sort_keys=True)


def elicitation(message: str, answers: Answers) -> str | InputRequiredResult:
    """One question with two fields, in words of the caller's."""
    if not answers:
        response = {"type": "string", "description": "User's response"}
        schema = {"properties": {"response": response, "email": {"type": "string"}}}
        return InputRequiredResult(
            input_requests={"asked": _request(message, {**schema, "required": ["response"]})}
        )
    answer = _read(answers["asked"])
    return f"User response: action={answer.action}, content={json.dumps(answer.content or {})}"


def name_first(answers: Answers) -> str | InputRequiredResult:
    """A name, then a greeting that says it comes from a task."""
    if not answers:
        return InputRequiredResult(input_requests={"name": _ask("Your name?", "name", required=["name"])})
    name = (_read(answers["name"]).content or {}).get("name", "nobody")
    return f"Hello, {name}, from a task!"


def report(answers: Answers) -> str | InputRequiredResult:
    """A name, then a report for it."""
    if not answers:
        return InputRequiredResult(input_requests={"name": _ask("Your name?", "name")})
    return f"report for {(_read(answers['name']).content or {}).get('name', 'nobody')}"


def two_rounds(answers: Answers, state: str | None) -> str | InputRequiredResult:
    """One question after the other; what the first was answered travels in the request state."""
    if state is None or not answers:
        return InputRequiredResult(input_requests={"name": _ask("Your name?", "name")}, request_state="name")
    if state == "name":
        name = (_read(answers["name"]).content or {}).get("name", "nobody")
        return InputRequiredResult(
            input_requests={"colour": _ask("Your colour?", "colour")}, request_state=f"colour of {name}"
        )
    colour = (_read(answers["colour"]).content or {}).get("colour", "none")
    return f"{state}: {colour}"


def sampled(prompt: str, answers: Answers) -> str | InputRequiredResult:
    """What the client's model says."""
    if not answers:
        return InputRequiredResult(input_requests={"said": _sample(prompt)})
    return f"LLM response: {_text(answers['said'])}"


def rooted(answers: Answers) -> str | InputRequiredResult:
    """The client's roots."""
    if not answers:
        return InputRequiredResult(input_requests={"roots": ListRootsRequest()})
    return json.dumps(_roots(answers["roots"]))


def visited(url: str, answers: Answers) -> str | InputRequiredResult:
    """A page that the user is to open."""
    if not answers:
        params = ElicitRequestURLParams(message="Please sign in", url=url, elicitation_id="sign-in")
        return InputRequiredResult(input_requests={"visit": ElicitRequest(params=params)})
    return f"visited {url}: {_read(answers['visit']).action}"


def all_kinds(answers: Answers) -> str | InputRequiredResult:
    """A form, the model and the roots at once."""
    if not answers:
        asked: dict[str, InputRequest] = {
            "name": _ask("What is your name?", "name", required=["name"]),
            "greeting": _sample("Generate a greeting"),
            "roots": ListRootsRequest(),
        }
        return InputRequiredResult(input_requests=asked)
    name = _read(answers["name"]).content
    told = {"name": name, "greeting": _text(answers["greeting"]), "roots": _roots(answers["roots"])}
    return json.dumps(told, sort_keys=True)


def in_steps(answers: Answers, state: str | None) -> str | InputRequiredResult:
    """A name, then a colour; the name travels in the request state."""
    if state is None or not answers:
        first = _ask("Step 1: What is your name?", "name", required=["name"])
        return InputRequiredResult(input_requests={"name": first}, request_state="first")
    if "name" in answers:
        name = (_read(answers["name"]).content or {}).get("name", "nobody")
        second = _ask("Step 2: What is your favorite color?", "color", required=["color"])
        return InputRequiredResult(input_requests={"color": second}, request_state=str(name))
    return f"{state} likes {(_read(answers['color']).content or {}).get('color')}"


def about(answers: Answers) -> str | InputRequiredResult:
    """What a prompt is about."""
    message = "What context should the prompt use?"
    if not answers:
        return InputRequiredResult(input_requests={"about": _ask(message, "context", required=["context"])})
    return f"Use this context: {(_read(answers['about']).content or {}).get('context')}"


def reader(answers: Answers) -> str | InputRequiredResult:
    """Who reads a resource."""
    if not answers:
        return InputRequiredResult(input_requests={"who": _ask("Who reads?", "name", required=["name"])})
    return f"read by {(_read(answers['who']).content or {}).get('name')}"


def _sample(prompt: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def _text(answer: Any) -> str:
    """The text that a model said."""
    content = CreateMessageResult.model_validate(answer).content
    return content.text if isinstance(content, TextContent) else "nothing"


def _roots(answer: Any) -> list[str]:
    return [str(root.uri) for root in ListRootsResult.model_validate(answer).roots]


def _ask(message: str, key: str, kind: str = "string", **schema: Any) -> ElicitRequest:
    return _request(message, {"properties": {key: {"type": kind}}, **schema})


def _request(message: str, schema: dict[str, Any]) -> ElicitRequest:
    form = {"type": "object", **schema}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=form))


def _read(answer: Any) -> ElicitResult:
    return ElicitResult.model_validate(answer)
