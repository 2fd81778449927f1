"""`subscriptions/listen` of a modern client, answered by the shim itself (ML-LISTEN).

First comes what is honoured, then each task as it is, then one message for every change: of the caller's own
tasks, and of what the server announces. What waits for the client is kept once: a second change of one thing
takes the place of the first.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from aiohttp import web

from shim.clock import Clock
from shim.config import Config
from shim.fronts.following import Following
from shim.fronts.open_streams import Held, OpenStreams
from shim.fronts.reply import Reply, SlowReader
from shim.fronts.vouching import Vouching
from shim.hub import rawjson
from shim.hub.codec import SECTION_1, write_task
from shim.hub.dialect import Dialect
from shim.hub.rawjson import Members
from shim.tasks.service import Tasks
from shim.upstreams.base import Context, Upstream
from shim.wire.budget import KEY as BUFFERS
from shim.wire.budget import Holding
from shim.wire.envelope import ModernMeta, strip_related_task
from shim.wire.errors import ClientFault, UpstreamFault, invalid_params, missing_capability
from shim.wire.jsonrpc import Notification, Request, write_notification, write_result
from shim.wire.methods import CANCELLED
from shim.wire.subscriptions import (
    ACKNOWLEDGED,
    EVERY_TASK,
    FILTER,
    LIST_OF,
    RESOURCE_UPDATED,
    Wanted,
    listen_result,
    read_filter,
    tagged,
    write_filter,
)


@dataclass(slots=True)
class _News:
    """What the server announced and the client was not told yet."""

    wanted: Wanted
    at_most: int
    wake: asyncio.Event
    held: Holding
    honoured: Wanted | None = None
    """What the server honours, once it said so."""
    over: bool = False
    """True once the server has ended what it honoured."""
    due: bool = False
    """True when it is time for a comment."""
    overflown: str | None = None
    """The bound that what was announced is beyond, once it is."""
    waiting: dict[tuple[str, str | None], Notification] = field(default_factory=dict)
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once the server has said what it honours, or has ended."""

    async def hear(self, message: Notification) -> None:
        """Take up what the server says."""
        if message.method == ACKNOWLEDGED:
            try:
                said = read_filter(message.params)
            except ClientFault as exc:
                raise UpstreamFault("the upstream's acknowledgement cannot be read") from exc
            given = frozenset(said.uris)
            uris = [uri for uri in self.wanted.uris if uri in given]
            self.honoured = Wanted(said.lists & self.wanted.lists, uris)
            self.waiting = {key: one for key, one in self.waiting.items() if self._is_wanted(one.method)}
            self.settled.set()
        elif self._is_wanted(message.method):
            key = (message.method, rawjson.string(message.params.get("uri")))
            if key in self.waiting:
                self.held.count(-_size(self.waiting.pop(key)))
            if len(self.waiting) >= self.at_most:
                self.overflown = "limits.queue_per_stream"
            elif not self.held.fits(_size(message)):
                self.overflown = BUFFERS
            else:
                self.waiting[key] = message
            self.wake.set()

    def ended(self, work: "asyncio.Task[bool]") -> None:
        """Note that the server ended it; how is asked of `work`."""
        self.over = self.honoured is not None and self.honoured.announces
        if not work.cancelled():
            work.exception()
        self.settled.set()
        self.wake.set()

    async def tick(self, clock: Clock, every_ms: float) -> None:
        """Let a comment be due again and again."""
        while True:
            await clock.sleep_ms(every_ms)
            self.due = True
            self.wake.set()

    def _is_wanted(self, method: str) -> bool:
        asked = self.honoured or self.wanted
        return LIST_OF.get(method) in asked.lists or (method == RESOURCE_UPDATED and bool(asked.uris))


