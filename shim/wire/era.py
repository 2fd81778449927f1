"""Which era a request belongs to (ERA-DETECT). Decided per request, from what the request itself says."""

from collections.abc import Mapping
from enum import StrEnum

from shim.hub import rawjson
from shim.hub.memo import remembered
from shim.hub.rawjson import RawJsonError
from shim.wire.errors import header_mismatch
from shim.wire.http import PROTOCOL_VERSION
from shim.wire.jsonrpc import Message, Response

MODERN_VERSIONS = ("2026-07-28",)
LEGACY_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26")
_WITH_TASKS = LEGACY_VERSIONS[0]
META_VERSION = "io.modelcontextprotocol/protocolVersion"


class Era(StrEnum):
    """Legacy: initialize and sessions. Modern: stateless, `_meta` on every request."""

    LEGACY = "legacy"
    MODERN = "modern"


def knows_tasks(version: str | None) -> bool:
    """Tell whether clients of a negotiated legacy version know tasks; of none is known that they do not."""
    return not version or version >= _WITH_TASKS


def classify(headers: Mapping[str, str], message: Message | None, pinned: Era | None) -> Era:
    """Tell a request's era; `message` is None for GET and DELETE, `pinned` is the address's own.

    A modern version, in `_meta` or in the header, wins over a session header. Raises ClientFault where
    header and body contradict.
    """
    header = headers.get(PROTOCOL_VERSION)
    meta_version = _meta_version(message)
    if meta_version is not None:
        if header in LEGACY_VERSIONS:
            raise header_mismatch(f"MCP-Protocol-Version is {header}, but _meta says {meta_version}")
        return pinned or Era.MODERN
    if pinned is not None:
        return pinned
    if message is None or isinstance(message, Response) or header is None or header in LEGACY_VERSIONS:
        return Era.LEGACY
    if message.method == "initialize":
        return Era.LEGACY
    return Era.MODERN if header in MODERN_VERSIONS or header > LEGACY_VERSIONS[0] else Era.LEGACY


def _meta_version(message: Message | None) -> str | None:
    """Give the version that `_meta` names, if it names any that is not a legacy one."""
    if message is None or isinstance(message, Response):
        return None
    meta = message.params.get("_meta")
    if meta is None:
        return None
    version = _stated_version(meta)
    return None if version in LEGACY_VERSIONS else version


@remembered
def _stated_version(meta: bytes) -> str | None:
    try:
        return rawjson.string(rawjson.members(meta).get(META_VERSION))
    except RawJsonError:
        return None
