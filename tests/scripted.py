"""An upstream whose every answer a test scripts, over a real socket.

    async with scripted() as upstream:
        upstream.on("tools/call", {"content": []})            # every call: this result
        upstream.once("tools/call", Error(-32602, "no"))      # the next call only
        stream = upstream.stream("tasks/result")              # the next call: a stream the test feeds
        ...
        await stream.send({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": {}})
        await stream.result({"content": []})
        get = await upstream.get_stream()                     # the next GET stream that is opened
        seen = await upstream.wait("tools/call", 2)           # the second such request, when it comes
        seen.message, seen.headers, seen.body

An answer is a dict (the result), Error, Raw (any status, headers and bytes), Broken (bytes written straight
to the socket, which is then closed), Hang (no answer until the peer leaves), a Stream, or a function of the
Seen request, plain or async, that gives one of these. What nobody scripted gets -32601 and stands in
`upstream.unexpected`.

With `sessions=True` (the default) the server is a legacy one: `initialize` mints `Mcp-Session-Id`, every
other request must name a known one. `sessions=False` asks for none: a modern server.
"""

import asyncio
import inspect
import json
from collections import defaultdict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from multidict import CIMultiDictProxy

from tests.planted import MARK, META

SESSION = "Mcp-Session-Id"
JSON_TYPE = "application/json"
SSE_TYPE = "text/event-stream"
_INT_DIGITS = 4_000
EXPERIMENTAL: dict[str, Any] = {
    "tasks": {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}},
    "tools": {},
}


@dataclass(frozen=True)
class Error:
    """Answer with a JSON-RPC error."""

    code: int
    message: str = f"scripted {MARK}"
    data: Any = None
    status: int = 200


@dataclass(frozen=True)
class Raw:
    """Answer with these bytes, whatever they are."""

    body: bytes | str = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"Content-Type": JSON_TYPE})


@dataclass(frozen=True)
class Broken:
    """Write these bytes to the socket without any HTTP of our own, then close it."""

    wire: bytes = b""


@dataclass(frozen=True)
class Hang:
    """Never answer."""


@dataclass(frozen=True)
class Seen:
    """One request as it came over the wire."""

    http_method: str
    path: str
    headers: CIMultiDictProxy[str]
    body: bytes
    message: Any
    """The decoded body, or None where it is no JSON."""

    @property
    def method(self) -> str | None:
        """The JSON-RPC method; None for responses and for GET and DELETE."""
        return self.message.get("method") if isinstance(self.message, dict) else None

    @property
    def id(self) -> Any:
        return self.message.get("id")

    @property
    def params(self) -> Any:
        return self.message.get("params", {})

    @property
    def session(self) -> str | None:
        return self.headers.get(SESSION)

    @property
    def is_response(self) -> bool:
        return isinstance(self.message, dict) and ("result" in self.message or "error" in self.message)


class Stream:
    """An SSE answer that the test feeds. `request` is the Seen request once it is open."""

    def __init__(self, *, headers: Mapping[str, str] | None = None, event: str | None = "message") -> None:
        self.headers = dict(headers or {})
        self.event = event
        self.request: Seen | None = None
        self.session: str | None = None
        self._out: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._open = asyncio.Event()
        self._gone = asyncio.Event()
        self._abort = False
        self._transport: asyncio.Transport | None = None

    async def opened(self) -> Seen:
        """Wait until the peer's request is here and the headers are out."""
        await self._open.wait()
        assert self.request is not None
        return self.request

    async def left(self) -> None:
        """Wait until the stream is over: the peer left, or the test closed it."""
        await self._gone.wait()

    @property
    def is_open(self) -> bool:
        return self._open.is_set() and not self._gone.is_set()

    @property
    def is_over(self) -> bool:
        """Whether nobody reads it any more."""
        return self._gone.is_set()

    async def send(self, message: Mapping[str, Any], *, event_id: str | None = None) -> None:
        """Send one JSON-RPC message as an event."""
        await self.opened()
        await self.write(sse_event(message, event_id=event_id, event=self.event))

    async def write(self, chunk: bytes) -> None:
        """Send bytes as they are: comments, half frames, garbage."""
        await self._out.put(chunk)

    async def result(self, result: Mapping[str, Any], *, event_id: str | None = None) -> None:
        """Send the response to the stream's own request, then end the stream."""
        seen = await self.opened()
        await self.send({"jsonrpc": "2.0", "id": seen.id, "result": result}, event_id=event_id)
        await self.close()

    async def error(self, code: int, message: str = f"scripted {MARK}", data: Any = None) -> None:
        """Send an error response to the stream's own request, then end the stream."""
        seen = await self.opened()
        await self.send({"jsonrpc": "2.0", "id": seen.id, "error": _error(Error(code, message, data))})
        await self.close()

    async def close(self) -> None:
        """End the body properly and wait until it is out."""
        await self._out.put(None)
        await self._gone.wait()

    async def abort(self) -> None:
        """Cut the connection in the middle of the body."""
        self._abort = True
        await self.close()

    async def serve(self, request: web.Request, seen: Seen) -> web.StreamResponse:
        """Run the answer; called by the server."""
        response = web.StreamResponse(
            headers={"Content-Type": SSE_TYPE, "Cache-Control": "no-cache", **self.headers}
        )
        self.request, self.session = seen, seen.session
        await response.prepare(request)
        self._open.set()
        try:
            while (chunk := await self._out.get()) is not None:
                await response.write(chunk)
            if self._abort and request.transport is not None:
                request.transport.abort()
        except ConnectionError:
            pass
        finally:
            self._gone.set()
        return response