class Subscriptions:
    """Serves subscriptions in front of one upstream."""

    def __init__(
        self, config: Config, upstream: Upstream, tasks: Tasks, dialect: Dialect, vouching: Vouching,
        streams: OpenStreams,
    ) -> None:  # fmt: skip
        self._config = config
        self._upstream = upstream
        self._tasks = tasks
        self._dialect = dialect
        self._vouching = vouching
        self._streams = streams

    async def serve(
        self, request: Request, meta: ModernMeta, ctx: Context, reply: Reply
    ) -> web.StreamResponse:
        """Send until the client leaves, the server ends it or the shim stops. Raises ShimError."""
        ctx.trace.rule("ML-LISTEN")
        wanted = self._read(request.params, meta, ctx)
        ctx.notify = None  # what the server logs or reports does not belong here
        wake = asyncio.Event()
        with self._streams.opening(ctx.caller, wake) as held, self._tasks.room.budget.holding() as buffer:
            await self._vouching.ensure(ctx)
            news = _News(wanted, self._config.limits.queue_per_stream, wake, buffer)
            following = Following(self._tasks, ctx, wake.set)
            async with contextlib.AsyncExitStack() as stack:
                stack.callback(following.close)
                if wanted.announces:
                    await stack.enter_async_context(self._announced(ctx, news))
                task_ids = await self._follow(wanted, ctx, following, stack)
                honoured = news.honoured or Wanted()
                body = {FILTER: write_filter(honoured.lists, honoured.uris, task_ids)}
                await reply.event(write_notification(ACKNOWLEDGED, tagged(body, request.id)))
                every = wanted.every_task and task_ids is not None
                if honoured.announces or task_ids or every:
                    ticking = news.tick(self._tasks.room.clock, self._config.modern.keepalive_ms)
                    stack.callback(asyncio.create_task(ticking, name="keep a subscription alive").cancel)
                    await self._run(request.id, held, news, following, reply)
        return await reply.send(write_result(request.id, listen_result(request.id)))

    def _read(self, params: Members, meta: ModernMeta, ctx: Context) -> Wanted:
        """Give what is asked for, if it may be. Raises ClientFault."""
        wanted = read_filter(params)
        if wanted.named:
            ctx.trace.lenient(SECTION_1, "subscriptions/listen: a list of names")
        if wanted.tasks and not meta.declares_tasks:
            ctx.trace.rule("ML-UNDECLARED")
            raise missing_capability()
        if wanted.count() > (at_most := self._config.limits.subscriptions_per_stream):
            raise invalid_params(
                f"params.{FILTER}: names more than limits.subscriptions_per_stream = {at_most}",
                limit="limits.subscriptions_per_stream",
            )
        return wanted

    async def _follow(
        self, wanted: Wanted, ctx: Context, following: Following, stack: contextlib.AsyncExitStack
    ) -> list[str] | None:
        """Begin to follow the tasks; gives the ids of those that are, None where none were asked for."""
        if wanted.every_task:
            if ctx.caller.kind == "none":  # equals nobody: no task is known to be its own (OWN-NONE)
                return None
            stack.enter_context(following.expecting())
            rows = await following.every()
        elif wanted.task_ids is not None:
            rows = await following.own(wanted.task_ids)
        else:
            return None
        for row in rows:
            following.follow(row)
        return [row.task_id for row in rows]

    @contextlib.asynccontextmanager
    async def _announced(self, ctx: Context, news: _News) -> AsyncIterator[None]:
        """Listen at the server while the block runs, which begins when it has said what it honours."""
        wanted = {FILTER: write_filter(news.wanted.lists, news.wanted.uris)}
        work = asyncio.create_task(self._listen(ctx, wanted, news), name="listen")
        work.add_done_callback(news.ended)
        try:
            await news.settled.wait()
            if news.honoured is None and work.done():
                work.result()
            yield
        finally:
            work.cancel()
            await asyncio.wait([work])

    async def _listen(self, ctx: Context, wanted: Members, news: _News) -> bool:
        return await self._upstream.listen(ctx, wanted, news.hear)

    async def _run(
        self, listen_id: bytes, held: Held, news: _News, following: Following, reply: Reply
    ) -> None:
        """Say what is new until the subscription is over."""
        while True:
            news.wake.clear()
            async for task in following.news():
                params = tagged(rawjson.members(write_task(self._dialect, task)), listen_id)
                await reply.event(write_notification(EVERY_TASK, params))
            if news.overflown is not None:
                self._tasks.room.sink.reached[news.overflown] += 1
                raise SlowReader("more is announced than the client reads")
            while news.waiting:
                message = news.waiting.pop(next(iter(news.waiting)))
                news.held.count(-_size(message))
                params = rawjson.members(strip_related_task(rawjson.join(message.params)))
                await reply.event(write_notification(message.method, tagged(params, listen_id)))
            if self._streams.stopping:
                await call_off(listen_id, reply)
                return
            if held.expired or (news.over and not news.waiting):
                return
            if news.due:
                news.due = False
                await reply.comment()
            await news.wake.wait()


def _size(message: Notification) -> int:
    return sum(map(len, message.params.values()))


async def call_off(listen_id: bytes, reply: Reply) -> None:
    """Tell a client that its subscription ends with the shim; the result comes after it."""
    reason: Members = {"requestId": listen_id, "reason": b'"the server is stopping"'}
    await reply.event(write_notification(CANCELLED, tagged(reason, listen_id)))
