"""One upstream session: what lives in it, requests over it, and the streams of it.

Every JSON-RPC id and progress token that leaves here is the shim's own (IDS): a server that sees one
twice on a session crosses answers.
"""

import asyncio
import contextlib
import dataclasses
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from msgspec.structs import replace

from shim.clock import Clock
from shim.hub import rawjson
from shim.hub.dialect import Dialect
from shim.hub.rawjson import Members
from shim.ledger.records import SessionRow
from shim.upstreams.authority import Authority
from shim.upstreams.base import Context, SessionEvents, SessionLost
from shim.upstreams.http import Link, odd_answer
from shim.upstreams.legacy.exchange import Exchange, Gone
from shim.upstreams.legacy.get_stream import GetStream
from shim.upstreams.legacy.hearing import Call, Hearing
from shim.upstreams.legacy.refusals import taken
from shim.wire.envelope import with_progress_token
from shim.wire.era import LEGACY_VERSIONS
from shim.wire.errors import UpstreamFault
from shim.wire.http import SESSION_ID
from shim.wire.ids import IdMaker
from shim.wire.jsonrpc import (
    Message,
    Notification,
    Response,
    write_notification,
    write_request,
)
from shim.wire.methods import CANCELLED
from shim.wire.tracing import traced

NO_SESSION = "no-session:"
"""Begins the name of a session with a server that gave it no id."""


@dataclass(slots=True)
class Parts:
    """What every session of one upstream shares."""

    link: Link
    ids: IdMaker
    authority: Authority
    events: SessionEvents
    clock: Clock
    dialect: Dialect | None = None
    """The dialect the server is known to speak."""
    announced: Callable[["LegacySession", Notification], Awaitable[None]] | None = None
    """Hears what the server announces on any session."""


