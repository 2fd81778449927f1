"""Raw clients of both eras for tests: what is sent is what the test says, what came back is all there.

async with ModernClient(url) as client:
    reply = await client.call("greet", {"name": "a"})         # Reply: status, headers, body, .result, .error
    reply = await client.request("tasks/get", {"taskId": t})   # Mcp-Method and Mcp-Name are set by themselves
    reply = await client.request("tasks/get", {"taskId": t}, headers={"Mcp-Name": None})  # ... or left out

async with LegacyClient(url) as client:
    await client.initialize()
    reply = await client.call("greet", task={"ttl": 60000})
    async with client.stream("tasks/result", {"taskId": t}) as stream:   # or client.get()
        frame = await stream.next()                            # Frame: raw, event, data, id, .json
        await client.respond(frame.json["id"], {"action": "accept", "content": {}})
"""

import base64
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
from multidict import CIMultiDict, CIMultiDictProxy

from tests import planted, sse
from tests.sse import Frame

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
META_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
RELATED_TASK = "io.modelcontextprotocol/related-task"
MODERN = "2026-07-28"
LEGACY = "2025-11-25"
ALL_KINDS: dict[str, Any] = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}
ACCEPT = "application/json, text/event-stream"

Headers = Mapping[str, str | None]


@dataclass(frozen=True)
class Reply:
    """A finished answer."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes

    @property
    def frames(self) -> list[Frame]:
        """The SSE blocks of the body."""
        return sse.split(self.body)

    @property
    def messages(self) -> list[Any]:
        """Every JSON-RPC message in the body, JSON or SSE."""
        if self.headers.get("Content-Type", "").startswith("text/event-stream"):
            return [frame.json for frame in self.frames if frame.data]
        return [json.loads(self.body)] if self.body else []

    @property
    def json(self) -> Any:
        """The JSON-RPC response: the only message, or the last of a stream."""
        assert self.messages, f"no message in {self}"
        return self.messages[-1]

    @property
    def result(self) -> Any:
        assert "result" in self.json, f"{self.status} {self.body!r}"
        return self.json["result"]

    @property
    def error(self) -> Any:
        assert "error" in self.json, f"{self.status} {self.body!r}"
        return self.json["error"]


class OpenStream:
    """An answer whose body is still coming."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.frames: list[Frame] = []
        """Everything that came so far."""
        self._iterator = sse.iterate(response.content.iter_any())

    @property
    def status(self) -> int:
        return self._response.status

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        return self._response.headers

    async def next_raw(self) -> Frame:
        """The next block of any kind; StopAsyncIteration at the end."""
        frame = await anext(self._iterator)
        self.frames.append(frame)
        return frame

    async def next(self) -> Frame:
        """The next block with data; StopAsyncIteration at the end."""
        while True:
            frame = await self.next_raw()
            if frame.data:
                return frame

    async def message(self) -> Any:
        """The next JSON-RPC message."""
        return (await self.next()).json

    async def body(self) -> bytes:
        """The whole body of an answer that is no stream."""
        return await self._response.read()

    async def json(self) -> Any:
        """The whole body of an answer that is no stream, read."""
        return json.loads(await self.body())

    async def rest(self) -> list[Any]:
        """All messages until the end."""
        found = []
        while True:
            try:
                found.append(await self.message())
            except StopAsyncIteration:
                return found

    def close(self) -> None:
        """Leave: cut the connection."""
        self._response.close()


