"""A canned legacy MCP server: real enough for clients and the shim, and as cheap as an aiohttp server can be.

Tools: `echo` (plain) and `job` (taskSupport required). A job's arguments `polls` and `seconds` say for how
many `tasks/get` or how long it stays `working`; with neither it ends at once. `GET /stats` counts requests
by method.
"""

import argparse
import asyncio
import json
import os
import time
from collections import Counter
from typing import Any

import msgspec
from aiohttp import web

from benchmarks.serving import serve_forever

POLL_INTERVAL_MS = 1000
CREATED_AT = "2026-01-01T00:00:00Z"
RELATED_TASK = "io.modelcontextprotocol/related-task"
INITIALIZED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}},
    "serverInfo": {"name": "canned", "version": "1"},
}
_SCHEMA = {"type": "object"}
TOOLS = {
    "tools": [
        {"name": "echo", "inputSchema": _SCHEMA},
        {"name": "job", "inputSchema": _SCHEMA, "execution": {"taskSupport": "required"}},
    ]
}
PONG = b'{"content":[{"type":"text","text":"pong"}],"isError":false}'


class Message(msgspec.Struct):
    """A JSON-RPC message, read only as far as the canned answers need."""

    id: msgspec.Raw = msgspec.Raw()
    method: str | None = None
    params: dict[str, Any] = {}


class Job(msgspec.Struct):
    """A task that ends by itself."""

    polls: int
    ends_at_s: float
    cancelled: bool = False

    def state(self) -> str:
        """Give the state now, without counting a poll."""
        if self.cancelled:
            return "cancelled"
        return "working" if self.polls > 0 or time.monotonic() < self.ends_at_s else "completed"


class Canned:
    """The server's state: jobs and counters. Sessions are minted and never looked at again."""

    def __init__(self, *, sse: bool) -> None:
        self.sse = sse
        self.jobs: dict[str, Job] = {}
        self.counts: Counter[str] = Counter()
        self._decode = msgspec.json.Decoder(Message).decode
        self._verbs = {
            "initialize": lambda _: msgspec.json.encode(INITIALIZED),
            "ping": lambda _: b"{}",
            "tools/list": lambda _: msgspec.json.encode(TOOLS),
            "tools/call": self._call,
            "tasks/get": self._get,
            "tasks/result": self._result,
            "tasks/cancel": self._cancel,
        }

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        if request.method == "POST":
            return self._post(await request.read())
        if request.method == "DELETE":
            return web.Response(status=200)
        if request.path == "/stats":
            return web.Response(body=json.dumps(self.counts).encode(), content_type="application/json")
        return await self._idle_stream(request)

    def _post(self, body: bytes) -> web.Response:
        message = self._decode(body)
        method = message.method
        self.counts[str(method)] += 1
        if not bytes(message.id) or method is None:
            return web.Response(status=202)
        verb = self._verbs.get(method)
        result = verb(message.params) if verb else None
        answer = b'"error":{"code":-32602,"message":"not known"}' if result is None else b'"result":' + result
        body = b'{"jsonrpc":"2.0","id":' + bytes(message.id) + b"," + answer + b"}"
        headers = {"Content-Type": "application/json"}
        if method == "initialize":
            headers["Mcp-Session-Id"] = os.urandom(16).hex()
        if self.sse:
            headers["Content-Type"] = "text/event-stream"
            body = b"event: message\r\ndata: " + body + b"\r\n\r\n"
        return web.Response(body=body, headers=headers)

    async def _idle_stream(self, request: web.BaseRequest) -> web.StreamResponse:
        self.counts["GET"] += 1
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b": open\n\n")
        await asyncio.Event().wait()
        return response

    def _call(self, params: dict[str, Any]) -> bytes | None:
        if params.get("name") != "job":
            return PONG
        if "task" not in params:
            return None
        arguments = params.get("arguments") or {}
        task_id = os.urandom(16).hex()
        job = Job(int(arguments.get("polls", 0)), time.monotonic() + float(arguments.get("seconds", 0)))
        self.jobs[task_id] = job
        return b'{"task":' + show(task_id, "working") + b"}"

    def _get(self, params: dict[str, Any]) -> bytes | None:
        task_id = params.get("taskId", "")
        job = self.jobs.get(task_id)
        if job is None:
            return None
        job.polls -= 1
        return show(task_id, job.state())

    def _result(self, params: dict[str, Any]) -> bytes | None:
        task_id = params.get("taskId", "")
        job = self.jobs.get(task_id)
        if job is None or job.state() != "completed":
            return None
        meta = msgspec.json.encode({RELATED_TASK: {"taskId": task_id}})
        return PONG[:-1] + b',"_meta":' + meta + b"}"

    def _cancel(self, params: dict[str, Any]) -> bytes | None:
        task_id = params.get("taskId", "")
        job = self.jobs.get(task_id)
        if job is None or job.state() != "working":
            return None
        job.cancelled = True
        return show(task_id, "cancelled")


def show(task_id: str, state: str) -> bytes:
    """Give the 2025-11-25 task object."""
    return (
        b'{"taskId":"%b","status":"%b","createdAt":"%b","lastUpdatedAt":"%b","ttl":null,"pollInterval":%d}'
        % (task_id.encode(), state.encode(), CREATED_AT.encode(), CREATED_AT.encode(), POLL_INTERVAL_MS)
    )


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--sse", action="store_true", help="answer POST requests as event streams")
    options = parser.parse_args()
    asyncio.run(serve_forever(Canned(sse=options.sse).handle, options.port))


if __name__ == "__main__":
    main()
