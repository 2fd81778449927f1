"""What went wrong at an upstream, as its answer."""

from shim.hub.codec import CodecError
from shim.hub.rawjson import RawJsonError
from shim.upstreams.base import SessionLost, TaskUnknown
from shim.wire.errors import ShimError, UpstreamFault


def fault_of(exc: Exception) -> ShimError | None:
    """Map what an upstream did wrong to its answer; None for a fault that is the shim's own."""
    if isinstance(exc, ShimError):
        return exc
    if isinstance(exc, CodecError | RawJsonError):
        return UpstreamFault(f"the upstream's answer cannot be read: {exc}")
    if isinstance(exc, SessionLost | TaskUnknown):
        return UpstreamFault("the upstream lost the session while it was asked")
    if isinstance(exc, TimeoutError):
        return UpstreamFault("the upstream did not answer in time", 504)
    return None
