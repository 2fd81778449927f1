"""Calls that become tasks on a legacy server, each sent so that it runs once (ML-CREATE, ML-SESSION-LOST)."""

from shim.hub import rawjson
from shim.hub.codec import read_create
from shim.hub.dialect import Dialect
from shim.hub.rawjson import Members
from shim.upstreams.base import Answered, Context, Created, SessionLost
from shim.upstreams.broken import Interrupted
from shim.upstreams.legacy.session import LegacySession
from shim.upstreams.legacy.sessions import Sessions
from shim.upstreams.legacy.tools import Catalogs
from shim.wire.errors import UpstreamFault, outcome_unknown, unknown_session
from shim.wire.jsonrpc import Response

ATTEMPTS = 3
"""On the session at hand, on the one that takes its place, and on a new one if that is lost as well."""


async def run_once(ctx: Context, session: LegacySession, method: str, params: Members) -> Response:
    """Send a call that must not run twice: one that was cut off may have run (ML-SESSION-LOST)."""
    await session.set_level(ctx)
    try:
        return await session.request(ctx, method, params, patient=True, reports=True)
    except Interrupted as exc:
        ctx.trace.event("upstream.invalid", rule="ML-SESSION-LOST", detail="cut off mid-flight")
        raise outcome_unknown() from exc


def forgotten() -> UpstreamFault:
    """Give what ends a request once every attempt lost its session."""
    return UpstreamFault("the upstream forgot a session that it had just opened")


class Creates:
    """Sends calls as tasks in the server's dialect."""

    def __init__(self, dialect: Dialect, sessions: Sessions, catalogs: Catalogs) -> None:
        self._dialect = dialect
        self._sessions = sessions
        self._catalogs = catalogs

    async def create(
        self, ctx: Context, params: Members, ttl_ms: int | None, *, session_id: str | None = None
    ) -> Created | Answered:
        """Send the call as a task, on the client's own session or on one that has room for it."""
        method, body = self._dialect.create_request(params, ttl_ms)
        if session_id is not None:
            return await self._driven(ctx, method, body, session_id)
        session, response = await self._on_pool(ctx, method, body)
        made = self._made(ctx, response, session)
        if isinstance(made, Answered) or made.session_id is None:
            self._sessions.pool.unreserve(ctx, session)
            await session.release_held()
        return made

    async def _driven(self, ctx: Context, method: str, body: Members, session_id: str) -> Created | Answered:
        """Send a create on the client's own session; the client opens another if that one is lost."""
        try:
            session = await self._sessions.driven(session_id)
            session.reserved += 1
            try:
                response = await self._sessions.on(ctx, session, lambda one: run_once(ctx, one, method, body))
            finally:
                session.reserved -= 1
        except SessionLost:
            raise unknown_session() from None
        return self._made(ctx, response, session)

    async def _on_pool(self, ctx: Context, method: str, body: Members) -> tuple[LegacySession, Response]:
        """Send a create; once more on a new session if the first was lost before it answered."""
        pool, lost = self._sessions.pool, None
        for _ in range(ATTEMPTS):
            session = await pool.reserve(ctx, lost=lost)
            try:
                return session, await self._sessions.on(
                    ctx, session, lambda one: run_once(ctx, one, method, body)
                )
            except SessionLost:
                pool.unreserve(ctx, session)
                lost = session.id
            except BaseException:
                pool.unreserve(ctx, session)
                await session.release_held()
                raise
        raise forgotten()

    def _made(self, ctx: Context, response: Response, session: LegacySession) -> Created | Answered:
        reading = None
        if response.result is not None:
            reading = read_create(self._dialect, rawjson.members(response.result))
        if reading is None:
            if response.error is not None:
                self._catalogs.of(ctx).changed()  # the refusal may be about tasks
            return Answered(response)
        if ctx.progress_token is not None and response.id is not None:
            session.reports(response.id, reading.task.task_id)
        return Created(reading, session.id if session.wire_id else None, reading.task.meta)
