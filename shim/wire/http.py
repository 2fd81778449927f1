"""HTTP as MCP uses it: the names of headers, the media types, the kinds of status."""

import re

SESSION_ID = "Mcp-Session-Id"
LAST_EVENT_ID = "Last-Event-ID"
PROTOCOL_VERSION = "MCP-Protocol-Version"
MCP_METHOD = "Mcp-Method"
"""Mirrors the method of a modern request."""
MCP_NAME = "Mcp-Name"
"""Mirrors what a modern request names: a tool, prompt, resource or task."""

JSON_TYPE = "application/json"
SSE_TYPE = "text/event-stream"
ACCEPT = f"{JSON_TYPE}, {SSE_TYPE}"

OK = 200
UNAUTHORIZED = frozenset((401, 403))
"""Who asks is to be known, or is not allowed."""
NOT_FOUND = 404
SERVER_ERROR = 500
"""From there on the server is at fault."""
_REDIRECT, _FAULT = 300, 400
UNSENDABLE = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
"""Control characters: read out of a peer's header leniently, they must not be written into one."""


def is_success(status: int) -> bool:
    """Tell a 2xx."""
    return status < _REDIRECT


def is_refusal(status: int) -> bool:
    """Tell a 4xx or 5xx."""
    return status >= _FAULT
