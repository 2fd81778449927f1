"""Questions, which are requests of a server to its client, as each era has them (ML-INPUT, LM-INPUT)."""

from collections.abc import Mapping

from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.wire.envelope import strip_related_task

KIND_OF: Mapping[str, str] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}
"""Method of a question -> its kind, which is the capability that a client declares for it."""


def question_params(params: bytes) -> bytes:
    """Give a question's params without what belongs to the upstream's side (ML-INPUT)."""
    members = rawjson.members(strip_related_task(params))
    members.pop("elicitationId", None)
    members.pop("task", None)
    return rawjson.join(members)


def legacy_question(params: bytes, request_id: bytes) -> Members:
    """Give a question's params for a legacy client: one to visit a URL must have an id there (LM-INPUT).

    `request_id` is the raw JSON-RPC id that the question is sent under, however often it is sent.
    """
    members = rawjson.members(params)
    if rawjson.string(members.get("mode")) == "url":
        members["elicitationId"] = request_id if request_id[:1] == b'"' else b'"%b"' % request_id
    return members


def declined(response: bytes) -> bool:
    """Tell whether the user would not answer."""
    return rawjson.string(rawjson.members(response).get("action")) in {"decline", "cancel"}
