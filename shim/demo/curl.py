"""Lines to paste into a shell while the demo is kept running; both APIs, every header and member there is."""

import json
from typing import Any

from shim.demo.new_client import modern_request
from shim.demo.old_clients import OLD

_TYPES = "-H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream'"
_TASK_ID = """sed -n 's/.*"taskId": *"\\([^"]*\\)".*/\\1/p'"""
_SESSION_ID = """tr -d '\\r' | awk 'tolower($1) == "mcp-session-id:" {print $2}'"""
_TASK = "$TASK"
_RESIZE = {"name": "resize_images", "arguments": {"count": 4, "seconds": 2}}


def old_lines(url: str, key: str, *, four_state: bool) -> list[str]:
    """Give a session of the old API: initialize, make a task, look at it, wait for its result, list."""
    session = f"-H \"Mcp-Session-Id: $SESSION\" -H 'MCP-Protocol-Version: {OLD}'"
    initialize = {
        "protocolVersion": OLD, "capabilities": {}, "clientInfo": {"name": "curl", "version": "1"},
    }  # fmt: skip
    create = ("tasks/create", _RESIZE) if four_state else ("tools/call", {**_RESIZE, "task": {"ttl": 60000}})
    get = "tasks/status" if four_state else "tasks/get"
    curl = f"curl -sS {url} {_TYPES} -H 'X-Api-Key: {key}'"
    opened = f"{curl} -D - -o /dev/null {_body(1, 'initialize', initialize)}"
    return [
        f"SESSION=$({opened} | {_SESSION_ID}); echo $SESSION",
        f"{curl} {session} {_body(None, 'notifications/initialized', {})}",
        f"TASK=$({curl} {session} {_body(2, *create)} | {_TASK_ID}); echo $TASK",
        f"{curl} {session} {_body(3, get, {'taskId': _TASK})}; echo",
        f"{curl} {session} -N {_body(4, 'tasks/result', {'taskId': _TASK})}",
        f"{curl} {session} {_body(5, 'tasks/list', {})}; echo",
    ]


def new_lines(url: str, key: str) -> list[str]:
    """Give the same by the new API: a call that becomes a task, and looks at it until its result is there."""
    curl = f"curl -sS {url} {_TYPES} -H 'X-Api-Key: {key}'"

    def post(request_id: int, method: str, params: dict[str, Any]) -> str:
        message, headers = modern_request(request_id, method, params)
        mirrored = " ".join(
            f'-H "{name}: {value}"' if _TASK in value else f"-H '{name}: {value}'"
            for name, value in headers.items()
        )
        return f"{curl} {mirrored} {_data(message)}"

    return [
        f"TASK=$({post(1, 'tools/call', _RESIZE)} | {_TASK_ID}); echo $TASK",
        f"{post(2, 'tasks/get', {'taskId': _TASK})}; echo",
        f"sleep 3; {post(3, 'tasks/get', {'taskId': _TASK})}; echo",
    ]


def _body(request_id: int | None, method: str, params: dict[str, Any]) -> str:
    numbered = {} if request_id is None else {"id": request_id}
    return _data({"jsonrpc": "2.0", **numbered, "method": method, "params": params})


def _data(message: dict[str, Any]) -> str:
    """Quote a body for a shell that fills in $TASK."""
    return "-d '" + json.dumps(message).replace(_TASK, "'$TASK'") + "'"
