"""A legacy server's -32042 (a URL has to be visited first) as a modern result: input_required (ERRORS).

The error ends the call on the server, and the client's retry is that call sent again: nothing is kept in
between. The `requestState` only tells one round from the next.
"""

import secrets

from shim.hub import rawjson
from shim.hub.rawjson import Members, RawJsonError
from shim.wire.errors import URL_ELICITATION, invalid_params, missing_capability
from shim.wire.jsonrpc import Response
from shim.wire.methods import RUN
from shim.wire.questions import question_params

_STATE = "url-elicitation-"
_OBJECT = b"{"


def as_input_required(response: Response, method: str, capabilities: Members) -> Response:
    """Give the answer as a modern client knows it; any other answer, or a list that names no URL, as it is.

    `capabilities` are the kinds of questions that the client declared, raw. Raises missing_capability where
    elicitation by URL is not among them.
    """
    if response.error is None or method not in RUN:
        return response
    error = rawjson.members(response.error)
    if rawjson.decode(error.get("code", b"null")) != URL_ELICITATION:
        return response
    asked = _elicitations(error.get("data", b""))
    if not asked:
        return response
    declared = capabilities.get("elicitation", b"{}")
    if rawjson.members(declared).get("url", b"")[:1] != _OBJECT:
        raise missing_capability({"elicitation": {"url": {}}})
    requests = {
        f"elicitation-{number}": rawjson.join({"method": b'"elicitation/create"', "params": params})
        for number, params in enumerate(asked, 1)
    }
    state = rawjson.encode(_STATE + secrets.token_urlsafe())
    result: Members = {"resultType": b'"input_required"', "inputRequests": rawjson.join(requests)}
    return Response(response.id, rawjson.join({**result, "requestState": state}), None)


def after_urls(params: Members) -> bool:
    """Tell a call that is sent again once its URLs were visited."""
    return (rawjson.string(params.get("requestState")) or "").startswith(_STATE)


def refuse_declined(params: Members) -> None:
    """Refuse a retry whose user would not visit the URL: the call cannot run. Raises ClientFault."""
    if not after_urls(params):
        return
    try:
        answers = rawjson.members(params.get("inputResponses", b"{}")).values()
        said = {rawjson.string(rawjson.members(answer).get("action")) for answer in answers}
    except RawJsonError as exc:
        raise invalid_params(f"params.inputResponses: {exc}") from exc
    if said & {"decline", "cancel"}:
        raise invalid_params("params.inputResponses: the URL was not visited, so the call is not sent again")


def _elicitations(data: bytes) -> list[bytes]:
    """Give the params of the elicitations that an error's data lists; those without a URL are none."""
    listed = rawjson.object_or_empty(data).get("elicitations", b"")
    return [
        question_params(one)
        for one in (rawjson.items(listed) if listed[:1] == b"[" else ())
        if rawjson.string(rawjson.object_or_empty(one).get("url")) is not None
    ]
