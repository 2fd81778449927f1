"""A sampled copy of a call goes to another upstream, and both answers are compared (SHADOW).

The client has its answer before a copy is thought of, and no copy waits where the client could notice.
"""

import asyncio
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache

import structlog

from shim.audit.events import ShadowCompared, Verdict
from shim.audit.trace import Trace
from shim.behind import SEP_2663
from shim.config import Config
from shim.hub import rawjson
from shim.hub.codec import read_create
from shim.hub.dialect import Dialect
from shim.hub.facts import CALL
from shim.hub.rawjson import Members
from shim.hub.status import TERMINAL
from shim.ledger.records import TaskRow
from shim.shadow.answers import as_legacy, as_modern, differing
from shim.shadow.compare import Difference, shown
from shim.shadow.copying import Asked, Copies, Ears
from shim.tasks.room import Room
from shim.upstreams.base import SessionEvents, Upstream
from shim.upstreams.broken import Denied
from shim.upstreams.faults import fault_of
from shim.wire.era import Era
from shim.wire.errors import UpstreamFault
from shim.wire.jsonrpc import Message, Request, Response, read_upstream
from shim.wire.modern import is_question

_KEYED = "DUR-3"
"""The rule of a call that its client wants to run once."""
_COPIED = ("name", "arguments")
"""All that a copy has of its call."""
_OF_ANSWERS = ("inputResponses", "requestState")
_REFUSED_MS = 60_000
"""How long a server is left alone that refused a copy for want of a credential."""
_TOLD = 20
"""Places of one call that are written down."""
_SMALL_BYTES = 16_384
"""Up to here comparing is quicker than handing it to a thread."""
_NAME_CHARS = 200
_UNTOLD = 1_000
"""Kinds of outcomes, by tool, after which they are told before their time."""

log = structlog.get_logger("shim.shadow")


@dataclass(slots=True)
class _Sample:
    """A call whose answer its client has."""

    params: Members
    tool: str
    target: str
    trace: Trace
    dialect: Dialect
    answer: bytes
    ended: Response | None = None
    """How the task ended that the answer was the handle of."""


class _Skipped(Exception):
    """There is nothing to compare; the reason says why."""


def is_named(tools: Sequence[str], tool: str) -> bool:
    """Tell whether the operator names a tool; one with a name that no server gives is never named."""
    return len(tool) <= _NAME_CHARS and _is_named(tools, tool)


@lru_cache(maxsize=4096)
def _is_named(tools: Sequence[str], tool: str) -> bool:
    return any(fnmatchcase(tool, one) for one in tools)


