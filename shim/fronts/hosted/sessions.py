"""Sessions that the shim itself serves: minted, on disk before the client knows them (LM-INIT, LM-LOCAL)."""

import asyncio
import uuid

from shim.config import Config
from shim.fronts.sessions import ClientSessions
from shim.hub import rawjson
from shim.hub.dialect import Dialect
from shim.ledger.protocol import Ledger
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context
from shim.wire.errors import invalid_params
from shim.wire.loglevels import LEVELS

_CAPABILITIES = "capabilities"
_LEVEL = "logLevel"
_RESOURCES = "resources"


class HostedSessions:
    """Opens sessions and keeps what their clients asked of them."""

    def __init__(self, config: Config, ledger: Ledger, sessions: ClientSessions) -> None:
        self._limits = config.limits
        self._ledger = ledger
        self._sessions = sessions
        self._setting = asyncio.Lock()
        """Held from the reading of settings to their writing: requests of one moment lose nothing."""

    async def open(self, ctx: Context, init: bytes, dialect: Dialect) -> str:
        """Mint a session for the caller and give its id."""
        session_id = str(uuid.uuid4())
        settings = rawjson.join({_CAPABILITIES: rawjson.join(ctx.capabilities)})
        await self._sessions.add(session_id, init, ctx, dialect, settings)
        return session_id

    async def set_level(self, session: SessionRow | None, level: str | None) -> None:
        """Note the level of log messages that the client wants (LM-META). Raises ClientFault."""
        if level not in LEVELS:
            raise invalid_params(f"params.level: expected one of {', '.join(LEVELS)}")
        async with self._setting:
            await self._set(await self._latest(session), {_LEVEL: rawjson.encode(level)})

    async def subscribe(self, session: SessionRow | None, uri: str, *, on: bool) -> None:
        """Note a resource whose changes the client wants to hear of, or no longer. Raises ClientFault."""
        async with self._setting:
            latest = await self._latest(session)
            others = [one for one in resources(latest) if one != uri] if latest is not None else []
            if on and len(others) >= (at_most := self._limits.subscriptions_per_stream):
                raise invalid_params(
                    f"params.uri: this session names limits.subscriptions_per_stream = {at_most} already",
                    limit="limits.subscriptions_per_stream",
                )
            await self._set(latest, {_RESOURCES: rawjson.encode([*others, uri] if on else others)})

    async def _latest(self, session: SessionRow | None) -> SessionRow | None:
        return None if session is None else await self._ledger.session(session.session_id)

    async def _set(self, session: SessionRow | None, changed: dict[str, bytes]) -> None:
        if session is None:
            return  # there is nothing to keep it in
        settings = rawjson.join({**rawjson.members(session.settings), **changed})
        await self._ledger.set_session_settings(session.session_id, settings)


def take_up(session: SessionRow, ctx: Context) -> None:
    """Let the context say what the session's client declared and asked for (LM-META)."""
    settings = rawjson.members(session.settings)
    if _CAPABILITIES in settings:
        ctx.capabilities = rawjson.members(settings[_CAPABILITIES])
    ctx.log_level = rawjson.string(settings.get(_LEVEL))


def resources(session: SessionRow) -> list[str]:
    """Give the resources that a session's client subscribed to."""
    listed = rawjson.decode(rawjson.members(session.settings).get(_RESOURCES, b"[]"))
    return [uri for uri in listed if isinstance(uri, str)]
