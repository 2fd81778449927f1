"""Time as something the parts are given, so that tests can own it."""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


class Clock(Protocol):
    """Where every part gets its time from."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""

    def ticks_ms(self) -> float:
        """Monotonic milliseconds; only differences mean anything."""

    async def sleep_ms(self, duration_ms: float) -> None:
        """Let that much time pass."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def ticks_ms(self) -> float:
        """Monotonic milliseconds."""
        return time.monotonic() * 1000

    async def sleep_ms(self, duration_ms: float) -> None:
        """Let that much time pass."""
        await asyncio.sleep(duration_ms / 1000)


def retry_ms(pauses_ms: Sequence[int], attempt: int) -> int:
    """Give the pause after a failed attempt, counted from 0; later ones get the last pause."""
    return pauses_ms[min(attempt, len(pauses_ms) - 1)]


def duration(length_ms: int) -> str:
    """Write a length of time for people, in its largest whole unit."""
    for unit_ms, name in _UNITS:
        if length_ms >= unit_ms:
            return f"{length_ms // unit_ms} {name}"
    return f"{max(length_ms, 0)} ms"
