"""Time as something the parts are given, so that tests can own it."""

import asyncio
import time
from collections.abc import Sequence
from typing import Protocol


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
