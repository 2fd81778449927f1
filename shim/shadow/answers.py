"""A call's answer as it is compared: the result as the client of the call would get it. Pure."""

from collections.abc import Callable
from typing import Any

from shim.hub import rawjson
from shim.shadow.compare import Difference, Path, differences
from shim.shadow.noise import prepared
from shim.wire.hosting import legacy_result
from shim.wire.jsonrpc import Response
from shim.wire.modern import bare_result

Fit = Callable[[bytes], bytes]
_LIMIT = 100
"""Differences of one call that are told; two results that share nothing are told as well by fewer."""


def as_legacy(result: bytes) -> bytes:
    """Give a result as a legacy client gets it."""
    return legacy_result(result)[0]


def as_modern(result: bytes) -> bytes:
    """Give a result without the envelope of its era."""
    return bare_result(result)


def differing(
    routed: Response, copied: Response, fit: Fit, ignored: tuple[str, ...] = ()
) -> list[Difference]:
    """Give where the copy's answer differs from the routed one's. Raises RawJsonError, RecursionError.

    Of two errors the codes are compared: their words are each server's own.
    """
    if routed.error is not None and copied.error is not None:
        same = _code(routed.error) == _code(copied.error)
        return [] if same else [Difference(("error", "code"), "value")]
    if routed.error is not None or copied.error is not None:
        return [Difference(_ERROR, "missing" if copied.error is None else "extra")]
    if routed.result == copied.result:
        return []
    one, other = fit(routed.result or b"{}"), fit(copied.result or b"{}")
    if one == other:
        return []
    return differences(prepared(_shape(one), ignored), prepared(_shape(other), ignored), limit=_LIMIT)


_ERROR: Path = ("error",)


def _shape(result: bytes) -> Any:
    """Give a CallToolResult with what is assumed where it is left out, and without its `_meta`."""
    value = rawjson.decode(result)
    value.pop("_meta", None)
    return {"content": [], "isError": False, **value}


def _code(error: bytes) -> Any:
    return rawjson.decode(rawjson.members(error).get("code", b"null"))
