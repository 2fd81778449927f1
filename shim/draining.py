"""Ends the legacy sessions of drained upstreams as they fall idle (CUTOVER-DRAIN)."""

from collections.abc import Callable
from dataclasses import dataclass

from shim.audit.events import AuditSink, Client, SessionClosed
from shim.clock import Clock
from shim.config.live import Live
from shim.fronts.routes import parsed
from shim.ledger.protocol import Ledger
from shim.ledger.records import SessionRow

_PAUSE_MS = 2_000
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Draining:
    """Closes what has nothing to do any more. Its client's next request gets a 404 and begins anew."""

    live: Live
    ledger: Ledger
    idle: Callable[[SessionRow, str | None], bool]
    """Whether a session, of a caller with that label, can end."""
    sink: AuditSink
    clock: Clock

    async def run(self) -> None:
        """Look again and again until the shim stops."""
        while True:
            await self.clock.sleep_ms(_PAUSE_MS)
            for upstream in self.live.in_force.cutover.drain:
                await self.drain(upstream)

    async def drain(self, upstream: str) -> None:
        """End the sessions of an upstream that have no open task and no request under way.

        A caller's label is known only when it comes: where a rule keeps somebody by name, it is waited for.
        """
        if any(
            rule.caller and rule.upstream == upstream for rule in parsed(self.live.in_force.cutover.rules)
        ):
            return
        for row in await self.ledger.idle_sessions(upstream, limit=_AT_ONCE):
            if not self.idle(row, None):
                continue
            await self.ledger.close_session(row.session_id)
            self.sink.emit(
                SessionClosed(
                    side="client", reason="drained", upstream=upstream, caller=row.caller,
                    caller_kind=row.caller_kind,
                    client=Client(name=row.client_name, version=row.client_version),
                )
            )  # fmt: skip
