"""One message to a session of a legacy server, and the answer: headers put on, refusals told apart."""

import contextlib
from collections.abc import Awaitable, Callable

from shim.upstreams.authority import Authority
from shim.upstreams.base import Context
from shim.upstreams.broken import Interrupted
from shim.upstreams.client import Answer
from shim.upstreams.http import Link, denied, media_type, odd_answer
from shim.wire.era import Era
from shim.wire.errors import UpstreamFault
from shim.wire.http import (
    ACCEPT,
    JSON_TYPE,
    OK,
    PROTOCOL_VERSION,
    SESSION_ID,
    SSE_TYPE,
    UNAUTHORIZED,
    is_success,
)
from shim.wire.jsonrpc import Message, Response, read_upstream

_BAD_REQUEST, _NOT_FOUND = 400, 404
_PROSE_BYTES = 2_000

Hear = Callable[[Message], Awaitable[None]]
"""Takes up what comes on a request's stream before its answer."""


class Gone(Exception):
    """The server answered as if it did not know the session."""


class Exchange:
    """Carries messages to one session; `wire_id` is None on a server that gave it no id."""

    def __init__(self, link: Link, authority: Authority, wire_id: str | None, version: str) -> None:
        self._link = link
        self._authority = authority
        self._wire_id = wire_id
        self._version = version

    def headers(self, ctx: Context, accept: str = ACCEPT) -> list[tuple[str, str]]:
        """Give what is sent along with a message of the caller's."""
        headers = [("Accept", accept), ("Content-Type", JSON_TYPE), *self._authority.headers(ctx)]
        if self._version:
            headers.append((PROTOCOL_VERSION, self._version))
        if self._wire_id:
            headers.append((SESSION_ID, self._wire_id))
        return headers

    async def send(self, ctx: Context, body: bytes, *, patient: bool) -> Answer:
        """Post a message and give what comes back once its headers are in. Raises NeverSent, Interrupted."""
        response = await self._link.send("POST", self.headers(ctx), body, patient=patient)
        if is_success(response.status):
            self._authority.accepted(ctx)
        return response

    async def post(self, ctx: Context, message: bytes) -> int:
        """Send a notification or a response; give the HTTP status. Raises Gone, Denied, UpstreamFault."""
        response = await self.send(ctx, message, patient=False)
        async with response:
            if response.status in UNAUTHORIZED:
                self._authority.refused(ctx)
                raise await denied(self._link, response)
            if response.status in {_BAD_REQUEST, _NOT_FOUND}:
                raise Gone(str(response.status))
            return response.status

    async def delete(self, ctx: Context) -> None:
        """End the session on the server."""
        with contextlib.suppress(UpstreamFault):
            response = await self._link.send("DELETE", self.headers(ctx))
            response.release()

    async def answer(self, ctx: Context, response: Answer, rid: bytes, hear: Hear) -> Response:
        """Read the answer to a request out of what came back. Raises Gone, Denied, UpstreamFault."""
        if response.status in UNAUTHORIZED:
            self._authority.refused(ctx)
            raise await denied(self._link, response)
        kind = media_type(response.headers)
        if response.status == OK and kind == SSE_TYPE:
            return await self._streamed(response, rid, hear)
        body = await self._link.read(response)
        if response.status == _NOT_FOUND or (response.status == _BAD_REQUEST and _blames_session(body)):
            raise Gone(str(response.status))
        if kind != JSON_TYPE:
            raise odd_answer(response)
        message = read_upstream(body)
        if isinstance(message, Response) and message.error is not None:
            self._link.judge(Era.LEGACY, response.status, body)
        if not isinstance(message, Response) or message.id not in {rid, None}:
            raise UpstreamFault("the upstream answered another request")
        return message

    async def _streamed(self, response: Answer, rid: bytes, hear: Hear) -> Response:
        async for frame in self._link.frames(response):
            if not frame.data:
                continue
            message = read_upstream(frame.data)
            if isinstance(message, Response) and message.id == rid:
                if message.error is not None:
                    self._link.judge(Era.LEGACY, response.status, frame.data)
                return message
            await hear(message)
        raise Interrupted("the upstream's stream ended without the answer")


def _blames_session(body: bytes) -> bool:
    """Tell whether a 400 is about the session: servers say it in prose only."""
    return b"ession" in body[:_PROSE_BYTES]
