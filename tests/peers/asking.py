"""What the modern peers' tools ask, whatever the framework: answers in, a text or questions out.

Questions go out as an InputRequiredResult, and the tool is run again from its start with the answers.
"""

import json
from collections.abc import Mapping
from typing import Any

from mcp_types import ElicitRequest, ElicitRequestFormParams, ElicitResult, InputRequiredResult

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
        schema = {"properties": {"response": {"type": "string"}, "email": {"type": "string"}}}
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


def _ask(message: str, key: str, kind: str = "string", **schema: Any) -> ElicitRequest:
    return _request(message, {"properties": {key: {"type": kind}}, **schema})


def _request(message: str, schema: dict[str, Any]) -> ElicitRequest:
    form = {"type": "object", **schema}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=form))


def _read(answer: Any) -> ElicitResult:
    return answer if isinstance(answer, ElicitResult) else ElicitResult.model_validate(answer)
