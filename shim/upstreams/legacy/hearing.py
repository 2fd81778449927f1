"""What a server says on a session of its own accord: questions, progress, status, logs (ML-INPUT)."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

from shim.clock import Clock
from shim.hub import rawjson
from shim.hub.codec import SECTION_1
from shim.hub.dialect import Dialect
from shim.hub.facts import UPDATED
from shim.hub.rawjson import Members
from shim.recent import Recent
from shim.upstreams.base import Asking, Context, Notify, Question, SessionEvents
from shim.wire import methods
from shim.wire.envelope import related_task_of, without_related_task
from shim.wire.jsonrpc import Notification, Request, Response, write_error, write_result
from shim.wire.loglevels import reaches
from shim.wire.subscriptions import ANNOUNCED

CREATE_MS = 1_000
"""How long a question waits for the create that is under way: then it is one of the create itself."""
_HELD_AT_MOST = 100
"""Questions of one session that wait for a create; another is taken for what it seems to be now."""
_ANNOUNCED = 1_000
"""Questions of one session that were announced and have not come."""


@dataclass(slots=True)
class Call:
    """A request under way: who is told of its progress, and (`runs`) may be asked something."""

    ctx: Context
    task_pk: int | None
    runs: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class _Held:
    """A question that came while a create was under way."""

    ctx: Context
    request: Request
    task_pk: int | None


class Host(Protocol):
    """What the hearing knows of its session."""

    id: str
    tasks: dict[str, int]
    reserved: int
    leased: bool

    async def say(self, ctx: Context, message: bytes) -> None:
        """Send a notification or a response; failures change nothing."""

    async def give(self, ctx: Context, message: bytes) -> bool:
        """Send a response; False when it is not taken. Raises SessionLost, Denied, UpstreamFault."""


class Hearing:
    """Takes up what one session's server says, and tells the tasks room what concerns a task."""

    def __init__(
        self, host: Host, events: SessionEvents, dialect: Dialect | None, clock: Clock, announced: Notify
    ) -> None:
        self.calls: dict[bytes, Call] = {}
        """The requests under way, by id, which is their progress token too."""
        self._host = host
        self._events = events
        self._dialect = dialect
        self._clock = clock
        self._announced_change = announced
        self._held: dict[_Held, asyncio.Task[None] | None] = {}
        """The questions that wait for a create, each with what lets it through if that takes long."""
        self._reporting: dict[bytes, str] = {}
        """Progress token -> the upstream id of the task whose create had it."""
        self._announced: Recent[bytes, int] = Recent(_ANNOUNCED)
        """Request id -> task, as a status notification named it before the request came."""

    async def hear(
        self,
        ctx: Context,
        message: Request | Notification | Response,
        task_pk: int | None,
        *,
        on_call: bool,
    ) -> None:
        """Take up what the server says besides the answer that is waited for.

        `task_pk` is the task whose stream it comes on; `on_call` says that it comes on that of a call.
        """
        if isinstance(message, Response):
            return  # an answer to a request that was given up
        if isinstance(message, Request):
            await self._heard_request(ctx, message, task_pk, on_call=on_call)
            return
        dialect = self._dialect
        if dialect is not None and message.method in {UPDATED, dialect.methods.status_notification}:
            if message.method == UPDATED:
                ctx.trace.lenient(SECTION_1, UPDATED)
            await self._heard_status(message, dialect)
            return
        match message.method:
            case methods.PROGRESS:
                await self._heard_progress(message)
            case methods.LOGGED:
                await self._heard_log(message, ctx if on_call else None)
            case methods.CANCELLED:
                await self._withdrawn(message.params.get("requestId", b""))
            case method if method in ANNOUNCED:
                await self._announced_change(message)

    def reports(self, token: bytes, upstream_task_id: str) -> None:
        """Note whose progress comes under a create's token; those of tasks that ended are forgotten."""
        if self._host.reserved <= 1:  # no other create is on its way into the ledger
            living = self._host.tasks
            self._reporting = {one: named for one, named in self._reporting.items() if named in living}
        self._reporting[token] = upstream_task_id

    async def release_held(self) -> None:
        """Let the questions through that waited for a create: matched now, or refused."""
        held, self._held = self._held, {}
        for one, patience in held.items():
            if patience is not None:
                patience.cancel()
            await self._question(one.ctx, one.request, one.task_pk, on_call=False)

    def close(self) -> None:
        """Let nothing through any more."""
        for patience in self._held.values():
            if patience is not None:
                patience.cancel()
        self._held = {}

    async def _heard_request(
        self, ctx: Context, request: Request, task_pk: int | None, *, on_call: bool
    ) -> None:
        related = related_task_of(request.params)
        if request.method == "ping":
            await self._host.say(ctx, write_result(request.id, b"{}"))
        elif (
            self._host.reserved
            and related not in self._host.tasks
            and not (on_call and related is None)
            and len(self._held) < _HELD_AT_MOST
        ):
            # the server asked before it answered the create: wait until the task is in the ledger; one
            # that the create itself asks is not held, the server may answer the create only after it
            held = _Held(ctx, request, task_pk)
            waits_long = related is None and task_pk is None
            self._held[held] = asyncio.create_task(self._let_through(held)) if waits_long else None
        else:
            await self._question(ctx, request, task_pk, on_call=on_call)

    async def _let_through(self, held: _Held) -> None:
        """Take a question for the create's own when that takes long, if it can be no other's."""
        await self._clock.sleep_ms(CREATE_MS)
        if not self._host.tasks and self._asked_call() is not None and held in self._held:
            del self._held[held]
            await self._question(held.ctx, held.request, held.task_pk, on_call=False)

    async def _question(self, ctx: Context, request: Request, task_pk: int | None, *, on_call: bool) -> None:
        async def refuse(code: int, message: str) -> None:
            await self._host.say(ctx, write_error(request.id, code, message))

        async def answer(by: Context, result: bytes) -> bool:
            return await self._host.give(by, write_result(request.id, result))

        pk = self._owner(request, task_pk, on_call=on_call)
        question = Question(request, self._host.id, pk, refuse, answer)
        asked = None
        if pk is None and related_task_of(request.params) is None:
            asked = ctx.asking if on_call else self._asked_call()
        await (self._events if asked is None else asked).question(question)

    async def _withdrawn(self, request_id: bytes) -> None:
        """Forget a question that the server calls off, wherever it waits (ML-INPUT, ML-MRTR)."""
        for held in [one for one in self._held if one.request.id == request_id]:
            patience = self._held.pop(held)
            if patience is not None:
                patience.cancel()
        self._announced.pop(request_id, None)
        for call in self.calls.values():
            if call.ctx.asking is not None:
                call.ctx.asking.withdrawn(request_id)
        await self._events.withdrawn(self._host.id, request_id)

    def _owner(self, request: Request, task_pk: int | None, *, on_call: bool) -> int | None:
        """Match a question to a task: by related-task, announcement, its stream, or being the only one."""
        related = related_task_of(request.params)
        if related is not None:
            return self._host.tasks.get(related)
        if (announced := self._announced.pop(request.id, None)) is not None:
            return announced
        if task_pk is not None:
            return task_pk
        return None if self._host.leased or on_call else self._only_task()

    def _asked_call(self) -> Asking | None:
        """Give the one call of the session that may be asked something; of several none can be told."""
        asked = [call.ctx.asking for call in self.calls.values() if call.runs]
        return asked[0] if len(asked) == 1 else None

    def _only_task(self) -> int | None:
        tasks = self._host.tasks
        return next(iter(tasks.values())) if len(tasks) == 1 else None

    async def _heard_status(self, message: Notification, dialect: Dialect) -> None:
        task_id = dialect.named(message.params) or related_task_of(message.params)
        pk = self._host.tasks.get(task_id or "")
        if pk is None:
            return
        for request_id in _announced_requests(message.params):
            self._announced[request_id] = pk
        await self._events.status(pk)

    async def _heard_progress(self, message: Notification) -> None:
        token = message.params.get("progressToken", b"")
        call = self.calls.get(token)
        if call is None:
            text = rawjson.string(message.params.get("message"))
            task_id = self._reporting.get(token) or related_task_of(message.params)
            pk = self._only_task() if task_id is None else self._host.tasks.get(task_id)
            if text and pk is not None:
                await self._events.progress(pk, text)
        elif call.ctx.notify is not None and call.ctx.progress_token is not None:
            params = {**message.params, "progressToken": call.ctx.progress_token}
            await call.ctx.notify(Notification(message.method, without_related_task(params)))

    async def _heard_log(self, message: Notification, ctx: Context | None) -> None:
        """Pass a log message on to the call it is about, if that asked for it (ML-LOGGING).

        On another stream than a call's own it is taken for that of the one call which has the session.
        """
        if related_task_of(message.params) is not None:
            return  # of a task nothing is logged
        if ctx is None and self._host.leased:
            asking = [call.ctx for call in self.calls.values() if call.ctx.log_level is not None]
            ctx = asking[0] if len(asking) == 1 else None
        if ctx is not None and ctx.notify is not None and reaches(message.params, ctx.log_level):
            await ctx.notify(message)


def _announced_requests(params: Members) -> list[bytes]:
    """Find the request id that a status notification names, wherever in its `_meta` the server put it."""
    meta = params.get("_meta")
    if meta is None or b"equestId" not in meta:
        return []
    found: list[bytes] = []
    pending = [rawjson.decode(meta)]
    while pending:
        value = pending.pop()
        if isinstance(value, dict):
            pending.extend(value.values())
            found.extend(
                rawjson.encode(value[key]) for key in ("requestId", "elicitationRequestId") if key in value
            )
    return found
