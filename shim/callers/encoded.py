"""How tokens, keys and providers' answers are written: base64url without padding, JSON objects."""

import base64
from typing import Any

from shim.hub import rawjson
from shim.hub.rawjson import RawJsonError


def unpadded(text: str) -> bytes | None:
    """Give the bytes of base64url text; None for what is none."""
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        return None


def object_in(data: bytes | None) -> dict[str, Any] | None:
    """Give a JSON object; None for all else."""
    try:
        found = None if data is None else rawjson.decode(data)
    except RawJsonError:
        return None
    return found if isinstance(found, dict) else None