class Shadow:
    """Takes samples of the calls that pass, and deals with them in the background."""

    def __init__(
        self, config: Config, upstreams: Callable[[str], Upstream], names: Sequence[str],
        dialects: Mapping[str, Dialect], room: Room, *, chance: Callable[[], float] = random.random,
    ) -> None:  # fmt: skip
        self.counts: Counter[tuple[str, str]] = Counter()
        """What became of the samples, by target and outcome."""
        self._config = config
        self._upstreams = upstreams
        self._others = {name: next((one for one in names if one != name), name) for name in names}
        """The upstream beside each; with more than two the config names the one."""
        self._dialects = dialects
        self._room = room
        self._copies = Copies(room.sink, room.clock, lambda: config.tasks.default_poll_interval_ms)
        self._chance = chance
        self._queue: deque[_Sample] = deque()
        self._untold: Counter[tuple[str, str | None, str, Verdict, str | None]] = Counter()
        self._waiting: OrderedDict[int, _Sample] = OrderedDict()
        """Samples whose task has not ended, by its key."""
        self._workers = 0
        self._idle: list[asyncio.Future[None]] = []
        """Workers that have nothing to do."""
        self._refused: dict[str, float] = {}

    def ears(self, events: SessionEvents) -> Ears:
        """Give what hears the sessions of all upstreams; what is no copy's goes on to `events`."""
        return Ears(self._copies, events)

    def seen(self, routed: str, message: Message | None, trace: Trace, answer: bytes | None) -> None:
        """Take a call that was answered as a sample, or not. Costs next to nothing, and never raises."""
        settings, tool = self._config.cutover.shadow, trace.tool
        if not settings.tools or tool is None or answer is None or not isinstance(message, Request):
            return
        if not is_named(settings.tools, tool) or self._chance() * 100 >= settings.percent:
            return
        target, params = settings.upstream or self._others.get(routed, routed), message.params
        if target == routed or _KEYED in trace.rules or not params.keys().isdisjoint(_OF_ANSWERS):
            return
        if len(answer) + len(params.get("arguments", b"")) > settings.max_bytes:
            self._count(target, "too_large")
            return
        dialect = self._dialects[trace.dialect or SEP_2663]
        if message.method != CALL:
            params = dialect.read_create_request(params).params
        copied: Members = {name: params[name] for name in _COPIED if name in params}
        self._enqueue(_Sample(copied, tool, target, trace, dialect, answer))

    @property
    def busy(self) -> bool:
        """True while samples are dealt with or wait for it; tasks that have not ended are not counted."""
        return bool(self._queue) or self._workers > len(self._idle)

    def tell(self) -> None:
        """Write down what became of the samples since it was last told."""
        told, self._untold = self._untold, Counter()
        for (tool, upstream, other, outcome, reason), count in told.items():
            self._room.sink.emit(
                ShadowCompared(
                    upstream=upstream, tool=tool, other=other, outcome=outcome, reason=reason, count=count
                )
            )

    def _enqueue(self, sample: _Sample) -> None:
        settings = self._config.cutover.shadow
        if len(self._queue) >= settings.queue:
            self._count(sample.target, "dropped")
            return
        self._queue.append(sample)
        while self._idle:
            if not (idle := self._idle.pop()).done():
                idle.set_result(None)
                return
        if self._workers < settings.concurrency:
            self._workers += 1
            self._room.start(self._work(), "shadow")

    async def _work(self) -> None:
        """Deal with samples for as long as the shim runs, or until there are too many at it."""
        try:
            while self._workers <= self._config.cutover.shadow.concurrency:
                if self._queue:
                    await self._deal(self._queue.popleft())
                else:
                    self._idle.append(news := asyncio.get_running_loop().create_future())
                    await news
        finally:
            self._workers -= 1

    async def _deal(self, sample: _Sample) -> None:
        """Copy a call and compare; whatever goes wrong is a reason why there is nothing to compare."""
        try:
            found = await self._compared(sample)
        except _Skipped as exc:
            self._skip(sample, str(exc))
        except Asked:
            self._skip(sample, "asked")
        except TimeoutError:
            self._skip(sample, "timeout")
        except Denied:
            self._refused[sample.target] = self._room.clock.ticks_ms() + _REFUSED_MS
            self._skip(sample, "credential")
        except Exception as exc:
            if fault_of(exc) is None:
                log.exception("a shadow comparison failed", request_id=sample.trace.request_id)
            self._skip(sample, "failed")
        else:
            if found is not None:
                self._tell(sample, found)

    async def _compared(self, sample: _Sample) -> list[Difference] | None:
        """Give where the two answers differ; None for a task whose end is waited for."""
        settings = self._config.cutover.shadow
        routed = sample.ended or await self._answered(sample)
        if routed is None:
            return None
        if self._refused.get(sample.target, 0) > self._room.clock.ticks_ms():
            raise _Skipped("credential")
        async with asyncio.timeout(settings.timeout_ms / 1000):
            copied = await self._copies.run(
                self._upstreams(sample.target), sample.params, ttl_ms=2 * settings.timeout_ms
            )
        size = len(routed.result or b"") + len(copied.result or b"")
        if size > 2 * settings.max_bytes:
            raise _Skipped("too_large")
        fit = as_legacy if sample.trace.era == Era.LEGACY.value else as_modern
        ignored = tuple(settings.ignore)
        if size <= _SMALL_BYTES:
            return differing(routed, copied, fit, ignored)
        return await asyncio.to_thread(differing, routed, copied, fit, ignored)

    async def _answered(self, sample: _Sample) -> Response | None:
        """Read what the client got; None for the handle of a task that goes on. Raises Asked."""
        message = read_upstream(sample.answer)
        if not isinstance(message, Response):
            raise UpstreamFault("the call's last message is no answer")
        if message.result is None:
            return message
        if is_question(message.result):
            raise Asked
        if sample.dialect.fields.task_id.encode() not in message.result:
            return message
        made = read_create(sample.dialect, rawjson.members(message.result))
        if made is None:
            return message
        ledger, changes = self._room.ledger, self._room.changes
        row = (await ledger.lookup(sample.trace.caller or "", made.task.task_id)).row
        if row is None:
            raise _Skipped("lost")
        if len(self._waiting) >= self._config.cutover.shadow.queue:
            pk, oldest = self._waiting.popitem(last=False)
            changes.leave(pk)
            self._count(oldest.target, "dropped")
        self._waiting[row.pk] = sample
        changes.await_end(row.pk, self._ended)
        row = await ledger.own_task(row.pk)  # it may have ended before it was waited for
        if row.status in TERMINAL:
            changes.ended(row)
        return None

    def _ended(self, row: TaskRow) -> None:
        """Go on with the sample of a task that has ended."""
        sample = self._waiting.pop(row.pk)
        if row.result is None and row.error is None:
            self._skip(sample, "cancelled")
            return
        sample.ended, sample.answer = Response(None, row.result, row.error), b""
        self._enqueue(sample)

    def _tell(self, sample: _Sample, found: Sequence[Difference]) -> None:
        if not found:
            self._note(sample, "same")
            return
        self._note(sample, "different")
        tool, places = sample.tool[:_NAME_CHARS], Counter((shown(one.path), one.kind) for one in found)
        for (path, kind), count in places.most_common(_TOLD):
            sample.trace.event(
                "shadow.diff", tool=tool, other=sample.target, path=path, kind=kind, count=count
            )

    def _skip(self, sample: _Sample, reason: str) -> None:
        self._note(sample, "skipped", reason)

    def _note(self, sample: _Sample, outcome: Verdict, reason: str | None = None) -> None:
        self._count(sample.target, reason or outcome)
        self._untold[sample.tool[:_NAME_CHARS], sample.trace.upstream, sample.target, outcome, reason] += 1
        if len(self._untold) > _UNTOLD:
            self.tell()

    def _count(self, target: str, outcome: str) -> None:
        self.counts[target, outcome] += 1
