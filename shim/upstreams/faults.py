"""What went wrong at an upstream, as its answer."""

from shim.hub import rawjson
from shim.hub.codec import CodecError
from shim.hub.rawjson import RawJsonError
from shim.upstreams.base import SessionLost, TaskUnknown
from shim.wire.errors import ShimError, UpstreamFault
from shim.wire.jsonrpc import Response


def fault_of(exc: Exception) -> ShimError | None:
    """Map what an upstream did wrong to its answer; None for a fault that is the shim's own."""
    if isinstance(exc, ShimError):
        return exc
    if isinstance(exc, CodecError | RawJsonError):
        return unreadable(exc)
    if isinstance(exc, SessionLost | TaskUnknown):
        return UpstreamFault("the upstream lost the session while it was asked")
    if isinstance(exc, TimeoutError):
        return UpstreamFault("the upstream did not answer in time", 504)
    return None


def unreadable(exc: Exception) -> UpstreamFault:
    """Say that an answer of an upstream is not what it must be."""
    recorded = "the upstream's answer cannot be read"
    return UpstreamFault(f"the upstream's answer cannot be read: {exc}", recorded=recorded)


def as_fault(response: Response) -> UpstreamFault:
    """Turn an upstream's error about a task into ours: it is never "not found" by itself (OWN-CHECK)."""
    error = rawjson.members(response.error or b"{}")
    message = rawjson.string(error.get("message")) or "no reason given"
    return UpstreamFault(f"the upstream refused: {message}", recorded="the upstream refused")


def code(error: bytes) -> int | None:
    """Give the code of a JSON-RPC error; None where there is none."""
    said = rawjson.decode(rawjson.members(error).get("code", b"null"))
    return said if isinstance(said, int) else None
