"""How severe a log message is (RFC 5424), the same in both eras."""

from shim.hub import rawjson
from shim.hub.rawjson import Members

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""From the least severe on."""


def reaches(params: Members, asked: str | None) -> bool:
    """Tell whether a log message is for someone who asked for that level; nobody else gets any."""
    said = rawjson.string(params.get("level"))
    if asked not in LEVELS or said not in LEVELS:
        return False
    return LEVELS.index(said) >= LEVELS.index(asked)
