"""A Streamable HTTP server of its own for a server that is a command, behind a private socket.

So sessions, streams and refusals are what they are with any other server: a process that is gone is a
session that is not known (404), an exchange that it left open is one that broke off. A process serves one
legacy session, or one caller's modern requests.
"""

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import structlog
from aiohttp import hdrs, web

from shim.clock import Clock
from shim.hub import rawjson
from shim.upstreams.stdio.legacy import LegacyPeer
from shim.upstreams.stdio.modern import ModernPeer
from shim.upstreams.stdio.peer import Inbox, Peer
from shim.upstreams.stdio.process import Command, Process
from shim.wire.era import Era, classify
from shim.wire.errors import INTERNAL
from shim.wire.http import JSON_TYPE, SESSION_ID, SSE_TYPE
from shim.wire.jsonrpc import Message, Request, Response, read_upstream, write_error
from shim.wire.sse import encode_event
from shim.wire.statuses import status_of

log = structlog.get_logger("shim.upstreams")

CALLER = "Taskshim-Caller"
"""Header that tells whose a request is; one that has none gets a process of its own, once."""
_SWEEP_MS = 30_000

OnePeer = TypeVar("OnePeer", LegacyPeer, ModernPeer)


class _Refused(Exception):
    """Nobody takes the request; the status and the reason say why."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


@dataclass(frozen=True, slots=True)
class Bounds:
    """How many processes, how large their messages, how long without use, how long a probe waits."""

    processes: int
    frame_bytes: int
    idle_ms: int
    probe_ms: int


class Bridge:
    """Serves a command's processes over HTTP.

    `needed` tells whether a process that nobody talks to holds a task.
    """

    def __init__(
        self, command: Command, name: str, bounds: Callable[[], Bounds], clock: Clock,
        needed: Callable[[Peer], Awaitable[bool]],
    ) -> None:  # fmt: skip
        self._command = command
        self._name = name
        self._bounds = bounds
        self._clock = clock
        self._needed = needed
        self._sessions: dict[str, LegacyPeer] = {}
        self._callers: dict[str, ModernPeer] = {}
        self._living: dict[Peer, asyncio.Task[None]] = {}
        self._starting = 0
        self._sharing = asyncio.Lock()

    async def handle(self, http: web.BaseRequest) -> web.StreamResponse:
        """Answer one HTTP request of the shim's."""
        try:
            match http.method:
                case hdrs.METH_POST:
                    return await self._post(http)
                case hdrs.METH_GET:
                    return await self._listen(http)
            self.drop(self._session(http).name)
            return web.Response(status=204)
        except _Refused as exc:
            body = write_error(None, INTERNAL, str(exc))
            return web.Response(status=exc.status, body=body, content_type=JSON_TYPE)

    def drop(self, session_id: str) -> None:
        """End the process of a session that nobody will use again."""
        peer = self._sessions.pop(session_id, None)
        if peer is not None:
            peer.retire()

    async def run(self) -> None:
        """End processes that nobody used for a while, until the shim stops."""
        while True:
            await self._clock.sleep_ms(_SWEEP_MS)
            before = self._clock.now_ms() - self._bounds().idle_ms
            for peer in list(self._living):
                if not peer.busy and peer.used_ms < before and not await self._needed(peer):
                    peer.retire()

    async def close(self) -> None:
        """End all processes."""
        for peer in self._living:
            peer.retire()
        await asyncio.gather(*self._living.values())

    # -- exchanges ------------------------------------------------------------------------------

    async def _post(self, http: web.BaseRequest) -> web.StreamResponse:
        body = await http.content.read()
        message = read_upstream(body)
        peer = await self._peer(http, message)
        try:
            if isinstance(message, Request):
                return await self._ask(http, peer, message)
            await peer.tell(body)
            return web.Response(status=202)
        except ConnectionError:
            return _broken(http)
        finally:
            peer.used_ms = self._clock.now_ms()
            if CALLER not in http.headers:
                peer.retire()

    async def _ask(self, http: web.BaseRequest, peer: Peer, request: Request) -> web.StreamResponse:
        inbox = await peer.ask(request)
        try:
            first = await self._first(http, inbox)
            if first is None:
                return _broken(http)
            line, last = first
            headers = {}
            if request.method == "initialize":
                if isinstance(answer := read_upstream(line), Response) and answer.error is not None:
                    self.drop(peer.name)
                elif CALLER in http.headers:
                    headers[SESSION_ID] = peer.name
            if last:
                return web.Response(
                    status=_status(line, peer), body=line, headers=headers, content_type=JSON_TYPE
                )
            return await _streamed(http, inbox, headers, line)
        finally:
            await peer.left(inbox)

    async def _first(self, http: web.BaseRequest, inbox: Inbox) -> tuple[bytes, bool] | None:
        """Give the first message; a probe's silence is an answer as well (ERA-PROBE)."""
        if CALLER in http.headers or inbox.request is None:
            return await inbox.next()
        try:
            async with asyncio.timeout(self._bounds().probe_ms / 1000):
                return await inbox.next()
        except TimeoutError:
            return write_error(inbox.request.id, INTERNAL, "the server does not answer"), True

    async def _listen(self, http: web.BaseRequest) -> web.StreamResponse:
        peer = self._session(http)
        inbox = peer.listen()
        if inbox is None:
            raise _Refused(409, "somebody listens on this session already")
        try:
            return await _streamed(http, inbox, {})
        finally:
            await peer.left(inbox)
            peer.used_ms = self._clock.now_ms()

    # -- processes ------------------------------------------------------------------------------

    async def _peer(self, http: web.BaseRequest, message: Message) -> Peer:
        """Give the process that a message is for, started where it is the first."""
        modern = classify(http.headers, message, None) is Era.MODERN
        caller = http.headers.get(CALLER)
        if caller is None:
            return await (self._start(ModernPeer, "") if modern else self._start(LegacyPeer, ""))
        if modern:
            async with self._sharing:
                shared = self._callers.get(caller)
                if shared is None or shared.over:
                    shared = self._callers[caller] = await self._start(ModernPeer, caller)
                return shared
        if isinstance(message, Request) and message.method == "initialize":
            name = uuid.uuid4().hex
            session = self._sessions[name] = await self._start(LegacyPeer, name)
            return session
        return self._session(http)

    def _session(self, http: web.BaseRequest) -> LegacyPeer:
        name = http.headers.get(SESSION_ID)
        if name is None:
            raise _Refused(400, "Mcp-Session-Id is missing: a session begins with initialize")
        peer = self._sessions.get(name)
        if peer is None or peer.over:
            raise _Refused(404, "session not found: its process has ended")
        return peer

    async def _start(self, kind: type[OnePeer], name: str) -> OnePeer:
        """Start a process within the bound; one that is ending is waited for."""
        bounds = self._bounds()
        while len(self._living) + self._starting >= bounds.processes:
            ending = [task for peer, task in self._living.items() if peer.over]
            if not ending:
                raise _Refused(503, "as many processes run as may run (sessions.total)")
            await asyncio.wait(ending, return_when=asyncio.FIRST_COMPLETED)
        self._starting += 1
        try:
            process = await Process.start(self._command, self._name, bounds.frame_bytes)
        except OSError as exc:
            log.error("the server cannot be started", upstream=self._name, error=str(exc))  # noqa: TRY400 - the reason is all there is
            raise _Refused(502, f"the server cannot be started: {exc.strerror}") from exc
        finally:
            self._starting -= 1
        peer = kind(process, name, self._clock.now_ms())
        self._living[peer] = asyncio.create_task(self._serve(peer), name=f"process {process.pid}")
        return peer

    async def _serve(self, peer: Peer) -> None:
        """Take up what a process says until it is gone, and forget it."""
        try:
            await peer.run()
        finally:
            del self._living[peer]
            if self._callers.get(peer.name) is peer:
                del self._callers[peer.name]
            self._sessions.pop(peer.name, None)


async def _streamed(
    http: web.BaseRequest, inbox: Inbox, headers: dict[str, str], line: bytes | None = None
) -> web.StreamResponse:
    """Answer with what comes, until the answer is there or the process is gone."""
    stream = web.StreamResponse(headers=headers)
    stream.content_type = SSE_TYPE
    await stream.prepare(http)
    if line is not None:
        await stream.write(encode_event(line))
    while (got := await inbox.next()) is not None:
        await stream.write(encode_event(got[0]))
        if got[1]:
            await stream.write_eof()
            return stream
    return _broken(http, stream)


def _broken(http: web.BaseRequest, begun: web.StreamResponse | None = None) -> web.StreamResponse:
    """Cut the connection: whether the server did what it was asked is not known."""
    if http.transport is not None:
        http.transport.abort()
    return begun or web.Response(status=502)


def _status(line: bytes, peer: Peer) -> int:
    """Give the status of an answer; in the modern era an error has one of its own."""
    answer = read_upstream(line)
    if isinstance(peer, LegacyPeer) or not isinstance(answer, Response) or answer.error is None:
        return 200
    code = rawjson.decode(rawjson.members(answer.error).get("code", b"0"))
    return status_of(code, Era.MODERN) if isinstance(code, int) else 200