class _Client:
    """What both eras share: the HTTP session, ids, and sending bytes."""

    def __init__(self, url: str, *, headers: Headers | None = None) -> None:
        self.url = url
        self.headers: dict[str, str | None] = dict(headers or {})
        """Sent with every request, e.g. {"Authorization": "Bearer a"}."""
        self._ids = itertools.count(1)
        self._http: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession(
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
            skip_auto_headers=["Accept", "Accept-Encoding", "User-Agent"],
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._http is not None
        await self._http.close()

    def next_id(self) -> int:
        """An id no earlier request of this client had."""
        return next(self._ids)

    def own_headers(self, message: Any) -> dict[str, str | None]:
        """The headers this era sends with a message."""
        raise NotImplementedError

    def build(self, method: str, params: Mapping[str, Any] | None, **fields: Any) -> dict[str, Any]:
        """A JSON-RPC message of this era."""
        raise NotImplementedError

    @asynccontextmanager
    async def open(
        self,
        body: bytes | None,
        *,
        http_method: str = "POST",
        headers: Headers | None = None,
        url: str | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send these very bytes with exactly the headers given (None leaves one out); the open answer."""
        assert self._http is not None
        merged: CIMultiDict[str] = CIMultiDict()
        own = {"Accept": ACCEPT, "Content-Type": "application/json", **planted.HEADERS}
        for name, value in {**own, **(headers or {})}.items():
            merged.pop(name, None)
            if value is not None:
                merged[name] = value
        planted.sending(merged)
        async with self._http.request(
            http_method, url or self.url, data=body, headers=merged, allow_redirects=False
        ) as response:
            yield response

    async def send(self, body: bytes | None, **options: Any) -> Reply:
        """As `open`, the whole answer read."""
        async with self.open(body, **options) as response:
            return Reply(response.status, response.headers, await response.read())

    async def post(self, message: Any, *, headers: Headers | None = None, url: str | None = None) -> Reply:
        """Send one message with this era's headers; `headers` add to, replace or (None) remove them."""
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        merged = {**self.own_headers(message), **self.headers, **(headers or {})}
        return await self.send(body, headers=merged, url=url)

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        id: Any = None,  # noqa: A002 - JSON-RPC's own word
        headers: Headers | None = None,
        url: str | None = None,
        **fields: Any,
    ) -> Reply:
        """Send a request and read the whole answer."""
        message = self.build(method, params, id=self.next_id() if id is None else id, **fields)
        return await self.post(message, headers=headers, url=url)

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        id: Any = None,  # noqa: A002 - JSON-RPC's own word
        headers: Headers | None = None,
        url: str | None = None,
        **fields: Any,
    ) -> AsyncIterator[OpenStream]:
        """Send a request and read its answer as it comes."""
        message = self.build(method, params, id=self.next_id() if id is None else id, **fields)
        merged = {**self.own_headers(message), **self.headers, **(headers or {})}
        async with self.open(json.dumps(message).encode(), headers=merged, url=url) as response:
            yield OpenStream(response)

    async def call(self, name: str, arguments: Mapping[str, Any] | None = None, **options: Any) -> Reply:
        """tools/call; `task={...}` augments it (legacy)."""
        params: dict[str, Any] = {"name": name, "arguments": planted.arguments(arguments)}
        for key in ("task", "inputResponses", "requestState"):
            if key in options:
                params[key] = options.pop(key)
        return await self.request("tools/call", params, **options)

    async def tasks(self, verb: str, task_id: str, **options: Any) -> Reply:
        """tasks/<verb> on one task; `inputResponses={...}` goes into the params."""
        params: dict[str, Any] = {"taskId": task_id}
        if "inputResponses" in options:
            params["inputResponses"] = options.pop("inputResponses")
        return await self.request(f"tasks/{verb}", params, **options)


