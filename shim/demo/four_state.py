"""A small server of the create-status dialect: tasks/create, tasks/status; pending, running, done, error.

With sessions it asks its questions as server requests on the session's streams. Without, it shows them as
`inputRequests` in tasks/status. `tasks/inputResponse` answers them either way.
"""

from typing import Any

from aiohttp import web

from shim.demo.base import DemoServer, read_ttl
from shim.demo.endpoint import Session, object_in, serve_at, start_app
from shim.demo.experimental import timestamp
from shim.demo.jobs import Job, Json, RpcError
from shim.demo.tools import Tool
from shim.wire.errors import INVALID_PARAMS

_STATES = {
    "working": "running",
    "input_required": "running",
    "completed": "done",
    "failed": "error",
    "cancelled": "error",
}


class FourState(DemoServer):
    """The create-status dialect. `cancel=False` leaves tasks/cancel out."""

    name = "demo-four-state"
    asks_on_get = True

    def __init__(self, *, cancel: bool = True, **options: Any) -> None:
        super().__init__(**options)
        self.methods |= {
            "tasks/create": self.task_create,
            "tasks/status": self.task_get,
            "tasks/result": self.task_result,
            "tasks/list": self.task_list,
            "tasks/inputResponse": self.task_input,
            **({"tasks/cancel": self.task_cancel} if cancel else {}),
        }

    def capabilities(self) -> Json:
        """Say that there are tools; this dialect has no capability of its own."""
        return {"tools": {}}

    def listing(self, tool: Tool) -> Json:
        """Give the plain entry: this dialect does not say which tools run as tasks."""
        return tool.listing()

    def show(self, job: Job) -> Json:
        """Give the four-state task object; `inputRequests` only where there is no session to ask on."""
        status = _STATES[job.state] if job.started or job.ended else "pending"
        message = {"input_required": "input required", "cancelled": "cancelled"}.get(job.state, job.message)
        asked = {key: {"method": q.method, "params": q.params} for key, q in job.questions.items()}
        return {
            "taskId": job.task_id,
            "status": status,
            **({} if message is None else {"statusMessage": message}),
            "createdAt": timestamp(job.created_ms),
            "ttl": job.ttl_ms,
            **({} if self.poll_interval_ms is None else {"pollInterval": self.poll_interval_ms}),
            **({"inputRequests": asked} if asked and not self.sessions else {}),
        }

    async def task_create(self, session: Session, params: Json) -> Json:
        """Start a task from {name, arguments} or {method: "tools/call", params}. Raises RpcError -32602."""
        call = params
        if "method" in params:
            if params["method"] != "tools/call":
                raise RpcError(INVALID_PARAMS, f"Cannot run {params['method']} as a task")
            call = object_in(params, "params")
        tool = self.find_tool(call)
        return self.show(self.create(session, tool, object_in(call, "arguments"), read_ttl(params)))

    async def task_input(self, session: Session, params: Json) -> Json:
        """Take answers by key; unknown ones and repeats are ignored. Raises RpcError -32602."""
        job = self.find(session, params)
        for key, answer in object_in(params, "inputResponses").items():
            question = job.questions.get(key)
            if question is not None and not question.answer.done() and isinstance(answer, dict):
                question.answer.set_result(answer)
        return {}


def create_app(*, path: str = "/mcp", **options: Any) -> web.Application:
    """Build the application; options are FourState's and DemoServer's."""
    return serve_at(FourState(**options), path)


async def start(
    host: str = "127.0.0.1", port: int = 0, *, path: str = "/mcp", **options: Any
) -> tuple[web.AppRunner, str]:
    """Serve in the background; give the runner (to be cleaned up) and the URL."""
    return await start_app(create_app(path=path, **options), host, port, path)
