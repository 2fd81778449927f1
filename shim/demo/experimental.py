"""A small legacy server with the experimental tasks of 2025-11-25, for the demo and for tests.

Questions travel on an open `tasks/result` stream only, with related-task, as with the real SDK servers.
"""

from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from shim.demo.base import DemoServer, read_ttl
from shim.demo.endpoint import Session, object_in, serve_at, start_app
from shim.demo.jobs import Job, Json, RpcError
from shim.demo.tools import Tool
from shim.wire.errors import METHOD_NOT_FOUND

RELATED_TASK = "io.modelcontextprotocol/related-task"


class Experimental(DemoServer):
    """The 2025-11-25 dialect: task-augmented tools/call, tasks/get, result, list, cancel."""

    name = "demo-experimental"

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.methods |= {
            "tasks/get": self.task_get,
            "tasks/result": self.task_result,
            "tasks/list": self.task_list,
            "tasks/cancel": self.task_cancel,
        }

    def capabilities(self) -> Json:
        """Say that tools/call may be augmented."""
        return {"tools": {}, "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}}

    def listing(self, tool: Tool) -> Json:
        """Add `execution.taskSupport`; absent where tasks are forbidden."""
        execution = {} if tool.support == "forbidden" else {"execution": {"taskSupport": tool.support}}
        return {**tool.listing(), **execution}

    def show(self, job: Job) -> Json:
        """Give the 2025-11-25 task object."""
        return {
            "taskId": job.task_id,
            "status": job.state,
            **({} if job.message is None else {"statusMessage": job.message}),
            "createdAt": timestamp(job.created_ms),
            "lastUpdatedAt": timestamp(job.updated_ms),
            "ttl": job.ttl_ms,
            **({} if self.poll_interval_ms is None else {"pollInterval": self.poll_interval_ms}),
        }

    def meta(self, job: Job) -> Json:
        """Name the task in everything that is about it."""
        return {"_meta": {RELATED_TASK: {"taskId": job.task_id}}} if job.is_task else {}

    def changed(self, session: Session, job: Job) -> None:
        """Tell the GET stream, if there is one."""
        if job.is_task and session.inbox is not None:
            notice = {"method": "notifications/tasks/status", "params": self.show(job)}
            session.inbox.send({"jsonrpc": "2.0", **notice})

    async def tools_call(self, session: Session, params: Json) -> Json | Job:
        """Serve a plain call or create a task, as the tool allows. Raises RpcError -32601, -32602."""
        tool = self.find_tool(params)
        if "task" not in params:
            if tool.support == "required":
                raise RpcError(METHOD_NOT_FOUND, f"{tool.name} must be called as a task")
            return await super().tools_call(session, params)
        if tool.support == "forbidden":
            raise RpcError(METHOD_NOT_FOUND, f"{tool.name} cannot be called as a task")
        ttl_ms = read_ttl(object_in(params, "task"))
        return {"task": self.show(self.create(session, tool, object_in(params, "arguments"), ttl_ms))}


def timestamp(moment_ms: int) -> str:
    """Write a time as ISO 8601 in UTC, with milliseconds."""
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def create_app(*, path: str = "/mcp", **options: Any) -> web.Application:
    """Build the application; options are DemoServer's."""
    return serve_at(Experimental(**options), path)


async def start(
    host: str = "127.0.0.1", port: int = 0, *, path: str = "/mcp", **options: Any
) -> tuple[web.AppRunner, str]:
    """Serve in the background; give the runner (to be cleaned up) and the URL."""
    return await start_app(create_app(path=path, **options), host, port, path)
