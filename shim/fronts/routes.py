"""Which upstream's front serves a request: that of its session or task, else where the cutover sends it."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Protocol

from aiohttp import web

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
from shim.tasks.parked import ParkedCalls
from shim.upstreams.base import Context, Upstream
from shim.wire.envelope import META_CLIENT_INFO
from shim.wire.era import Era
from shim.wire.errors import unknown_session
from shim.wire.jsonrpc import Message, Response


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

    fronts: Mapping[Era, Front]
    forwarded: tuple[str, ...]
    """The request headers that are passed on to it."""


class Routes:
    """Finds a request's upstream. Tasks, sessions and parked calls stay with the one that made them."""

    def __init__(
        self, config: Config, standings: Mapping[str, Standing], dialects: Mapping[str, Dialect],
        ledger: Ledger, parked: ParkedCalls,
    ) -> None:  # fmt: skip
        self._config = config
        self._standings = standings
        self._ledger = ledger
        self._parked = parked
        self._only = next(iter(standings.values())) if len(standings) == 1 else None
        self._by_task = {
            method: dialect.fields.task_id
            for dialect in dialects.values()
            for method in dialect.methods.names()
        }
        self._creates = {str(one.methods.create) for one in dialects.values() if one.methods.create} | {CALL}

    async def of(self, era: Era, caller: Caller, message: Message | None, session_id: str | None) -> Standing:
        """Give the upstream that serves a request; whether it may be served is for its front to say."""
        if self._only is not None:
            return self._only
        bound = await self._bound(caller, message, session_id)
        if bound is None or bound not in self._standings:
            bound = self._chosen(era, caller, message)
        return self._standings[bound]

    async def _bound(self, caller: Caller, message: Message | None, session_id: str | None) -> str | None:
        if session_id is not None:
            session = await self._ledger.session_of(caller.key, session_id)
            if session is None:
                return None
            await self._drained(session)
            return session.upstream
        if message is None or isinstance(message, Response):
            return None
        task_id = rawjson.string(message.params.get(self._by_task.get(message.method, "")))
        if task_id is None:
            state = rawjson.string(message.params.get("requestState"))
            return self._parked.where(caller, state) if state is not None else None
        row = (await self._ledger.lookup(caller.key, task_id)).row
        return row.upstream if row is not None else None

    async def _drained(self, session: SessionRow) -> None:
        """End a session of an upstream that is drained, once it has no open task. Raises ClientFault."""
        if session.upstream not in self._config.cutover.drain or session.closed:
            return
        if await self._ledger.has_open_tasks(session.caller, session.session_id):
            return
        await self._ledger.close_session(session.session_id)
        raise unknown_session()

    def _chosen(self, era: Era, caller: Caller, message: Message | None) -> str:
        cutover = self._config.cutover
        default = cutover.default or next(iter(self._standings))
        params = {} if message is None or isinstance(message, Response) else message.params
        calls = not isinstance(message, Response) and message is not None and message.method in self._creates
        asker = Asker(
            caller.key, caller.kind, caller.label, _client(params), era.value,
            tool=rawjson.string(params.get("name")) if calls else None,
        )  # fmt: skip
        return choose(_parsed(cutover.rules), default, asker)


def _client(params: Mapping[str, bytes]) -> str:
    """Give the name a client states: in an initialize, or in a modern request's `_meta`."""
    info = params.get("clientInfo")
    if info is None:
        info = rawjson.object_or_empty(params.get("_meta")).get(META_CLIENT_INFO)
    return rawjson.string(rawjson.object_or_empty(info).get("name")) or "unknown"


@lru_cache(maxsize=16)
def _parsed(rules: tuple[str, ...]) -> tuple[Rule, ...]:
    return tuple(map(parse_rule, rules))
