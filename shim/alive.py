"""The sign of life in the audit log: at the start, every minute, and at the end of a run."""

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from shim.audit.activity import ALIVE_EVERY_MS, Activity
from shim.audit.sink import FileSink, NullSink
from shim.clock import Clock
from shim.ledger.protocol import Ledger, LedgerError

log = structlog.get_logger("shim")


@dataclass(frozen=True, slots=True)
class Alive:
    """Tells what goes on: what ended since it last told, and who is connected."""

    ledger: Ledger
    activity: Activity
    sink: FileSink | NullSink
    tells_too: Callable[[], None]
    """Tells what else is counted and told once a minute."""

    async def tell(self) -> None:
        """Write one `instance.alive`."""
        self.tells_too()
        try:
            connected = await self.ledger.connected()
        except LedgerError:
            log.exception("the open sessions could not be counted")
            connected = []
        self.sink.emit(self.activity.alive(connected=connected, dropped=self.sink.dropped))

    async def run(self, clock: Clock) -> None:
        """Tell it every minute until the shim stops."""
        while True:
            await clock.sleep_ms(ALIVE_EVERY_MS)
            await self.tell()
