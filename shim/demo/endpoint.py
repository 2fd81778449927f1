"""A legacy Streamable HTTP endpoint: sessions, POST, GET and DELETE, streams that carry questions.

Everything is answered with JSON but what waits for a job: that is an SSE stream, on which the job's questions
travel as well. Which methods there are, and what they do, is for the server built on it.
"""

import asyncio
import json
import uuid
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from shim.clock import Clock, SystemClock
from shim.demo.jobs import Job, Json, Outbox, Question, RpcError
from shim.wire.errors import INTERNAL, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR

SESSION = "Mcp-Session-Id"
LATEST = "2025-11-25"
VERSIONS = (LATEST, "2025-06-18", "2025-03-26")


@dataclass(eq=False)
class Session:
    """One client's session. It owns its jobs; `inbox` is its GET stream while one is open."""

    id: str
    can_ask: bool = False
    jobs: dict[str, Job] = field(default_factory=dict)
    questions: dict[str, Question] = field(default_factory=dict)
    inbox: Outbox | None = None
    waiting: dict[str, Outbox] = field(default_factory=dict)
    """The open streams by the raw JSON of the request's id, for notifications/cancelled."""

    def close(self) -> None:
        """Stop the jobs and end the streams."""
        for job in self.jobs.values():
            job.cancel()
        if self.inbox is not None:
            self.inbox.send(None)


class RefusedError(Exception):
    """Answered with an HTTP status and a JSON-RPC error without an id."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.body: Json = {"code": code, "message": message}


Handler = Callable[[Session, Json], Awaitable[Json | Job]]
"""Serves one method: gives the result, or the job whose end is waited for on a stream."""


class Endpoint(ABC):
    """The transport. `clock` and `keep_alive_ms` are for tests to set; `sessions=False`: one for all."""

    name: str
    asks_on_get = False
    """Whether a question may travel on the GET stream when no result stream is open."""

    def __init__(
        self, *, sessions: bool = True, clock: Clock | None = None, keep_alive_ms: int = 15_000
    ) -> None:
        self.sessions = sessions
        self.clock = clock or SystemClock()
        self.keep_alive_ms = keep_alive_ms
        self.methods: dict[str, Handler] = {}
        self._sessions: dict[str, Session] = {}
        self._everyone = Session("", can_ask=True)

    @abstractmethod
    def capabilities(self) -> Json:
        """Give the capabilities for the initialize result."""

    def meta(self, job: Job) -> Json:
        """Give the `_meta` member for a message that is about the job, {} for none."""
        del job
        return {}

    def changed(self, session: Session, job: Job) -> None:
        """Take note that a job changed; nothing by default."""
        del session, job

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one HTTP request on the endpoint."""
        try:
            if request.method == "POST":
                return await self._post(request)
            if self.sessions and request.method == "GET":
                return await self._get(request, self._session(request))
            if self.sessions and request.method == "DELETE":
                self._sessions.pop(self._session(request).id).close()
                return web.Response()
        except RefusedError as exc:
            return web.json_response(_error(None, exc.body), status=exc.status)
        return web.Response(status=405, headers={"Allow": "GET, POST, DELETE" if self.sessions else "POST"})

    async def close(self, _: web.Application | None = None) -> None:
        """Stop every job and end every stream."""
        for session in [*self._sessions.values(), self._everyone]:
            session.close()

    async def _post(self, request: web.Request) -> web.StreamResponse:
        accept = request.headers.get("Accept", "*/*")
        if "*/*" not in accept and not ("application/json" in accept and "text/event-stream" in accept):
            raise RefusedError(
                406, INVALID_REQUEST, "Not Acceptable: accept application/json and text/event-stream"
            )
        try:
            message = json.loads(await request.read())
        except (ValueError, RecursionError):
            raise RefusedError(400, PARSE_ERROR, "Parse error") from None
        if not isinstance(message, dict) or message.get("jsonrpc") != "2.0":
            raise RefusedError(400, INVALID_REQUEST, "Invalid Request")
        if message.get("method") == "initialize":
            return self._initialize(message)
        session = self._session(request)
        if "id" in message and isinstance(message.get("method"), str):
            return await self._request(request, session, message)
        if message.get("method") == "notifications/cancelled" and self.sessions:
            _stop_waiting(session, message.get("params"))
        elif "id" in message:
            _take_response(session, message)
        return web.Response(status=202)

    def _session(self, request: web.Request) -> Session:
        if not self.sessions:
            return self._everyone
        session_id = request.headers.get(SESSION)
        if session_id is None:
            raise RefusedError(400, INVALID_REQUEST, "Missing session ID")
        if session_id not in self._sessions:
            raise RefusedError(404, INVALID_REQUEST, "Session not found")
        version = request.headers.get("MCP-Protocol-Version", LATEST)
        if version not in VERSIONS:
            raise RefusedError(400, INVALID_REQUEST, f"Unsupported protocol version: {version}")
        return self._sessions[session_id]

    def _initialize(self, message: Json) -> web.Response:
        params = message.get("params")
        if not isinstance(params, dict):
            raise RefusedError(400, INVALID_PARAMS, "initialize needs params")
        asked = params.get("protocolVersion")
        result = {
            "protocolVersion": asked if asked in VERSIONS else LATEST,
            "capabilities": self.capabilities(),
            "serverInfo": {"name": self.name, "version": "1.0"},
        }
        headers = {}
        if self.sessions:
            session = Session(uuid.uuid4().hex, can_ask="elicitation" in (params.get("capabilities") or {}))
            self._sessions[session.id] = session
            headers[SESSION] = session.id
        return web.json_response(_result(message.get("id"), result), headers=headers)

    async def _request(self, request: web.Request, session: Session, message: Json) -> web.StreamResponse:
        try:
            handler = self.methods.get(message["method"], _unknown_method)
            answer = await handler(session, object_in(message, "params"))
        except RpcError as exc:
            return web.json_response(_error(message["id"], exc.body))
        if isinstance(answer, Job):
            return await self._follow(request, session, message["id"], answer)
        return web.json_response(_result(message["id"], answer))

    async def _follow(
        self, request: web.Request, session: Session, request_id: Any, job: Job
    ) -> web.StreamResponse:
        """Answer with a stream that carries the job's questions and, when it ends, its outcome."""
        outbox, key = Outbox(), json.dumps(request_id)
        session.waiting[key] = outbox
        job.readers.append(outbox)
        if self.sessions:
            for question in job.questions.values():
                self.send_question(session, job, question)
        if job.ended:
            outbox.send(None)
        try:
            response = await self._stream(request, outbox)
            if job.ended:  # else the client cancelled its request, which gets no answer
                try:
                    last = _result(request_id, self.outcome(job))
                except RpcError as exc:
                    last = _error(request_id, exc.body)
                await response.write(_event(last))
            return response
        finally:
            job.readers.remove(outbox)
            if session.waiting.get(key) is outbox:
                del session.waiting[key]
            if not job.is_task:
                job.cancel()

    async def _get(self, request: web.Request, session: Session) -> web.StreamResponse:
        if session.inbox is not None:
            raise RefusedError(409, INVALID_REQUEST, "Conflict: only one GET stream per session")
        session.inbox = Outbox()
        for job in session.jobs.values():
            for question in () if job.readers else job.questions.values():
                self.send_question(session, job, question)
        try:
            return await self._stream(request, session.inbox)
        finally:
            session.inbox = None

    async def _stream(self, request: web.Request, outbox: Outbox) -> web.StreamResponse:
        """Write what the outbox gets until its end, with comments in between."""
        response = web.StreamResponse(
            headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
        )
        await response.prepare(request)
        while True:
            try:
                message = await asyncio.wait_for(outbox.queue.get(), self.keep_alive_ms / 1000)
            except TimeoutError:
                await response.write(b": keep-alive\n\n")
                continue
            if message is None:
                return response
            await response.write(_event(message))

    def send_question(self, session: Session, job: Job, question: Question) -> None:
        """Put a question on the stream that waits for the job, or keep it until one is there."""
        message = {
            "id": question.id,
            "method": question.method,
            "params": {**question.params, **self.meta(job)},
        }
        if job.readers:
            job.readers[-1].send({"jsonrpc": "2.0", **message})
        elif self.asks_on_get and session.inbox is not None:
            session.inbox.send({"jsonrpc": "2.0", **message})

    def outcome(self, job: Job) -> Json:
        """Give the result of an ended job. Raises RpcError."""
        if job.state == "cancelled":
            raise RpcError(INTERNAL, "The task was cancelled.")
        if job.result is None:
            raise job.error or RpcError(INTERNAL, "The work gave no result.")
        return {**job.result, **self.meta(job)}


