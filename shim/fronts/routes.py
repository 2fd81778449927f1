"""Which upstream's front serves a request: that of its session or task, else where the cutover sends it.

Rules CUTOVER-RULES, -STAY, -TOOL, -FALLBACK and -DRAIN. With one upstream all of it is for that one.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Protocol

import msgspec
from aiohttp import web
from msgspec.structs import replace

from shim.callers.caller import Caller
from shim.config import Config
from shim.config.routing import Rule, parse_rule
from shim.cutover import Asker, choose
from shim.fronts.reply import Reply
from shim.hub import rawjson
from shim.hub.dialect import Dialect
from shim.hub.facts import CALL
from shim.ledger.protocol import Ledger
from shim.ledger.records import SessionRow
from shim.tasks.origin import Origins
from shim.upstreams.base import Context, Upstream
from shim.wire.envelope import META_CLIENT_INFO
from shim.wire.era import Era
from shim.wire.errors import unknown_session
from shim.wire.jsonrpc import Message, Notification, Request, Response
from shim.wire.methods import CANCELLED

_NOTHING = contextlib.nullcontext()


class Front(Protocol):
    """Serves the clients of one era in front of one upstream."""

    upstream: Upstream

    async def handle(
        self, http: web.BaseRequest, message: Message | None, ctx: Context, reply: Reply,
        *, pinned: str | None,
    ) -> web.StreamResponse:  # fmt: skip
        """Answer one exchange; `message` is None for GET and DELETE. Raises ShimError."""


class Standing(Protocol):
    """One upstream as requests see it."""

    name: str
    fronts: Mapping[Era, Front]
    forwarded: tuple[str, ...]
    """The request headers that are passed on to it."""

    @property
    def up(self) -> bool:
        """Whether it can be reached, as far as that is known."""

    async def learn(self, ctx: Context) -> None:
        """Find out what it speaks as part of a caller's request, where only a caller is told."""

    async def has_tool(self, http: web.BaseRequest, caller: Caller, tool: str) -> bool | None:
        """Tell whether it lists a tool; None where it cannot be asked."""


class Arrival(msgspec.Struct, frozen=True):
    """One request, as far as it is known before anybody serves it."""

    http: web.BaseRequest
    message: Message | None
    era: Era
    caller: Caller
    session_id: str | None


class Way(msgspec.Struct, frozen=True):
    """Where a request goes."""

    standing: Standing
    message: Message | None
    """The request as that upstream knows it."""
    fallback: Standing | None = None
    """Where it goes instead when nothing of it could be sent."""
    wanted: str | None = None
    """The upstream that the rules name, where the request goes to another one."""
    reason: str = ""
    """Why it goes elsewhere: the named upstream is `down` or lacks the `tool`, or a `rule` names the tool of
    a call in a session of another upstream."""