Answer = dict[str, Any] | Error | Raw | Broken | Hang | Stream
Scriptable = Answer | Callable[[Seen], Any]


class Scripted:
    """The scripted upstream; see the module's text. Made by `scripted()`."""

    def __init__(
        self,
        *,
        sessions: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        version: str = "2025-11-25",
        path: str = "/mcp",
    ) -> None:
        self.url = ""
        self.path = path
        self.sessions: list[str] = []
        """Every session id minted, in order; `forget` takes one out of the living ones."""
        self.requests: list[Seen] = []
        """Everything that came, POST, GET and DELETE, in order."""
        self.unexpected: list[Seen] = []
        self.get_answer: Scriptable | None = None
        """What GET gets; None: a stream for `get_stream()`."""
        self.beside: dict[str, Scriptable] = {}
        """What other paths give; well-known ones that do not stand here are not found."""
        self.away: Scriptable | None = None
        """What everything gets, whatever is scripted, for as long as it is set."""
        self.response_answer: Scriptable | None = None
        """What a client's JSON-RPC response gets; None: 202."""
        self.init_result: dict[str, Any] = {
            "protocolVersion": version,
            "capabilities": dict(EXPERIMENTAL if capabilities is None else capabilities),
            "serverInfo": {"name": "scripted", "version": "1"},
        }
        self._needs_session = sessions
        self._living: set[str] = set()
        self._always: dict[str, Scriptable] = {"ping": {}}
        self._queues: defaultdict[str | None, deque[Scriptable]] = defaultdict(deque)
        self._early: defaultdict[str | None, deque[Scriptable]] = defaultdict(deque)
        self._get_streams: asyncio.Queue[Stream] = asyncio.Queue()
        self._news = asyncio.Condition()

    # scripting

    def on(self, method: str, answer: Scriptable) -> None:
        """Answer every request of this method so, from now on."""
        self._always[method] = answer

    def by_default(self, method: str, answer: Scriptable) -> None:
        """As `on`, unless something stands there already."""
        self._always.setdefault(method, answer)

    def once(self, method: str | None, *answers: Scriptable, any_session: bool = False) -> None:
        """Answer the next requests of this method so, one each, before any `on`; None: the next responses.

        `any_session` answers also those that name no session that lives.
        """
        (self._early if any_session else self._queues)[method].extend(answers)

    def stream(self, method: str, **options: Any) -> Stream:
        """Answer the next request of this method with a stream, and give it."""
        stream = Stream(**options)
        self.once(method, stream)
        return stream

    def forget(self, session: str | None = None) -> None:
        """Make one session, or all, unknown: 404 from now on."""
        if session is None:
            self._living.clear()
        else:
            self._living.discard(session)

    def knows(self, session: str) -> bool:
        """Whether a session lives."""
        return session in self._living

    # looking

    async def get_stream(self) -> Stream:
        """The next GET stream that a peer opens (or has opened and nobody has taken)."""
        return await self._get_streams.get()

    def seen(self, method: str | None) -> list[Seen]:
        """All requests so far of one JSON-RPC method, or of an HTTP method ("GET", "DELETE")."""
        if method in {"GET", "DELETE"}:
            return [seen for seen in self.requests if seen.http_method == method]
        return [seen for seen in self.requests if seen.http_method == "POST" and seen.method == method]

    async def wait(self, method: str | None, n: int = 1) -> Seen:
        """The n-th request of a method, as soon as it is here."""
        async with self._news:
            await self._news.wait_for(lambda: len(self.seen(method)) >= n)
        return self.seen(method)[n - 1]

    async def response_to(self, request_id: Any) -> Seen:
        """The POST that answers the server request with this id (type counts), as soon as it is here."""

        def answers() -> list[Seen]:
            return [seen for seen in self.requests if seen.is_response and _same(seen.id, request_id)]

        async with self._news:
            await self._news.wait_for(answers)
        return answers()[0]

    # serving

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Serve one HTTP request."""
        body = await request.read()
        try:
            message = json.loads(body, parse_int=_integer) if body else None
        except ValueError:
            message = None
        seen = Seen(request.method, request.path, request.headers, body, message)
        answer = self._decide(seen)
        async with self._news:
            self.requests.append(seen)
            self._news.notify_all()
        while callable(answer):
            answer = answer(seen)
            if inspect.isawaitable(answer):
                answer = await answer
        return await self._send(request, seen, answer)

    def _decide(self, seen: Seen) -> Scriptable:
        if self.away is not None:
            return self.away
        if seen.path in self.beside or seen.path.startswith("/.well-known/"):
            return self.beside.get(seen.path, Raw(b"", 404, {}))
        if self._queues[seen.http_method]:
            return self._queues[seen.http_method].popleft()
        if seen.http_method == "POST" and self._early[seen.method]:
            return self._early[seen.method].popleft()
        if self._needs_session and seen.method != "initialize" and seen.session not in self._living:
            status, fault = (
                (400, "Missing session ID") if seen.session is None else (404, "Session not found")
            )
            error = {"code": -32600, "message": fault}
            return Raw(json.dumps({"jsonrpc": "2.0", "id": None, "error": error}), status)
        if seen.http_method == "GET":
            return self._get()
        if seen.http_method == "DELETE":
            self.forget(seen.session or "")
            return Raw(b"", 200)
        return self._post(seen)

    def _get(self) -> Scriptable:
        if self.get_answer is not None:
            return self.get_answer
        stream = Stream()
        self._get_streams.put_nowait(stream)
        return stream

    def _post(self, seen: Seen) -> Scriptable:
        if seen.is_response and self._queues[None]:
            return self._queues[None].popleft()
        if seen.is_response and self.response_answer is not None:
            return self.response_answer
        if seen.is_response or seen.method is None:
            return Raw(b"", 202, {})
        if self._queues[seen.method]:
            return self._queues[seen.method].popleft()
        if seen.method in self._always:
            return self._always[seen.method]
        if "id" not in seen.message:
            return Raw(b"", 202, {})
        if seen.method == "initialize" and self._needs_session:
            return self.initialize
        self.unexpected.append(seen)
        return Error(-32601, f"not scripted: {seen.method}")

    def initialize(self, seen: Seen) -> Raw:
        """The default answer to initialize: a new session."""
        session = f"session-{len(self.sessions) + 1}"
        self.sessions.append(session)
        self._living.add(session)
        message = {"jsonrpc": "2.0", "id": seen.id, "result": self.init_result}
        return Raw(json.dumps(message), 200, {"Content-Type": JSON_TYPE, SESSION: session})

    async def _send(self, request: web.Request, seen: Seen, answer: Answer) -> web.StreamResponse:
        match answer:
            case Stream():
                return await answer.serve(request, seen)
            case Hang():
                await asyncio.Event().wait()
            case Broken(wire):
                transport = request.transport
                assert isinstance(transport, asyncio.Transport)
                transport.write(wire)
                transport.close()
                return web.Response()
            case Raw(body, status, headers):
                return web.Response(
                    body=body.encode() if isinstance(body, str) else body, status=status, headers=headers
                )
            case Error():
                return web.json_response(
                    {"jsonrpc": "2.0", "id": seen.id, "error": _error(answer)}, status=answer.status
                )
            case _:
                pass
        return web.json_response({"jsonrpc": "2.0", "id": seen.id, "result": answer})


@asynccontextmanager
async def scripted(*, port: int = 0, **options: Any) -> AsyncIterator[Scripted]:
    """Run a scripted upstream on the loopback interface, on a free port. Options are Scripted's."""
    upstream = Scripted(**options)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_route("*", "/{path:.*}", upstream.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    host, port = runner.addresses[0][:2]
    upstream.url = f"http://{host}:{port}{upstream.path}"
    try:
        yield upstream
    finally:
        await runner.cleanup()


def sse_event(
    message: Mapping[str, Any], *, event_id: str | None = None, event: str | None = "message"
) -> bytes:
    """One SSE event as bytes."""
    lines: Iterable[str] = [
        *([f"id: {event_id}"] if event_id is not None else []),
        *([f"event: {event}"] if event is not None else []),
        f"data: {json.dumps(message)}",
    ]
    return "".join(line + "\r\n" for line in lines).encode() + b"\r\n"


def task(task_id: str = "task-1", status: str = "working", **fields: Any) -> dict[str, Any]:
    """A 2025-11-25 task object."""
    return {
        "taskId": task_id,
        "status": status,
        "createdAt": "2026-01-01T00:00:00Z",
        "lastUpdatedAt": "2026-01-01T00:00:01Z",
        "ttl": None,
        **fields,
    }


def tool(name: str, support: str | None = None, **fields: Any) -> dict[str, Any]:
    """A tools/list entry, with its `execution.taskSupport` if one is given."""
    execution = {} if support is None else {"execution": {"taskSupport": support}}
    return {"name": name, "inputSchema": {"type": "object"}, **execution, **fields}


def text(value: str, **fields: Any) -> dict[str, Any]:
    """A CallToolResult with one text."""
    return {"content": [{"type": "text", "text": value, "_meta": META}], **fields}


def _error(error: Error) -> dict[str, Any]:
    data = {} if error.data is None else {"data": error.data}
    return {"code": error.code, "message": error.message, **data}


def _integer(digits: str) -> int | str:
    """Python reads no integer this long; the test wants only to see that it came."""
    return int(digits) if len(digits) < _INT_DIGITS else digits


def _same(left: Any, right: Any) -> bool:
    return type(left) is type(right) and left == right