class LegacySession:
    """A session with a legacy server, opened by the shim or (driven) by a client."""

    def __init__(self, parts: Parts, row: SessionRow) -> None:
        self.row = row
        self.id = row.session_id
        self.wire_id: str | None = None if row.session_id.startswith(NO_SESSION) else row.session_id
        """What goes into `Mcp-Session-Id`; None on a server that has no sessions."""
        self.init: Members = rawjson.members(row.init) if row.init else {}
        self.tasks: dict[str, int] = {}
        """Upstream task id -> ledger key of the tasks that live here."""
        self.reserved = 0
        """Creates under way."""
        self.leased = False
        """True while a call that may be asked something has the session to itself."""
        self.readers = 0
        self.lost = False
        self.idle_since_ms = parts.clock.now_ms()
        self._parts = parts
        self._exchange = Exchange(parts.link, parts.authority, self.wire_id, row.version)
        self._hearing = Hearing(self, parts.events, parts.dialect, parts.clock, self._announced)
        self._stream = GetStream(
            self.id[:8], parts.link, parts.authority, parts.clock,
            headers=self._exchange.headers, heard=self._heard, unheard=self._unheard,
        )  # fmt: skip
        self._level: str | None = None
        """The level of log messages that the server was asked for last."""

    @classmethod
    async def handshake(cls, parts: Parts, ctx: Context, params: Members) -> "LegacySession":
        """Initialize and give the session the server opened; nothing is stored yet.

        Raises Denied, NeverSent, Interrupted, UpstreamFault.
        """
        rid = parts.ids.next()
        name = f"{NO_SESSION}{rawjson.string(rid)}"
        blank = cls(parts, _blank(name))
        exchange, hear = blank._exchange, partial(blank._hearing.hear, ctx, task_pk=None, on_call=True)
        with parts.link.counting("initialize"):
            async with (
                parts.link.in_time(patient=False),
                await exchange.send(ctx, write_request(rid, "initialize", params), patient=False) as response,
            ):
                session_id = response.headers.get(SESSION_ID) or name
                try:
                    answer = await exchange.answer(ctx, response, rid, hear)
                except Gone:
                    parts.link.doubt("initialize was refused")
                    raise odd_answer(response) from None
        if answer.result is None:
            parts.link.doubt("initialize was refused")
            raise UpstreamFault("the upstream refused initialize")
        version = rawjson.string(rawjson.members(answer.result).get("protocolVersion"))
        if version not in LEGACY_VERSIONS:
            raise UpstreamFault(
                f"the upstream negotiated the unknown version {version!r}",
                recorded="the upstream negotiated an unknown version",
            )
        return cls(parts, replace(blank.row, session_id=session_id, version=version, init=answer.result))

    @classmethod
    def named(cls, parts: Parts, session_id: str) -> "LegacySession":
        """Give a session that only its id is known of."""
        return cls(parts, replace(_blank(session_id), version=LEGACY_VERSIONS[0]))

    @classmethod
    def without(cls, parts: Parts) -> "LegacySession":
        """Give what stands for a session with a server that has no handshake at all."""
        return cls(parts, _blank(f"{NO_SESSION}{rawjson.string(parts.ids.next())}"))

    @property
    def load(self) -> int:
        """Tasks that live here or are about to."""
        return len(self.tasks) + self.reserved

    def forget_tasks(self, ended: set[int]) -> None:
        """Take it that these tasks, by their ledger keys, live nowhere any more."""
        if not ended.isdisjoint(self.tasks.values()):
            self.tasks = {name: pk for name, pk in self.tasks.items() if pk not in ended}

    @property
    def free(self) -> bool:
        """True when nothing needs the session."""
        return not (self.load or self.leased or self.readers or self.lost)

    async def request(
        self,
        ctx: Context,
        method: str,
        params: Members,
        *,
        request_id: bytes | None = None,
        task_pk: int | None = None,
        patient: bool = False,
        reports: bool = False,
    ) -> Response:
        """Send a request and give its response; what else comes on its stream is taken up on the way.

        `patient` waits without a time limit (a tool may take hours); `reports` asks for progress if the
        client did (ML-PROGRESS). Raises Gone, Denied, NeverSent, Interrupted, UpstreamFault. When the
        caller leaves a patient call the server is told (ML-CLOSE).
        """
        rid = request_id or self._parts.ids.next()
        if reports and ctx.progress_token is not None:
            params = with_progress_token(params, rid)
        params, headers = traced(params, ctx.headers)
        sender = ctx if headers is ctx.headers else dataclasses.replace(ctx, headers=headers)
        self._hearing.calls[rid] = Call(ctx, task_pk, runs=reports)
        began = self._parts.clock.ticks_ms()
        try:
            with self._parts.link.counting(method) as counted:
                async with self._parts.link.in_time(patient=patient):
                    message = write_request(rid, method, params)
                    async with await self._exchange.send(sender, message, patient=patient) as response:
                        hear = partial(self._hearing.hear, ctx, task_pk=task_pk, on_call=task_pk is None)
                        answer = await self._exchange.answer(ctx, response, rid, hear)
                if answer.error is not None:
                    counted.outcome = "error"
                return answer
        except asyncio.CancelledError:
            if patient and task_pk is None:  # a tasks/result is called off by the one who opened it
                await asyncio.shield(asyncio.ensure_future(self.cancel_request(ctx, rid)))
            raise
        finally:
            ctx.trace.upstream_calls += 1
            ctx.trace.upstream_ms += self._parts.clock.ticks_ms() - began
            del self._hearing.calls[rid]
            self.idle_since_ms = self._parts.clock.now_ms()

    async def set_level(self, ctx: Context) -> None:
        """Let the server log what the client asked for, where it logs at all (ML-LOGGING).

        A refusal changes nothing, and is not asked for again. Raises Gone.
        """
        level = ctx.log_level
        if level is None or level == self._level or not self._logs:
            return
        with contextlib.suppress(UpstreamFault):
            await self.request(ctx, "logging/setLevel", {"level": rawjson.encode(level)})
            self._level = level

    @property
    def _logs(self) -> bool:
        said = rawjson.members(self.init.get("capabilities", b"{}")).get("logging", b"")
        return said[:1] == b"{"

    async def cancel_request(self, ctx: Context, request_id: bytes) -> None:
        """Tell the server that nobody waits for a request any more; failures change nothing."""
        await self.say(ctx, write_notification(CANCELLED, {"requestId": request_id}))

    async def say(self, ctx: Context, message: bytes) -> None:
        """Send a notification or a response; failures change nothing."""
        with contextlib.suppress(UpstreamFault, Gone):
            await self.post(ctx, message)

    async def give(self, ctx: Context, message: bytes) -> bool:
        """Send a response; False when it is not taken. Raises SessionLost, Denied, UpstreamFault."""
        try:
            return taken(await self.post(ctx, message))
        except Gone:
            raise SessionLost from None

    async def post(self, ctx: Context, message: bytes) -> int:
        """Send a notification or a response; give the HTTP status. Raises Gone, Denied, UpstreamFault."""
        return await self._exchange.post(ctx, message)

    async def delete(self, ctx: Context) -> None:
        """End the session on the server."""
        await self._exchange.delete(ctx)

    async def open_stream(self, ctx: Context) -> None:
        """Open the GET stream and return once its headers are in; keeps it open from then on (ML-STREAMS)."""
        if self.wire_id is not None:
            await self._stream.open(ctx)

    def drop(self) -> None:
        """Take it that the session will not be used again."""
        self._parts.link.drop(self.id)

    @property
    def listens(self) -> bool:
        """True while the server can say things of its own accord: it has a GET stream for the session."""
        return self.wire_id is not None and not (self._stream.refused or self.lost)

    async def stream_over(self) -> None:
        """Wait until the GET stream is not opened again by itself."""
        await self._stream.over()

    def lose(self) -> None:
        """Take it that the server forgot the session; nothing comes on its stream any more."""
        self.lost = True
        self._stream.lose()

    async def close(self) -> None:
        """Close the shim's own streams of the session; the server is told nothing."""
        self._hearing.close()
        await self._stream.close()

    def reports(self, token: bytes, upstream_task_id: str) -> None:
        """Note whose progress comes under a create's token from now on (ML-PROGRESS)."""
        self._hearing.reports(token, upstream_task_id)

    async def keep(self, upstream_task_id: str, pk: int) -> None:
        """Note a task that is in the ledger now and let the questions through that came before it."""
        self.tasks[upstream_task_id] = pk
        await self.release_held()

    async def release_held(self) -> None:
        """Let the questions through that waited for a create: matched now, or refused."""
        await self._hearing.release_held()

    async def _announced(self, message: Notification) -> None:
        if self._parts.announced is not None:
            await self._parts.announced(self, message)

    async def _unheard(self) -> None:
        """Tell that the stream stays closed until the caller comes with a credential."""
        for pk in list(self.tasks.values()):
            await self._parts.events.unheard(pk)

    async def _heard(self, ctx: Context, message: Message) -> None:
        """Take up what came on the GET stream."""
        await self._hearing.hear(ctx, message, None, on_call=False)


def _blank(name: str) -> SessionRow:
    return SessionRow(
        session_id=name, upstream="", caller="", caller_kind="none", side="pool", dialect=None,
        client_name="", client_version="", kinds=frozenset(), version="", init=b"", created_ms=0,
        used_ms=0, closed=False,
    )  # fmt: skip
