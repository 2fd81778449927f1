"""A canned modern server whose tasks stay `working`; `GET /stats` counts requests by method."""

import argparse
import asyncio
import itertools
import json
from collections import Counter
from typing import Any

from aiohttp import web

from benchmarks.serving import serve_forever

POLL_INTERVAL_MS = 1000
DISCOVERED = {
    "supportedVersions": ["2026-07-28"],
    "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
    "ttlMs": 0,
    "cacheScope": "private",
}


class Canned:
    """The server's state: how many tasks there are, and what it was asked."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self._ids = itertools.count(1)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request."""
        if request.path == "/stats":
            return web.json_response(self.counts)
        message = json.loads(await request.read())
        method = message["method"]
        self.counts[method] += 1
        result = self._answer(method, message.get("params", {}))
        if result is None:
            error = {"code": -32601, "message": "Method not found"}
            return web.json_response({"jsonrpc": "2.0", "id": message.get("id"), "error": error}, status=404)
        return web.json_response(
            {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", **result}}
        )

    def _answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        if method == "server/discover":
            return DISCOVERED
        if method == "tools/call":
            return {**show(f"{next(self._ids):032x}"), "resultType": "task"}
        return show(params["taskId"]) if method == "tasks/get" else None


def show(task_id: str) -> dict[str, Any]:
    """Give a task that works."""
    at = "2026-01-01T00:00:00Z"
    return {
        "taskId": task_id, "status": "working", "createdAt": at, "lastUpdatedAt": at, "ttlMs": None,
        "pollIntervalMs": POLL_INTERVAL_MS,
    }  # fmt: skip


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    asyncio.run(serve_forever(Canned().handle, options.port))


if __name__ == "__main__":
    main()