class Routes:
    """Finds a request's upstream. What was begun stays with the one that it was begun with."""

    def __init__(
        self, config: Config, standings: Mapping[str, Standing], dialects: Mapping[str, Dialect],
        ledger: Ledger, origins: Origins,
    ) -> None:  # fmt: skip
        self._config = config
        self._standings = standings
        self._ledger = ledger
        self._origins = origins
        self._only = next(iter(standings.values())) if len(standings) == 1 else None
        self._by_task = {
            method: dialect.fields.task_id
            for dialect in dialects.values()
            for method in dialect.methods.names()
        }
        self._creates = {str(one.methods.create) for one in dialects.values() if one.methods.create} | {CALL}
        self._busy: Counter[str] = Counter()
        self._away: dict[tuple[str, bytes], Standing] = {}

    async def of(self, arrival: Arrival) -> Way:
        """Give the upstream that serves a request; whether it may be served is for its front to say."""
        message, caller = arrival.message, arrival.caller
        if isinstance(message, Request) and arrival.session_id is None:
            named = self._origins.read(caller, message.method, message.params)
            if named is not None:
                message = replace(message, params=named[1])
                if (giver := self._standings.get(named[0])) is not None:
                    return Way(giver, message)
        if self._only is not None:
            return Way(self._only, message)
        if arrival.session_id is not None:
            session = await self._ledger.session_of(caller.key, arrival.session_id)
            home = self._standings.get(session.upstream) if session is not None else None
            if session is not None and home is not None:
                await self._drained(session, caller)
                return await self._in_session(arrival, home, session.client_name)
        bound = await self._of_task(caller, message)
        if bound is not None:
            return Way(bound, message)
        return await self._placed(arrival, message, self._rule(arrival, _client(message)))

    def under_way(self, arrival: Arrival, way: Way) -> contextlib.AbstractContextManager[None]:
        """Note a session's request while it runs: the session is not drained, and a cancellation finds it."""
        session_id, message = arrival.session_id, arrival.message
        if self._only is not None or session_id is None or not isinstance(message, Request):
            return _NOTHING
        return self._noted(session_id, message, way)

    @contextlib.contextmanager
    def _noted(self, session_id: str, message: Request, way: Way) -> Iterator[None]:
        called = (session_id, message.id)
        self._busy[session_id] += 1
        if way.reason:
            self._away[called] = way.standing
        try:
            yield
        finally:
            self._away.pop(called, None)
            self._busy[session_id] -= 1
            if not self._busy[session_id]:
                del self._busy[session_id]

    def idle(self, session: SessionRow, label: str | None) -> bool:
        """Tell whether a session can end: nothing is under way, and a new one would be elsewhere."""
        if session.session_id in self._busy:
            return False
        rule = self._choose(
            Asker(session.caller, session.caller_kind, label, session.client_name, Era.LEGACY.value)
        )
        home = session.upstream
        return rule.upstream != home and (rule.fallback != home or self._standings[rule.upstream].up)

    async def _drained(self, session: SessionRow, caller: Caller) -> None:
        """End a session of an upstream that is drained, once it has nothing to do. Raises ClientFault."""
        if session.upstream not in self._config.cutover.drain or session.closed:
            return
        if not self.idle(session, caller.label):
            return
        if await self._ledger.has_open_tasks(session.caller, session.session_id):
            return
        await self._ledger.close_session(session.session_id)
        raise unknown_session()

    async def _in_session(self, arrival: Arrival, home: Standing, client: str) -> Way:
        """Stay with the session's upstream, but for calls of tools that a rule names or that it lacks."""
        message = arrival.message
        if isinstance(message, Notification) and message.method == CANCELLED:
            called = (arrival.session_id or "", message.params.get("requestId", b""))
            return Way(self._away.get(called, home), message)
        if self._tool(message) is None:
            return Way(home, message)
        rule = self._rule(arrival, client)
        if rule.tool is None:
            rule = Rule(home.name)
        way = await self._placed(arrival, message, rule)
        if way.standing is home or way.reason:
            return way
        return Way(way.standing, way.message, way.fallback, reason="rule")

    async def _of_task(self, caller: Caller, message: Message | None) -> Standing | None:
        if message is None or isinstance(message, Response):
            return None
        task_id = rawjson.string(message.params.get(self._by_task.get(message.method, "")))
        row = (await self._ledger.lookup(caller.key, task_id)).row if task_id is not None else None
        return self._standings.get(row.upstream) if row is not None else None

    def _rule(self, arrival: Arrival, client: str) -> Rule:
        caller = arrival.caller
        return self._choose(
            Asker(
                caller.key, caller.kind, caller.label, client, arrival.era.value,
                tool=self._tool(arrival.message),
            )
        )  # fmt: skip

    def _choose(self, asker: Asker) -> Rule:
        cutover = self._config.cutover
        default = Rule(cutover.default_of(self._standings), fallback=cutover.fallback or None)
        return choose(parsed(cutover.rules), default, asker)

    async def _placed(self, arrival: Arrival, message: Message | None, rule: Rule) -> Way:
        """Give where a rule sends a request, and where it goes if that is down or lacks the tool."""
        wanted = self._standings[rule.upstream]
        fallback = self._standings[rule.fallback] if rule.fallback is not None else None
        if fallback is not None and not fallback.up:
            fallback = None
        tool = self._tool(message)
        if tool is not None and wanted.up and await self._lacks(wanted, arrival, tool):
            for one in self._standings.values():
                if one is not wanted and one.up and await one.has_tool(arrival.http, arrival.caller, tool):
                    return Way(one, message, wanted=wanted.name, reason="tool")
        if not wanted.up and fallback is not None:
            return Way(fallback, message, wanted=wanted.name, reason="down")
        return Way(wanted, message, fallback)

    async def _lacks(self, one: Standing, arrival: Arrival, tool: str) -> bool:
        return await one.has_tool(arrival.http, arrival.caller, tool) is False

    def _tool(self, message: Message | None) -> str | None:
        """Give the tool that a request calls."""
        if not isinstance(message, Request) or message.method not in self._creates:
            return None
        return rawjson.string(message.params.get("name"))


def _client(message: Message | None) -> str:
    """Give the name a client states: in an initialize, or in a modern request's `_meta`."""
    params = {} if message is None or isinstance(message, Response) else message.params
    info = params.get("clientInfo")
    if info is None:
        info = rawjson.object_or_empty(params.get("_meta")).get(META_CLIENT_INFO)
    return rawjson.string(rawjson.object_or_empty(info).get("name")) or "unknown"


@lru_cache(maxsize=16)
def parsed(rules: tuple[str, ...]) -> tuple[Rule, ...]:
    """Read the rules of a config, which were checked."""
    return tuple(map(parse_rule, rules))
