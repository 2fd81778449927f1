"""Numbers of the wire as whole milliseconds (HUB-7), within what every peer can hold exactly."""

import math

from shim.hub import rawjson

SAFE = 2**53 - 1
"""The largest integer that survives a double."""


def is_absent(raw: bytes | None) -> bool:
    """Tell of a member whether it is missing or null."""
    return raw is None or raw == b"null"


def floored(raw: bytes | None) -> int | None:
    """Give the number rounded down; None if it is no number."""
    value = _number(raw)
    return None if value is None else math.floor(value)


def ceiled(raw: bytes | None) -> int | None:
    """Give the number rounded up; None if it is no number."""
    value = _number(raw)
    return None if value is None else math.ceil(value)


def _number(raw: bytes | None) -> int | float | None:
    if raw is None or raw[:1] not in _FIRST:
        return None
    value = rawjson.decode(raw)
    return max(-SAFE, min(SAFE, value)) if isinstance(value, int | float) else None


_FIRST = frozenset(b"-0123456789"[i : i + 1] for i in range(11))
