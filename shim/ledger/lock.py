"""One process holds a ledger (DUR-7)."""

import fcntl
import os
from pathlib import Path

from shim.clock import Clock
from shim.ledger.protocol import LedgerError, LedgerLocked

_TRY_EVERY_MS = 100


class FileLock:
    """An advisory lock on a file beside the ledger; the kernel frees it when the process dies."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._fd: int | None = None

    async def take(self, wait_ms: int) -> None:
        """Take the lock, waiting at most that long. Raises LedgerLocked, LedgerError."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as exc:
            raise LedgerError(f"{self._path}: {exc.strerror}") from exc
        give_up = self._clock.ticks_ms() + wait_ms
        while True:
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                if self._clock.ticks_ms() >= give_up:
                    os.close(fd)
                    raise LedgerLocked(
                        f"{self._path}: another taskshim holds this ledger; stop it or set ledger.path"
                    ) from None
                await self._clock.sleep_ms(_TRY_EVERY_MS)
            else:
                self._fd = fd
                return

    def release(self) -> None:
        """Let go of the lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
