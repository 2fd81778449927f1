"""Brings drained upstreams to the point where they have nothing left to do (CUTOVER-DRAIN)."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from shim.audit.events import Client, SessionClosed
from shim.config.live import Live
from shim.fronts.routes import parsed
from shim.ledger.records import SessionRow
from shim.tasks.lookout import look
from shim.tasks.service import Tasks

log = structlog.get_logger("shim")

_PAUSE_MS = 2_000
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Draining:
    """Looks at the open tasks, so that what has ended is in the ledger; ends sessions that fell idle."""

    live: Live
    tasks: Tasks
    idle: Callable[[SessionRow, str | None], bool]
    """Whether a session, of a caller with that label, can end."""

    async def run(self) -> None:
        """Look again and again until the shim stops."""
        while True:
            await self.tasks.room.clock.sleep_ms(_PAUSE_MS)
            for upstream in self.live.in_force.cutover.drain:
                try:
                    await self._see_to_tasks(upstream)
                    await self._end_sessions(upstream)
                except Exception:
                    log.exception("an upstream could not be drained", upstream=upstream)  # the next may go

    async def _see_to_tasks(self, upstream: str) -> None:
        """Read what has ended: its result is the ledger's own then, whoever comes for it."""
        room = self.tasks.room
        for row in await room.ledger.open_tasks(upstream=upstream, limit=_AT_ONCE):
            await look(room, self.tasks.observer, row)

    async def _end_sessions(self, upstream: str) -> None:
        """End the sessions that have no open task and no request under way: a 404 for the next one.

        A caller's label is known only when it comes: where a rule keeps somebody by name, it is waited for.
        """
        ledger = self.tasks.room.ledger
        if any(one.caller and one.upstream == upstream for one in parsed(self.live.in_force.cutover.rules)):
            return
        for row in await ledger.idle_sessions(upstream, limit=_AT_ONCE):
            if not self.idle(row, None):
                continue
            await ledger.close_session(row.session_id)
            self.tasks.room.sink.emit(
                SessionClosed(
                    side="client", reason="drained", upstream=upstream, caller=row.caller,
                    caller_kind=row.caller_kind,
                    client=Client(name=row.client_name, version=row.client_version),
                )
            )  # fmt: skip
