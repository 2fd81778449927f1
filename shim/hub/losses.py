"""What a dialect's task object cannot carry, written down; a test holds each entry and that no other exists.

Keys of OUTWARDS are hub fields, or `status.X` for a state, or `status_message.X` for the message in a
state. Keys of INWARDS are members of the dialect's object. The texts say what stands there instead.
"""

from collections.abc import Mapping

_STREAM = "server requests on a stream"
_RESULT = "the answer of tasks/result"
_CREATE = "carried by the create reply alone"

OUTWARDS: Mapping[str, Mapping[str, str]] = {
    "sep-2663": {"meta": _CREATE},
    "experimental": {"meta": _CREATE, "result": _RESULT, "error": _RESULT, "input_requests": _STREAM},
    "create-status": {
        "meta": _CREATE,
        "result": _RESULT,
        "error": _RESULT,
        "last_updated_at": "nothing",
        "status.input_required": "running, told by its statusMessage",
        "status.cancelled": "error, told by its statusMessage",
        "status_message.input_required": "the fixed text that tells the state",
        "status_message.cancelled": "the fixed text that tells the state",
    },
}
"""Hub -> dialect: what a task loses when a status answer shows it."""

_EVERYWHERE = {
    "a member the table does not name": "nothing",
    "a ttl that is missing": "null",
    "a ttl with a fraction": "the ttl floored (HUB-7)",
    "a poll interval with a fraction": "the interval ceiled (HUB-7)",
    "a poll interval not above 0": "nothing (HUB-7)",
    "the state submitted": "the state for working",
    "a message that is null": "nothing",
}

INWARDS: Mapping[str, Mapping[str, str]] = {
    "sep-2663": _EVERYWHERE,
    "experimental": _EVERYWHERE,
    "create-status": {**_EVERYWHERE, "the state pending": "running: a status answer shows the task as seen"},
}
"""Dialect -> hub: what an object of the dialect loses on its way back to the same dialect."""
