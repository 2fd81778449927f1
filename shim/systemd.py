"""Tells the service manager how the shim is: ready, reloading, stopping, alive (sd_notify(3)).

Where nobody asked to be told, because NOTIFY_SOCKET is not set, nothing is said.
"""

import re
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self

import structlog

from shim.clock import Clock

log = structlog.get_logger("shim")

_SEND_S = 1.0
_MICROSECONDS = re.compile("[0-9]{1,18}")
_SHORTEST_MS = 100
"""Nobody can be watched more closely."""
_PINGS = 2
"""Signs of life in the time after which the service manager takes the shim for hung."""


@dataclass(frozen=True, slots=True)
class ServiceManager:
    """Who started the shim and wants to be told."""

    address: str | None
    """Unix socket, `@` at its beginning for an abstract one."""
    watchdog_ms: float | None
    """Milliseconds without a sign of life after which the shim is restarted."""
    clock: Clock
    _unheard: set[str] = field(default_factory=set, init=False)
    """What was not taken when it was said last: told once, not at every sign of life."""

    @classmethod
    def of(cls, env: Mapping[str, str], pid: int, clock: Clock) -> Self:
        """Read what the service manager put into the environment of the process `pid`."""
        limit_us = env.get("WATCHDOG_USEC", "")
        meant = env.get("WATCHDOG_PID", str(pid)) == str(pid)
        limit = int(limit_us) if meant and _MICROSECONDS.fullmatch(limit_us) else 0
        watchdog_ms = max(limit / 1000, _SHORTEST_MS) if limit else None
        return cls(env.get("NOTIFY_SOCKET") or None, watchdog_ms, clock)

    def ready(self, status: str) -> None:
        """Say that the shim serves, or serves again after a reload."""
        self._tell("READY=1", _status(status))

    def reloading(self) -> None:
        """Say that the config is being read again; `ready` says that this is over."""
        self._tell("RELOADING=1", f"MONOTONIC_USEC={int(self.clock.ticks_ms() * 1000)}")

    def stopping(self) -> None:
        """Say that the shim is on its way out."""
        self._tell("STOPPING=1", _status("stopping"))

    async def watch(self) -> None:
        """Give signs of life from the event loop for as long as this runs."""
        if self.address is None or self.watchdog_ms is None:
            return
        while True:
            self._tell("WATCHDOG=1")
            await self.clock.sleep_ms(self.watchdog_ms / _PINGS)

    def _tell(self, *lines: str) -> None:
        if self.address is None:
            return
        address = f"\0{self.address[1:]}" if self.address.startswith("@") else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.settimeout(_SEND_S)
                out.sendto("\n".join(lines).encode(), address)
        except OSError as exc:
            if lines[0] not in self._unheard:
                log.warning("the service manager could not be told", said=lines[0], error=str(exc))
            self._unheard.add(lines[0])
        else:
            self._unheard.discard(lines[0])


def _status(text: str) -> str:
    return "STATUS=" + " ".join(text.split())
