"""What went wrong at an upstream, as its answer."""

from shim.hub.codec import CodecError
from shim.hub.rawjson import RawJsonError
from shim.upstreams.base import SessionLost, TaskUnknown
from shim.wire.errors import ShimError, UpstreamFault


def unreadable(exc: Exception) -> UpstreamFault:
    """Say that an answer of an upstream is not what it must be."""
    recorded = "the upstream's answer cannot be read"
    return UpstreamFault(-32603, f"the upstream's answer cannot be read: {exc}", 502, recorded=recorded)


def fault_of(exc: Exception) -> ShimError | None:
    """Map what an upstream did wrong to its answer; None for a fault that is the shim's own."""
    if isinstance(exc, ShimError):
        return exc
    if isinstance(exc, CodecError | RawJsonError):
        return unreadable(exc)
    if isinstance(exc, SessionLost | TaskUnknown):
        return UpstreamFault(-32603, "the upstream lost the session while it was asked", 502)
    if isinstance(exc, TimeoutError):
        return UpstreamFault(-32603, "the upstream did not answer in time", 504)
    return None
