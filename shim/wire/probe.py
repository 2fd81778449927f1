"""What an upstream's answer to `server/discover` says of its era (ERA-PROBE). Pure."""

from dataclasses import dataclass

from shim.hub import rawjson
from shim.hub.rawjson import RawJsonError
from shim.wire.era import MODERN_VERSIONS, Era
from shim.wire.errors import HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION
from shim.wire.http import SERVER_ERROR, UNAUTHORIZED

_MODERN_CODES = frozenset((HEADER_MISMATCH, MISSING_CAPABILITY))
_LEGACY_STATUS = frozenset((400, 404, 405, 406))
_UNSURE_STATUS = frozenset((401, 403, 408, 413, 421, 429))
_REDIRECTS = range(300, 400)
_MEANINGS = {
    401: "it wants a credential",
    403: "it does not let this credential in",
    404: "no MCP endpoint is there; look at the path of its URL",
    405: "no MCP endpoint is there; look at the path of its URL",
    429: "it is asked more than it allows",
}
_PROSE_BYTES = 2_000
"""Where a legacy server says that it misses its session: in prose, at the beginning of a 400."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """An upstream's era, or None where the answer proves nothing; `evidence` says why, for people."""

    era: Era | None
    evidence: str
    denied: bool = False
    """The server wants to know who asks."""


def of_status(status: int) -> str:
    """Say an HTTP status, and what it means for an operator where MCP has another word for it."""
    if status in _REDIRECTS:
        return f"HTTP {status}: redirects are not followed, name the final address"
    meaning = _MEANINGS.get(status)
    return f"HTTP {status}" if meaning is None else f"HTTP {status}: {meaning}"


def classify_discover(status: int | None, body: bytes) -> Verdict:
    """Read the answer to a discover; `status` is None for silence."""
    if status is None:
        return Verdict(None, "no answer")
    if status in _REDIRECTS:
        return Verdict(None, of_status(status))
    if status in _UNSURE_STATUS or status >= SERVER_ERROR:
        return Verdict(None, of_status(status), denied=status in UNAUTHORIZED)
    try:
        members = rawjson.members(body)
        result = rawjson.members(members["result"]) if "result" in members else {}
        error = rawjson.members(members["error"]) if "error" in members else {}
        if _names_modern(result.get("supportedVersions")):
            return Verdict(Era.MODERN, "server/discover names a modern version")
        code = rawjson.decode(error.get("code", b"null"))
        if isinstance(code, int) and code in _MODERN_CODES:
            return Verdict(Era.MODERN, f"server/discover answered {code}")
        if code == UNSUPPORTED_VERSION:
            return _by_supported(error.get("data"))
    except RawJsonError:
        error = {}
    if status in _LEGACY_STATUS or error or not body.strip() or b"<" in body[:1]:
        return Verdict(Era.LEGACY, f"server/discover answered HTTP {status} as no modern server does")
    return Verdict(Era.LEGACY, f"HTTP {status} without a discover result")


def contradicts(era: Era, status: int, body: bytes) -> bool:
    """Tell whether an answer is one that no server of an era gives; looked at for errors only."""
    if era is Era.LEGACY:
        return _code_of(body) in {*_MODERN_CODES, UNSUPPORTED_VERSION}
    return status in _LEGACY_STATUS and (_code_of(body) is None or b"ession" in body[:_PROSE_BYTES])


def _code_of(body: bytes) -> int | None:
    try:
        code = rawjson.decode(rawjson.members(rawjson.members(body)["error"])["code"])
    except (RawJsonError, KeyError):
        return None
    return code if isinstance(code, int) else None


def _by_supported(data: bytes | None) -> Verdict:
    if _names_modern(rawjson.members(data or b"{}").get("supported")):
        return Verdict(Era.MODERN, "the server lists a modern version as supported")
    return Verdict(Era.LEGACY, "the server supports no modern version")


def _names_modern(versions: bytes | None) -> bool:
    listed = rawjson.decode(versions or b"[]")
    return isinstance(listed, list) and any(version in listed for version in MODERN_VERSIONS)
