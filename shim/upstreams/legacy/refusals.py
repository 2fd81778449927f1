"""What a legacy server means by a refusal: most of it stands in prose only."""

from shim.hub import rawjson
from shim.upstreams.faults import code
from shim.wire.errors import INVALID_PARAMS, UpstreamFault
from shim.wire.http import SERVER_ERROR, is_refusal
from shim.wire.jsonrpc import Response


def unknown(answer: object) -> bool:
    """Tell an "I do not know that task" from everything else."""
    return (
        isinstance(answer, Response)
        and answer.error is not None
        and code(answer.error) == INVALID_PARAMS
        and not not_yet(answer.error)
    )


def not_yet(error: bytes) -> bool:
    """Tell "not completed yet" from "unknown": both are -32602, only the prose differs."""
    message = (rawjson.string(rawjson.members(error).get("message")) or "").lower()
    return code(error) == INVALID_PARAMS and ("not completed" in message or "not yet" in message)


def taken(status: int) -> bool:
    """Tell whether a server took a message; one that is down did not refuse it. Raises UpstreamFault."""
    if status >= SERVER_ERROR:  # it is said again later
        raise UpstreamFault(f"the upstream answered {status}")
    return not is_refusal(status)  # any 2xx will do (NOTIFY)
