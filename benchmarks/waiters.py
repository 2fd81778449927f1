"""Opens many waiting `tasks/result` streams of a legacy client on few tasks, and holds them.

Makes the tasks in one session, opens the streams, says `open`, and waits for the end of its standard input.
"""

import argparse
import asyncio
import json
from typing import Any
from urllib.parse import urlsplit

from benchmarks.connection import Connection, hold_open
from benchmarks.serving import raise_file_limit

STREAMS_AT_ONCE = 50


class Caller:
    """Writes the requests of one session."""

    def __init__(self, url: str, key: str) -> None:
        place = urlsplit(url)
        self.session: str | None = None
        self._head = (
            f"POST {place.path} HTTP/1.1\r\nHost: {place.netloc}\r\nX-Api-Key: {key}\r\n"
            "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
        )

    def request(self, number: int, method: str, params: dict[str, Any]) -> bytes:
        """Write a request whole."""
        body = json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        session = "" if self.session is None else f"Mcp-Session-Id: {self.session}\r\n"
        return f"{self._head}{session}Content-Length: {len(body)}\r\n\r\n{body}".encode()


async def hold(options: argparse.Namespace) -> None:
    """Open the streams and keep them."""
    caller, posts = Caller(options.url, options.key), await Connection.open(options.url)
    params: dict[str, Any] = {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "w", "version": "1"},
    }  # fmt: skip
    opened = await posts.exchange(caller.request(1, "initialize", params))
    caller.session = opened.header("Mcp-Session-Id")
    tasks = []
    for number in range(options.tasks):
        made = await posts.exchange(caller.request(number + 2, "tools/call", {"name": "job", "task": {}}))
        tasks.append(json.loads(made.body)["result"]["task"]["taskId"])

    async def one(number: int) -> Connection:
        stream = await Connection.open(options.url)
        params = {"taskId": tasks[number % len(tasks)]}
        await stream.opens(caller.request(1_000 + number, "tasks/result", params), b"\r\n\r\n")
        return stream

    await hold_open(options.waiters, one, at_once=STREAMS_AT_ONCE)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--key", default="bench-key")
    parser.add_argument("--tasks", type=int, default=100)
    parser.add_argument("--waiters", type=int, default=10_000)
    raise_file_limit()
    asyncio.run(hold(parser.parse_args()))


if __name__ == "__main__":
    main()
