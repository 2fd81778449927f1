"""What a client will carry back says whose it is, before it passes (CUTOVER-STAY)."""

from shim.callers.caller import Caller
from shim.fronts.relay import DROPPED, Tap
from shim.tasks.origin import Origins


def naming(origins: Origins, caller: Caller, upstream: str, method: str, tap: Tap | None) -> Tap:
    """Give a tap that names the upstream in what another tap, if there is one, makes of a message."""

    async def look(data: bytes) -> bytes | None:
        seen = await tap(data) if tap is not None else None
        if seen == DROPPED:
            return seen
        return origins.message(caller, upstream, method, seen or data) or seen

    return look