class ModernClient(_Client):
    """A 2026-07-28 client: stateless, `_meta` and Mcp-* headers on every request.

    `tasks=False` leaves the extension undeclared; `meta={...}` on a request adds to its `_meta`,
    `meta=None` leaves `_meta` out; `tasks`/`capabilities`/`version` may be changed on the object.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Headers | None = None,
        tasks: bool = True,
        capabilities: Mapping[str, Any] | None = None,
        version: str = MODERN,
        name: str = "test-client",
    ) -> None:
        super().__init__(url, headers=headers)
        self.declares_tasks = tasks
        self.capabilities = dict(ALL_KINDS if capabilities is None else capabilities)
        self.version = version
        self.name = name

    def meta(self) -> dict[str, Any]:
        """The `_meta` of a request."""
        extensions: dict[str, Any] = {"extensions": {TASKS_EXTENSION: {}}} if self.declares_tasks else {}
        return {
            META_VERSION: self.version,
            META_CLIENT_INFO: {"name": self.name, "version": "1"},
            META_CAPABILITIES: {**self.capabilities, **extensions},
        }

    def build(self, method: str, params: Mapping[str, Any] | None, **fields: Any) -> dict[str, Any]:
        extra = fields.pop("meta", {})
        body = dict(params or {})
        if extra is not None:
            body["_meta"] = {**self.meta(), **body.get("_meta", {}), **extra}
        return {"jsonrpc": "2.0", **fields, "method": method, "params": body}

    def own_headers(self, message: Any) -> dict[str, str | None]:
        headers: dict[str, str | None] = {"MCP-Protocol-Version": self.version}
        if isinstance(message, dict) and isinstance(message.get("method"), str):
            headers["Mcp-Method"] = message["method"]
            headers["Mcp-Name"] = mcp_name(message["method"], message.get("params"))
        return headers


class LegacyClient(_Client):
    """A client with a session. `session` is None until `initialize`; set it to try a foreign one."""

    def __init__(
        self,
        url: str,
        *,
        headers: Headers | None = None,
        capabilities: Mapping[str, Any] | None = None,
        version: str = LEGACY,
        name: str = "test-client",
    ) -> None:
        super().__init__(url, headers=headers)
        self.capabilities = dict(ALL_KINDS if capabilities is None else capabilities)
        self.version = version
        self.name = name
        self.session: str | None = None
        self.initialized = False

    def build(self, method: str, params: Mapping[str, Any] | None, **fields: Any) -> dict[str, Any]:
        body = {} if params is None else {"params": dict(params)}
        return {"jsonrpc": "2.0", **fields, "method": method, **body}

    def own_headers(self, message: Any) -> dict[str, str | None]:
        del message
        return {
            "Mcp-Session-Id": self.session,
            "MCP-Protocol-Version": self.version if self.initialized else None,
        }

    async def initialize(self, *, notify: bool = True, **options: Any) -> Reply:
        """Open a session; with `notify` also say notifications/initialized."""
        reply = await self.request(
            "initialize",
            {
                "protocolVersion": self.version,
                "capabilities": self.capabilities,
                "clientInfo": {"name": self.name, "version": "1"},
            },
            **options,
        )
        if reply.status == 200 and "result" in reply.json:
            self.session = reply.headers.get("Mcp-Session-Id")
            self.initialized = True
            if notify:
                await self.notify("notifications/initialized", **options)
        return reply

    async def notify(self, method: str, params: Mapping[str, Any] | None = None, **options: Any) -> Reply:
        """Send a notification."""
        return await self.post(self.build(method, params), **options)

    async def respond(self, request_id: Any, result: Mapping[str, Any], **options: Any) -> Reply:
        """Answer a server's request."""
        return await self.post({"jsonrpc": "2.0", "id": request_id, "result": result}, **options)

    async def respond_error(self, request_id: Any, code: int, message: str = "no", **options: Any) -> Reply:
        """Answer a server's request with an error."""
        error = {"code": code, "message": message}
        return await self.post({"jsonrpc": "2.0", "id": request_id, "error": error}, **options)

    @asynccontextmanager
    async def get(
        self, *, last_event_id: str | None = None, headers: Headers | None = None
    ) -> AsyncIterator[OpenStream]:
        """Open the GET stream; its headers have come when the block is entered."""
        merged: dict[str, str | None] = {
            **self.own_headers(None),
            **self.headers,
            "Accept": "text/event-stream",
            "Content-Type": None,
            "Last-Event-ID": last_event_id,
            **(headers or {}),
        }
        async with self.open(None, http_method="GET", headers=merged) as response:
            yield OpenStream(response)

    async def delete(self, *, headers: Headers | None = None) -> Reply:
        """End the session."""
        merged = {**self.own_headers(None), **self.headers, "Content-Type": None, **(headers or {})}
        return await self.send(None, http_method="DELETE", headers=merged)


def mcp_name(method: str, params: Any) -> str | None:
    """What Mcp-Name says for a request, None where it has none."""
    key = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}.get(method)
    if method in {"tasks/get", "tasks/update", "tasks/cancel"}:
        key = "taskId"
    value = params.get(key) if key and isinstance(params, dict) else None
    return encode_name(value) if isinstance(value, str) else None


def encode_name(value: str) -> str:
    """A header value: plain where it is safe, else the base64 form."""
    plain = value.isascii() and value.isprintable() and value == value.strip()
    if plain and not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="
