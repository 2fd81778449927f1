"""What goes wrong again and again, told to the operator: at once, then once a minute for each kind."""

import structlog

from shim.clock import Clock
from shim.recent import Recent

log = structlog.get_logger("shim")

_EVERY_MS = 60_000
_KINDS = 1_000


class Notices:
    """Writes warnings to the operator's log and leaves out what it said of the same kind a moment ago."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: Recent[tuple[str, object], tuple[float, int]] = Recent(_KINDS)
        """When a kind was told last, and how often it came since."""

    def warn(self, event: str, about: object = None, /, **said: object) -> None:
        """Say an event; its kind is its name and `about`, and `more` counts those left out since."""
        now_ms = self._clock.ticks_ms()
        at_ms, more = self._told.get((event, about), (now_ms - _EVERY_MS, 0))
        if now_ms - at_ms < _EVERY_MS:
            self._told[event, about] = at_ms, more + 1
            return
        self._told[event, about] = now_ms, 0
        if more:
            said["more"] = more
        log.warning(event, **said)
