"""Which keys a message has outside its payload slices (rule KEYS)."""

from collections.abc import Iterator
from typing import Any

PAYLOADS = frozenset((
    "arguments", "content", "contents", "structuredContent", "messages", "data", "inputSchema",
    "outputSchema", "requestedSchema",
))  # fmt: skip
"""What lies below these is a tool's, a prompt's or a resource's own."""


def keys_of(message: Any) -> Iterator[str]:
    """Every key of every object in a message, payloads left alone."""
    if isinstance(message, list):
        for item in message:
            yield from keys_of(item)
    elif isinstance(message, dict):
        for key, value in message.items():
            yield key
            if key not in PAYLOADS:
                yield from keys_of(value)
