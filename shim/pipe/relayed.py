"""A client's lines as requests to the endpoint, and what comes back as lines.

A legacy client's one session is kept here; when the server has lost it, another is opened for the client,
which cannot know of sessions. Of a modern client's messages the headers are made.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import aiohttp

from shim.hub import rawjson
from shim.hub.facts import CALL
from shim.hub.rawjson import RawJsonError
from shim.wire.era import META_VERSION, MODERN_VERSIONS, Era, classify
from shim.wire.errors import INTERNAL, ClientFault, UpstreamFault
from shim.wire.headers import encode_value, mirrored
from shim.wire.http import ACCEPT, JSON_TYPE, MCP_METHOD, MCP_NAME, OK, PROTOCOL_VERSION, SESSION_ID, SSE_TYPE
from shim.wire.jsonrpc import (
    Message,
    Notification,
    Request,
    Response,
    read_client,
    read_upstream,
    write_error,
    write_message,
    write_notification,
)
from shim.wire.methods import CANCELLED, INITIALIZED
from shim.wire.param_headers import Mirrored, mirrored_params, param_headers
from shim.wire.sse import SseParser

_GONE = 404
_GRACE_S = 1.0
"""How long answers are waited for once the client has closed its end."""
_AGAIN_S = 1.0
_BROKEN = (aiohttp.ClientError, OSError, ValueError, UpstreamFault)

Write = Callable[[bytes], Awaitable[None]]
"""Takes one message for the client."""


class Relayed:
    """One client; `serve` runs until it has closed its end."""

    def __init__(
        self,
        http: aiohttp.ClientSession,
        url: str,
        own: Mapping[str, str],
        write: Write,
        frame_bytes: int,
    ) -> None:
        self._http = http
        self._url = url
        self._own = own
        self._write = write
        self._frame_bytes = frame_bytes
        self._initialize: bytes | None = None
        self._session: dict[str, str] = {}
        """The headers of the session; empty where there is none."""
        self._opening = asyncio.Lock()
        self._stream: asyncio.Task[None] | None = None
        self._asking: dict[bytes, asyncio.Task[None]] = {}
        self._params: dict[str, Mirrored] = {}

    async def serve(self, lines: AsyncIterator[bytes]) -> None:
        """Take the client's messages until there are no more, then end its session."""
        try:
            async for line in lines:
                if not line.isspace():
                    await self._take(line.strip())
            if self._asking:
                await asyncio.wait(self._asking.values(), timeout=_GRACE_S)
        finally:
            running = [*self._asking.values(), *([self._stream] if self._stream else [])]
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            await self._end()

    async def _end(self) -> None:
        with contextlib.suppress(aiohttp.ClientError):
            if self._session:
                async with self._http.delete(self._url, headers={**self._own, **self._session}):
                    self._session = {}

    async def _take(self, line: bytes) -> None:
        try:
            message = read_client(line)
        except ClientFault as fault:
            await self._write(write_error(None, fault.code, fault.message, fault.data))
            return
        modern = self._initialize is None
        if isinstance(message, Request) and message.method == "initialize":
            self._initialize = line
            await self._ask(message, line)  # what follows needs the session
        elif isinstance(message, Request):
            task = asyncio.create_task(self._ask(message, line), name="ask")
            self._asking[message.id] = task
            task.add_done_callback(lambda _: self._asking.pop(message.id, None))
        elif modern and isinstance(message, Notification) and message.method == CANCELLED:
            if (task_of := self._asking.get(message.params.get("requestId", b""))) is not None:
                task_of.cancel()  # leaving is what calls a request off over HTTP
        else:
            await self._tell(message, line)

    # -- exchanges ------------------------------------------------------------------------------

    async def _tell(self, message: Message, line: bytes) -> None:
        try:
            async with self._post(message, line) as response:
                await response.read()
        except aiohttp.ClientError:
            return
        if isinstance(message, Notification) and message.method == INITIALIZED:
            self._listen()

    async def _ask(self, message: Request, line: bytes) -> None:
        """Send a request and write what it leads to: the answer, or an error in its place."""
        try:
            answered = await self._exchange(message, line)
        except _BROKEN:
            answered = False
        if not answered:
            await self._write(write_error(message.id, INTERNAL, "the answer broke off"))

    async def _exchange(self, message: Request, line: bytes) -> bool:
        session = self._session
        async with self._post(message, line) as response:
            if response.status != _GONE or not session:
                return await self._answer(message, response)
        if await self._reopen(session):
            async with self._post(message, line) as response:
                return await self._answer(message, response)
        return False

    async def _answer(self, message: Request, response: aiohttp.ClientResponse) -> bool:
        """Write what comes; True once the answer was among it."""
        if message.method == "initialize" and response.status == OK:
            self._opened(response)
        if response.content_type == SSE_TYPE:
            async for data in self._events(response):
                if await self._pass(message, data):
                    return True
            return False
        return await self._pass(message, await response.read())

    async def _pass(self, asked: Request, data: bytes) -> bool:
        message = read_upstream(data)
        if not isinstance(message, Response) or message.id not in {None, asked.id}:
            await self._write(data)
            return False
        if asked.method == "initialize" and message.result is not None:
            version = rawjson.string(rawjson.members(message.result).get("protocolVersion"))
            self._session[PROTOCOL_VERSION] = version or ""
        elif asked.method == "tools/list" and message.result is not None:
            self._learn(message.result)
        await self._write(write_message(Response(asked.id, message.result, message.error)))
        return True

    # -- the session ----------------------------------------------------------------------------

    def _opened(self, response: aiohttp.ClientResponse) -> None:
        session_id = response.headers.get(SESSION_ID)
        self._session = {SESSION_ID: session_id} if session_id else {}

    async def _reopen(self, lost: Mapping[str, str]) -> bool:
        """Open another session in a lost one's place, once however many miss it."""
        async with self._opening:
            if self._session is not lost:
                return bool(self._session)
            initialize = self._initialize or b""
            self._session = {}
            async with self._post(read_client(initialize), initialize) as response:
                if response.status != OK:
                    return False
                self._opened(response)
                await response.read()
            self._session |= {key: value for key, value in lost.items() if key != SESSION_ID}
            said = Notification(INITIALIZED, {})
            await self._tell(said, write_notification(said.method, None))
            return True

    def _listen(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
        self._stream = asyncio.create_task(self._hear(self._session), name="listen")

    async def _hear(self, session: Mapping[str, str]) -> None:
        """Write what the server says of its own accord, as long as the session has a stream for it."""
        headers = {**self._own, **session, "Accept": SSE_TYPE}
        while True:
            try:
                async with self._http.get(self._url, headers=headers) as response:
                    if response.status != OK:
                        return
                    async for data in self._events(response):
                        message = read_upstream(data)
                        if not isinstance(message, Response) or message.id is not None:
                            await self._write(data)  # else it says that the stream broke off
            except _BROKEN:
                pass
            await asyncio.sleep(_AGAIN_S)

    async def _events(self, response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        parser = SseParser(self._frame_bytes)
        async for chunk in response.content.iter_any():
            for frame in parser.feed(chunk):
                if frame.data:
                    yield frame.data

    # -- headers --------------------------------------------------------------------------------

    def _post(self, message: Message, line: bytes) -> "aiohttp.client._RequestContextManager":
        return self._http.post(self._url, data=line, headers=self._headers(message))

    def _headers(self, message: Message) -> list[tuple[str, str]]:
        headers = [
            *self._own.items(),
            ("Content-Type", JSON_TYPE),
            ("Accept", ACCEPT),
        ]
        if isinstance(message, Response) or classify({}, message, None) is Era.LEGACY:
            return [*headers, *self._session.items()]
        headers += [(PROTOCOL_VERSION, _version(message)), (MCP_METHOD, message.method)]
        name = mirrored(message.method, message.params)
        if name is not None:
            headers.append((MCP_NAME, encode_value(name)))
        if message.method == CALL:
            headers += param_headers(self._params.get(name or "", {}), message.params.get("arguments"))
        return headers

    def _learn(self, result: bytes) -> None:
        """Note which parameters the tools want in headers."""
        tools = rawjson.decode(result).get("tools")
        for tool in tools if isinstance(tools, list) else ():
            if isinstance(tool, dict) and isinstance(name := tool.get("name"), str):
                self._params[name] = mirrored_params(tool.get("inputSchema"))


def _version(message: Request | Notification) -> str:
    """Give the version that a modern message names."""
    try:
        meta = rawjson.members(message.params.get("_meta", b"{}"))
    except RawJsonError:
        meta = {}
    return rawjson.string(meta.get(META_VERSION)) or MODERN_VERSIONS[0]
