"""Legacy clients' sessions: whose each is, and that it is on disk before the client knows its id (LL-OWN)."""

from msgspec.structs import replace

from shim.callers.resolve import Resolver
from shim.clock import Clock
from shim.config import Config
from shim.hub import rawjson
from shim.hub.dialect import Dialect
from shim.hub.rawjson import Members, RawJsonError
from shim.ledger.protocol import Ledger
from shim.ledger.records import SessionRow
from shim.upstreams.base import Context, Upstream
from shim.wire.envelope import declared_kinds, fit_capabilities, offers_task_calls
from shim.wire.era import LEGACY_VERSIONS, knows_tasks
from shim.wire.errors import all_in_use, too_many, unknown_session
from shim.wire.jsonrpc import Response, read_upstream, write_result


class ClientSessions:
    """The sessions that clients opened through the shim."""

    def __init__(
        self, config: Config, ledger: Ledger, upstream: Upstream, clock: Clock, resolver: Resolver
    ) -> None:
        self._config = config
        self._ledger = ledger
        self._upstream = upstream
        self._clock = clock
        self._resolver = resolver

    async def require(self, session_id: str | None, ctx: Context) -> SessionRow | None:
        """Give the caller's session; None where the request names none: it is asked what the config allows.

        A foreign and an unknown session raise the same error; the log tells which.
        """
        if session_id is None:
            ctx.trace.feature("no session")
            ctx.kinds = frozenset(self._config.legacy.sessionless_kinds)
            ctx.capabilities = dict.fromkeys(ctx.kinds, b"{}")
            return None
        row = await self._ledger.session_of(ctx.caller.key, session_id)
        if row is None or row.closed or row.side != "client":
            owner = await self._ledger.session_owner(session_id)
            row = await self._adopt(session_id, ctx) if owner is None else None
            if row is None:
                foreign = owner is not None and owner != ctx.caller.key
                ctx.trace.denied("session_foreign" if foreign else "unknown_session")
                raise unknown_session()
        ctx.trace.client_name, ctx.trace.client_version = row.client_name, row.client_version
        ctx.client_name, ctx.client_version, ctx.kinds = row.client_name, row.client_version, row.kinds
        ctx.capabilities = dict.fromkeys(row.kinds, b"{}")
        ctx.client_session = session_id
        ctx.trace.feature("session")
        self._ledger.touch_session(session_id, self._clock.now_ms())
        return row

    async def room_for_one_more(self, ctx: Context) -> None:
        """See that a caller has at most `limits.sessions_per_caller` open: an idle one makes way.

        Raises ClientFault where there is none.
        """
        await self._room_among_all(ctx)
        limit = self._config.limits.sessions_per_caller
        if ctx.caller.kind == "none" or await self._ledger.count_sessions(ctx.caller.key) < limit:
            return
        idle_since_ms = self._clock.now_ms() - self._config.sessions.idle_ms
        if await self._ledger.close_idlest(ctx.caller.key, idle_since_ms) is None:
            raise too_many(
                "too many open sessions of this caller (limits.sessions_per_caller)",
                limit="limits.sessions_per_caller", retry_after_s=60,
            )  # fmt: skip
        ctx.trace.event("session.closed", side="client", reason="idle")

    async def _room_among_all(self, ctx: Context) -> None:
        """See that all legacy clients together have at most `limits.sessions` open. Raises ClientFault."""
        if await self._ledger.count_sessions(None) < self._config.limits.sessions:
            return
        if (
            await self._ledger.close_idlest(None, self._clock.now_ms() - self._config.sessions.idle_ms)
            is None
        ):
            raise all_in_use(
                "too many open sessions (limits.sessions): come back later",
                limit="limits.sessions", retry_after_s=60,
            )  # fmt: skip
        ctx.trace.event("session.closed", side="client", reason="idle")

    def fill(self, ctx: Context, params: Members) -> None:
        """Take what an initialize says of its client."""
        try:
            info = rawjson.members(params.get("clientInfo", b"{}"))
        except RawJsonError:
            info = {}
        ctx.client_name = rawjson.string(info.get("name")) or "unknown"
        ctx.client_version = rawjson.string(info.get("version")) or "0"
        ctx.trace.client_name, ctx.trace.client_version = ctx.client_name, ctx.client_version
        ctx.capabilities = declared_kinds(params.get("capabilities"))
        ctx.kinds = frozenset(ctx.capabilities)

    async def opened(
        self, session_id: str | None, body: bytes, ctx: Context, dialect: Dialect
    ) -> bytes | None:
        """Write a new session down before its id is passed on; fit capabilities to the dialect."""
        message = read_upstream(body)
        if not isinstance(message, Response) or message.result is None or message.id is None:
            return None
        if session_id is not None:
            await self.add(session_id, message.result, ctx, dialect)
        version = rawjson.string(rawjson.members(message.result).get("protocolVersion"))
        tasks = dialect.lists_task_support and knows_tasks(version)
        if dialect.name == self._upstream.dialect.name:
            promotes = self._config.tasks.promote and tasks
            if not promotes or offers_task_calls(message.result):
                return None
        return write_result(message.id, fit_capabilities(message.result, tasks=tasks))

    async def add(
        self, session_id: str, init: bytes, ctx: Context, dialect: Dialect, settings: bytes = b"{}"
    ) -> None:
        """Write a new session down as the caller's; one who has nothing else is told by it from now on."""
        if ctx.caller.kind in {"session", "none"}:
            ctx.caller = self._resolver.session_caller(session_id)
            ctx.trace.caller, ctx.trace.caller_kind = ctx.caller.key, ctx.caller.kind
        await self._ledger.add_session(replace(self._row(session_id, init, ctx, dialect), settings=settings))
        ctx.trace.event("session.opened", side="client", reason="initialize")

    async def speaks(self, session: SessionRow, dialect: str) -> None:
        """Note the dialect a session's client last spoke (CS-DETECT)."""
        await self._ledger.set_session_dialect(session.session_id, dialect)

    async def close(self, session: SessionRow, ctx: Context) -> None:
        """Note that the client ended its session."""
        await self._ledger.close_session(session.session_id)
        ctx.trace.event("session.closed", side="client", reason="delete")

    async def _adopt(self, session_id: str, ctx: Context) -> SessionRow | None:
        """Take over a session that was opened before the shim stood here, while the operator allows it.

        Only if upstream accepts it with the request's own credential (OWN-ADOPT).
        """
        until = self._config.ownership.adopt_until
        now_ms = self._clock.now_ms()
        if until is None or now_ms >= until.timestamp() * 1000:
            return None
        if not await self._upstream.accepts_session(ctx, session_id):
            return None
        row = replace(self._row(session_id, b"{}", ctx, None), version=LEGACY_VERSIONS[0])
        await self._ledger.add_session(row)
        ctx.trace.event("adopted", task_id=None)
        return row

    def _row(self, session_id: str, init: bytes, ctx: Context, dialect: Dialect | None) -> SessionRow:
        now_ms = self._clock.now_ms()
        return SessionRow(
            session_id=session_id, upstream=self._upstream.name, caller=ctx.caller.key,
            caller_kind=ctx.caller.kind, side="client", dialect=dialect.name if dialect else None,
            client_name=ctx.client_name, client_version=ctx.client_version, kinds=ctx.kinds,
            version=rawjson.string(rawjson.members(init).get("protocolVersion")) or "", init=init,
            created_ms=now_ms, used_ms=now_ms, closed=False,
        )  # fmt: skip
