"""What the shim itself answers on the sessions it serves: the handshake, levels, subscriptions (LM-LOCAL)."""

from collections.abc import Mapping

from aiohttp import web

from shim.config import Config
from shim.fronts.hosted.sessions import HostedSessions
from shim.fronts.hosted.streams import Streams
from shim.fronts.hosted.verbs import Handler
from shim.fronts.legacy_request import Asked
from shim.fronts.sessions import ClientSessions
from shim.hub import rawjson
from shim.tasks.promote import offers_tasks
from shim.upstreams.base import Upstream
from shim.wire.errors import invalid_params
from shim.wire.hosting import initialize_result
from shim.wire.http import SESSION_ID
from shim.wire.jsonrpc import write_result

_EMPTY = b"{}"


class LocalMethods:
    """Serves the methods that no modern server has."""

    def __init__(
        self, config: Config, upstream: Upstream, sessions: ClientSessions, hosted: HostedSessions,
        streams: Streams,
    ) -> None:  # fmt: skip
        self._config = config
        self._upstream = upstream
        self._sessions = sessions
        self._hosted = hosted
        self._streams = streams
        self.stored: Mapping[str, Handler] = {
            "initialize": self._initialize,
            "logging/setLevel": self._set_level,
            "resources/subscribe": self._subscribe,
            "resources/unsubscribe": self._unsubscribe,
        }
        """Those that read or write the ledger: no server judges the credential on the way (OWN-VOUCH)."""
        self.handlers: Mapping[str, Handler] = {**self.stored, "ping": self._ping}

    async def _initialize(self, asked: Asked) -> web.StreamResponse:
        ctx, params = asked.ctx, asked.message.params
        ctx.trace.rule("LM-INIT")
        await self._sessions.room_for_one_more(ctx)
        self._sessions.fill(ctx, params)
        facts = await self._upstream.facts(ctx)
        tasks = offers_tasks(self._config, facts) and asked.dialect.lists_task_support
        version = rawjson.string(params.get("protocolVersion"))
        init = initialize_result(facts.init, version, name=self._upstream.name, tasks=tasks)
        session_id = await self._hosted.open(ctx, init, asked.dialect)
        asked.reply.add_header(SESSION_ID, session_id)
        return await _say(asked, init)

    async def _ping(self, asked: Asked) -> web.StreamResponse:
        return await _say(asked, _EMPTY)

    async def _set_level(self, asked: Asked) -> web.StreamResponse:
        await self._hosted.set_level(asked.session, rawjson.string(asked.message.params.get("level")))
        return await _say(asked, _EMPTY)

    async def _subscribe(self, asked: Asked) -> web.StreamResponse:
        return await self._subscribed(asked, on=True)

    async def _unsubscribe(self, asked: Asked) -> web.StreamResponse:
        return await self._subscribed(asked, on=False)

    async def _subscribed(self, asked: Asked, *, on: bool) -> web.StreamResponse:
        asked.ctx.trace.rule("LM-LOCAL")
        uri = rawjson.string(asked.message.params.get("uri"))
        if uri is None:
            raise invalid_params("params.uri: expected a string")
        await self._hosted.subscribe(asked.session, uri, on=on)
        if asked.session is not None:
            self._streams.ask_anew(asked.session.session_id)
        return await _say(asked, _EMPTY)


async def _say(asked: Asked, result: bytes) -> web.StreamResponse:
    return await asked.reply.send(write_result(asked.message.id, result))
