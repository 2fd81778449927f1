"""One visit of the fastmcp 4 client to a task, as one process; its steps are those of visit_legacy.py.

python visit_fastmcp.py URL STEP [TASK] [--seconds=N] [--header=NAME=VALUE ...]
"""

import argparse
import asyncio
import json
from typing import Any

import crossing_fastmcp
import fastmcp_tasks
from crossing_jobs import Heard
from fastmcp.exceptions import ToolError
from fastmcp_tasks import ToolTask
from fastmcp_tasks.client_models import ClientCreateTaskResult

TERMINAL = {"completed", "failed", "cancelled"}


def of_another_visit(client: Any, task: str) -> ToolTask:
    """The task that another process made, of which this one knows the id."""
    made = {"taskId": task, "status": "working", "createdAt": "", "lastUpdatedAt": "", "ttlMs": None}
    handle = ClientCreateTaskResult.model_validate({"resultType": "task", **made})
    return ToolTask(client, "report", handle)


async def ended(task: ToolTask) -> dict[str, Any]:
    now = await task.wait()
    error = [now.error["code"], now.error["message"]] if now.error else None
    return {"status": now.status, "result": error or (now.result and now.result["content"][0]["text"])}


async def step(client: Any, heard: Heard, args: argparse.Namespace) -> Any:
    if args.step == "make":
        made = (await fastmcp_tasks.call_tool_task(client, "report", {"seconds": args.seconds})).create_result
        return {"task": made.task_id, "status": made.status}
    task = of_another_visit(client, args.task)
    match args.step:
        case "watch":
            return {"status": (await task.wait(state="input_required")).status}
        case "finish":
            try:
                text = (await task.result()).content[0].text
            except ToolError as error:
                text = str(error)
            status = (await task.status()).status
            return {"asked": [asked["message"] for _, asked in heard.asked], "result": text, "status": status}
        case "cancel":
            await task.cancel()
            return await ended(task)
        case _:
            return await ended(task)


async def visit(args: argparse.Namespace) -> Any:
    heard = Heard()
    headers = dict(pair.split("=", 1) for pair in args.header)
    async with crossing_fastmcp.connect(args.url, headers, "auto", heard) as peer:
        return await step(peer.client, heard, args)


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
