"""One request to a modern server and its answer: `_meta` and headers put on, notifications heard."""

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from shim.clock import Clock
from shim.hub.rawjson import Members, RawJsonError
from shim.upstreams.authority import Authority
from shim.upstreams.base import Context, Notify
from shim.upstreams.broken import Interrupted
from shim.upstreams.client import Answer
from shim.upstreams.http import Link, denied, media_type, odd_answer
from shim.wire.era import MODERN_VERSIONS, Era
from shim.wire.errors import UpstreamFault
from shim.wire.headers import encode_value, mirrored
from shim.wire.http import (
    ACCEPT,
    JSON_TYPE,
    MCP_METHOD,
    MCP_NAME,
    PROTOCOL_VERSION,
    SERVER_ERROR,
    SSE_TYPE,
    UNAUTHORIZED,
)
from shim.wire.ids import IdMaker
from shim.wire.jsonrpc import Notification, Response, read_upstream, write_request
from shim.wire.loglevels import reaches
from shim.wire.methods import LOGGED, PROGRESS
from shim.wire.modern import modern_params
from shim.wire.tracing import traced


@dataclass(slots=True)
class Parts:
    """What every request to one modern server shares."""

    link: Link
    ids: IdMaker
    authority: Authority
    clock: Clock


class Exchange:
    """Asks one modern server; every JSON-RPC id and progress token is the shim's own (IDS)."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    async def ask(
        self, ctx: Context, method: str, params: Members, *, patient: bool = False,
        heard: Notify | None = None, headers: Sequence[tuple[str, str]] = (),
    ) -> Response:  # fmt: skip
        """Send a request and give its response; what else comes on its stream is passed to the client.

        `heard` takes all notifications in the client's place. `patient` waits without a limit: a tool may
        take hours. A caller that leaves closes the stream, which is this era's cancellation. Raises Denied,
        NeverSent, Interrupted, UpstreamFault.
        """
        params, onwards = traced(params, ctx.headers)
        sender = ctx if onwards is ctx.headers else replace(ctx, headers=onwards)
        rid = self._parts.ids.next()
        token = rid if ctx.progress_token is not None and ctx.notify is not None else None
        body = write_request(
            rid, method,
            modern_params(
                params, client_name=ctx.client_name, client_version=ctx.client_version,
                capabilities=ctx.capabilities, takes_tasks=ctx.takes_tasks, log_level=ctx.log_level,
                progress_token=token,
            ),
        )  # fmt: skip
        began = self._parts.clock.ticks_ms()
        try:
            with self._parts.link.counting(method) as counted:
                async with self._parts.link.in_time(patient=patient):
                    response = await self._parts.link.send(
                        "POST", [*self._headers(sender, method, params), *headers], body, patient=patient
                    )
                    async with response:
                        answer = await self._answer(ctx, response, rid, heard or partial(_heard, ctx))
                if answer.error is not None:
                    counted.outcome = "error"
                return answer
        finally:
            ctx.trace.upstream_calls += 1
            ctx.trace.upstream_ms += self._parts.clock.ticks_ms() - began

    def _headers(self, ctx: Context, method: str, params: Members) -> list[tuple[str, str]]:
        headers = [
            ("Accept", ACCEPT),
            ("Content-Type", JSON_TYPE),
            (PROTOCOL_VERSION, MODERN_VERSIONS[0]),
            (MCP_METHOD, method),
        ]
        if (name := mirrored(method, params)) is not None:
            headers.append((MCP_NAME, encode_value(name)))
        return [*headers, *self._parts.authority.headers(ctx)]

    async def _answer(self, ctx: Context, response: Answer, rid: bytes, heard: Notify) -> Response:
        if response.status in UNAUTHORIZED:
            self._parts.authority.refused(ctx)
            raise await denied(self._parts.link, response)
        if media_type(response.headers) == SSE_TYPE:
            self._parts.authority.accepted(ctx)
            return await self._streamed(ctx, response, rid, heard)
        body = await self._parts.link.read(response)
        self._parts.link.judge(Era.MODERN, response.status, body)
        if response.status >= SERVER_ERROR:
            raise odd_answer(response)
        try:
            message = read_upstream(body)
        except (UpstreamFault, RawJsonError):
            raise odd_answer(response) from None
        # a server that could not read the id answers without one
        if not isinstance(message, Response) or (message.id is not None and message.id != rid):
            raise UpstreamFault("the upstream answered something else than the request")
        self._parts.authority.accepted(ctx)
        return message

    async def _streamed(self, ctx: Context, response: Answer, rid: bytes, heard: Notify) -> Response:
        async for frame in self._parts.link.frames(response):
            if not frame.data:
                continue
            message = read_upstream(frame.data)
            if isinstance(message, Response):
                if message.id == rid:
                    return message
            elif isinstance(message, Notification):
                await heard(message)
            else:
                ctx.trace.event("upstream.invalid", rule="LM-META", detail="a request on a response stream")
        raise Interrupted("the upstream's stream ended before its answer")


async def _heard(ctx: Context, message: Notification) -> None:
    """Pass a notification of the open call on: progress under the client's own token, logs if asked for."""
    if ctx.notify is None:
        return
    if message.method == PROGRESS and ctx.progress_token is not None:
        with contextlib.suppress(RawJsonError):
            params = {**message.params, "progressToken": ctx.progress_token}
            await ctx.notify(Notification(message.method, params))
    elif message.method == LOGGED and reaches(message.params, ctx.log_level):
        await ctx.notify(message)
