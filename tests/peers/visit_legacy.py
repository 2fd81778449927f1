"""One visit of the mcp 1.30 client to a task, as one process; run by its environment.

    python visit_legacy.py URL STEP [TASK] [--seconds=N] [--header=NAME=VALUE ...]

A visit is a session, ended by DELETE. Prints what came of the step as JSON:

- `make`: the tool `report` is begun as a task that works for so many seconds before it asks, and after
- `watch`: the task asks, and is left so: the SDK hears no more while nobody answers what came to it
- `finish`: the task's question is answered, its result waited for
- `cancel`: the task is cancelled, and what stands in place of its result
- `end`: the task has ended, and how
"""

import argparse
import asyncio
import json
from typing import Any

import anyio
import crossing_legacy as client
import mcp.types as t
from crossing_jobs import Heard
from mcp.client.session import ClientSession
from mcp.shared.exceptions import McpError

TERMINAL = {"completed", "failed", "cancelled"}
TTL_MS = 600_000


async def until(session: ClientSession, task: str, *statuses: str) -> str:
    while True:
        status = (await session.experimental.get_task(task)).status
        if status in {*statuses, *TERMINAL}:
            return str(status)
        await asyncio.sleep(0.2)


async def result(session: ClientSession, task: str) -> Any:
    """The result's text, or the error that stands in its place."""
    try:
        got = await session.experimental.get_task_result(task, t.CallToolResult)
    except McpError as error:
        return [error.error.code, error.error.message]
    return client.wire(got)["content"][0]["text"]


async def step(session: ClientSession, heard: Heard, args: argparse.Namespace) -> Any:
    match args.step:
        case "make":
            made = await session.experimental.call_tool_as_task(
                "report", {"seconds": args.seconds}, ttl=TTL_MS
            )
            return {"task": made.task.taskId, "status": made.task.status}
        case "watch":
            polling = asyncio.create_task(until(session, args.task, "input_required"))
            asked = asyncio.create_task(heard.until(lambda: bool(heard.asked)))
            await asyncio.wait((polling, asked), return_when=asyncio.FIRST_COMPLETED)
            return {"status": "input_required" if asked.done() else polling.result()}
        case "finish":
            text = await result(session, args.task)
            status = await until(session, args.task)
            return {"asked": [asked["message"] for _, asked in heard.asked], "result": text, "status": status}
        case "cancel":
            await session.experimental.cancel_task(args.task)
            return {"status": await until(session, args.task), "result": await result(session, args.task)}
        case _:
            status = await until(session, args.task)
            return {"status": status, "result": await result(session, args.task)}


async def visit(args: argparse.Namespace) -> Any:
    heard = Heard()
    headers = dict(pair.split("=", 1) for pair in args.header)
    told = None
    try:
        async with client.connect(args.url, headers, "legacy", heard, answers=args.step != "watch") as peer:
            told = await step(peer.session, heard, args)
    except* anyio.ClosedResourceError:  # who leaves while the SDK hears nothing leaves answers behind
        if told is None:
            raise
    return told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("step", choices=["make", "watch", "finish", "cancel", "end"])
    parser.add_argument("task", nargs="?")
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--header", action="append", default=[], help="NAME=VALUE")
    print(json.dumps(asyncio.run(visit(parser.parse_args()))))  # noqa: T201 - its output


if __name__ == "__main__":
    main()
