"""The sign of life in the audit log: at the start, every minute, and at the end of a run."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

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
    told: Counter[str] = field(default_factory=Counter)
    """How often each bound was reached, as the operator was told."""

    async def tell(self) -> None:
        """Write one `instance.alive`."""
        self.tells_too()
        self._tell_of_bounds()
        try:
            connected = await self.ledger.connected()
        except LedgerError:
            log.exception("the open sessions could not be counted")
            connected = []
        self.sink.emit(self.activity.alive(connected=connected, dropped=self.sink.dropped))

    def _tell_of_bounds(self) -> None:
        """Name the bounds that were reached since this was told last."""
        reached = Counter(self.sink.reached) - self.told
        if reached:
            self.told.update(reached)
            log.warning("limits were reached in the last minute", times=dict(sorted(reached.items())))

    async def run(self, clock: Clock) -> None:
        """Tell it every minute until the shim stops."""
        while True:
            await clock.sleep_ms(ALIVE_EVERY_MS)
            await self.tell()