def serve_at(server: Endpoint, path: str) -> web.Application:
    """Build the application that serves a demo server at a path."""
    app = web.Application(client_max_size=4 * 1024 * 1024)
    app.router.add_route("*", path, server.handle)
    app.on_shutdown.append(server.close)
    return app


async def start_app(app: web.Application, host: str, port: int, path: str) -> tuple[web.AppRunner, str]:
    """Listen (port 0: any free one); give the runner, to be cleaned up, and the URL."""
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, host, port).start()
    return runner, f"http://{host}:{runner.addresses[0][1]}{path}"


def object_in(holder: Json, key: str) -> Json:
    """Give the object under a key, {} when it is absent. Raises RpcError -32602."""
    value = holder.get(key, {})
    if not isinstance(value, dict):
        raise RpcError(INVALID_PARAMS, f"{key} must be an object")
    return value


async def _unknown_method(session: Session, params: Json) -> Json:
    del session, params
    raise RpcError(METHOD_NOT_FOUND, "Method not found")


def _take_response(session: Session, message: Json) -> None:
    question = session.questions.get(str(message["id"]))
    if question is not None and not question.answer.done():
        result = message.get("result")
        question.answer.set_result(result if isinstance(result, dict) else {"action": "cancel"})


def _stop_waiting(session: Session, params: Any) -> None:
    request_id = params.get("requestId") if isinstance(params, dict) else None
    outbox = session.waiting.get(json.dumps(request_id))
    if outbox is not None:
        outbox.send(None)


def _result(request_id: Any, result: Json) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def _error(request_id: Any, error: Mapping[str, Any]) -> Json:
    return {"jsonrpc": "2.0", "id": request_id, "error": dict(error)}


def _event(message: Json) -> bytes:
    return b"event: message\ndata: " + json.dumps(message).encode() + b"\n\n"
