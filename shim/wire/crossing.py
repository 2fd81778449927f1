"""What a modern client's request and its answer become on the way, by the era of the server (KEYS)."""

from typing import Protocol

from shim.hub import rawjson
from shim.hub.rawjson import Members
from shim.wire.envelope import ModernMeta, discover_result, legacy_params, modern_result
from shim.wire.modern import with_tasks


class Crossing(Protocol):
    """The way between a modern client and a server."""

    def params(self, params: Members, meta: ModernMeta) -> Members:
        """Give a request's params as the server's speaker takes them."""

    def result(self, result: bytes, *, method: str, server_info: bytes | None) -> bytes:
        """Give the client a server's result, or one from the ledger."""

    def discovered(self, init: Members, *, has_tasks: bool) -> bytes:
        """Give the client what the server says of itself."""


class ToLegacy:
    """One era's keys are taken off, the other's put on. Implements `Crossing`."""

    def params(self, params: Members, meta: ModernMeta) -> Members:
        """Keep payload and foreign `_meta`."""
        return legacy_params(params, meta)

    def result(self, result: bytes, *, method: str, server_info: bytes | None) -> bytes:
        """Put the envelope on."""
        return modern_result(result, method=method, server_info=server_info)

    def discovered(self, init: Members, *, has_tasks: bool) -> bytes:
        """Make it of an initialize result."""
        return discover_result(init, has_tasks=has_tasks)


class ToModern:
    """Both sides speak alike: all stays as it is (MM-1). Implements `Crossing`."""

    def params(self, params: Members, meta: ModernMeta) -> Members:  # noqa: ARG002 - of the protocol
        """Keep everything; the speaker writes its own `_meta` over the client's."""
        return params

    def result(self, result: bytes, *, method: str, server_info: bytes | None) -> bytes:
        """Keep it; one from the ledger, which is kept bare, says again that it is complete."""
        del method, server_info
        members = rawjson.members(result)
        if "resultType" in members:
            return result
        return rawjson.join({"resultType": b'"complete"', **members})

    def discovered(self, init: Members, *, has_tasks: bool) -> bytes:
        """Keep it; tasks that only the shim has are offered too (PROMOTE-1)."""
        return rawjson.join(with_tasks(init) if has_tasks else init)
