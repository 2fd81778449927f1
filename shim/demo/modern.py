"""A small server of 2026-07-28 with the tasks extension (SEP-2663), for the demo and for tests.

Each request stands alone; the server decides which calls become tasks: those of tools that support it, for
clients that declare the extension.
"""

import json
from typing import Any

from aiohttp import web

from shim.demo.base import DemoServer
from shim.demo.endpoint import Session, object_in, serve_at, start_app
from shim.demo.experimental import timestamp
from shim.demo.jobs import Job, Json, RpcError
from shim.demo.new_client import NEW, TASKS
from shim.demo.tools import Tool
from shim.wire.errors import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    MISSING_CAPABILITY,
    PARSE_ERROR,
    UNSUPPORTED_VERSION,
)

_META = "io.modelcontextprotocol/"
_STATUS = {
    METHOD_NOT_FOUND: 404,
    INVALID_PARAMS: 400,
    INVALID_REQUEST: 400,
    PARSE_ERROR: 400,
    HEADER_MISMATCH: 400,
    MISSING_CAPABILITY: 400,
    UNSUPPORTED_VERSION: 400,
}


class Modern(DemoServer):
    """SEP-2663: polymorphic tools/call, tasks/get, tasks/update, tasks/cancel."""

    name = "demo-modern"

    def __init__(self, **options: Any) -> None:
        super().__init__(sessions=False, **options)
        self._all = Session("", can_ask=True)
        self.methods = {
            "server/discover": self._discover,
            "tools/list": self._tools,
            "tools/call": self._call,
            "tasks/get": self.task_get,
            "tasks/update": self._update,
            "tasks/cancel": self._cancel,
        }

    def capabilities(self) -> Json:
        """Say that there are tools, and tasks."""
        return {"tools": {}, "extensions": {TASKS: {}}}

    def listing(self, tool: Tool) -> Json:
        """Give the plain entry: this API does not say which tools run as tasks."""
        return tool.listing()

    def show(self, job: Job) -> Json:
        """Give the task with what its state brings along."""
        failed = job.state == "failed" and job.error is not None
        status = "completed" if job.result is not None and job.ended and not failed else job.state
        status = "cancelled" if job.state == "cancelled" else status
        asked = {key: {"method": q.method, "params": q.params} for key, q in job.questions.items()}
        return {
            "taskId": job.task_id,
            "status": status,
            **({} if job.message is None or job.ended else {"statusMessage": job.message}),
            "createdAt": timestamp(job.created_ms),
            "lastUpdatedAt": timestamp(job.updated_ms),
            "ttlMs": job.ttl_ms,
            **({} if self.poll_interval_ms is None else {"pollIntervalMs": self.poll_interval_ms}),
            **({"inputRequests": asked} if status == "input_required" else {}),
            **({"result": {"resultType": "complete", **(job.result or {})}} if status == "completed" else {}),
            **({"error": job.error.body} if failed and job.error is not None else {}),
        }

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one POST."""
        if request.method != "POST":
            return web.Response(status=405, headers={"Allow": "POST"})
        message: Json = {}
        try:
            message = _read(await request.read(), request.headers.get("Mcp-Method"))
            if "id" not in message:
                return web.Response(status=202)
            handler = self.methods.get(message["method"])
            if handler is None:
                raise RpcError(METHOD_NOT_FOUND, f"Method not found: {message['method']}")
            answer = await handler(self._all, object_in(message, "params"))
        except RpcError as exc:
            body = {"jsonrpc": "2.0", "id": message.get("id"), "error": exc.body}
            return web.json_response(body, status=_STATUS.get(exc.body["code"], 200))
        assert not isinstance(answer, Job)  # noqa: S101 - nothing here waits on a stream
        result = {
            "resultType": "complete", **answer,
            "_meta": {f"{_META}serverInfo": {"name": self.name, "version": "1.0"}},
        }  # fmt: skip
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async def close(self, _: web.Application | None = None) -> None:
        """Stop every job."""
        self._all.close()

    async def _discover(self, _: Session, __: Json) -> Json:
        said = {"supportedVersions": [NEW], "capabilities": self.capabilities()}
        return {**said, "ttlMs": 0, "cacheScope": "private"}

    async def _tools(self, _: Session, __: Json) -> Json:
        tools = [self.listing(tool) for tool in self.tools.values()]
        return {"tools": tools, "ttlMs": 0, "cacheScope": "private"}

    async def _call(self, session: Session, params: Json) -> Json:
        """Call a tool: at once, or as a task. Raises RpcError -32021, -32602."""
        tool = self.find_tool(params)
        declared = object_in(object_in(params, "_meta"), f"{_META}clientCapabilities")
        if tool.support != "forbidden" and TASKS in object_in(declared, "extensions"):
            job = self.create(session, tool, object_in(params, "arguments"), None)
            return {**self.show(job), "resultType": "task"}
        if tool.support == "required":
            needed: Json = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
            raise RpcError(MISSING_CAPABILITY, "Missing required client capability", needed)
        job = self.make_job(session, None, is_task=False)
        arguments = object_in(params, "arguments")
        job.start(lambda job: tool.run(job, arguments))
        await job.wait()
        return self.outcome(job)

    async def _update(self, session: Session, params: Json) -> Json:
        """Take answers by key; unknown ones and repeats are ignored."""
        job = self.find(session, params)
        for key, answer in object_in(params, "inputResponses").items():
            question = job.questions.get(key)
            if question is not None and not question.answer.done() and isinstance(answer, dict):
                question.answer.set_result(answer)
        return {}

    async def _cancel(self, session: Session, params: Json) -> Json:
        """Acknowledge; a task that has ended stays as it is."""
        self.find(session, params).cancel()
        return {}


def _read(body: bytes, method: str | None) -> Json:
    """Read a request of this API. Raises RpcError."""
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise RpcError(PARSE_ERROR, "Parse error") from None
    if not isinstance(message, dict) or not isinstance(message.get("method"), str):
        raise RpcError(INVALID_REQUEST, "Invalid Request")
    meta = object_in(object_in(message, "params"), "_meta")
    if "id" in message and meta.get(f"{_META}protocolVersion") != NEW:
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", {"supported": [NEW]})
    if "id" in message and method != message["method"]:
        raise RpcError(HEADER_MISMATCH, "Header mismatch: Mcp-Method")
    return message


def create_app(*, path: str = "/mcp", **options: Any) -> web.Application:
    """Build the application; options are DemoServer's."""
    return serve_at(Modern(**options), path)


async def start(
    host: str = "127.0.0.1", port: int = 0, *, path: str = "/mcp", **options: Any
) -> tuple[web.AppRunner, str]:
    """Serve in the background; give the runner (to be cleaned up) and the URL."""
    return await start_app(create_app(path=path, **options), host, port, path)
