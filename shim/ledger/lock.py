"""One process holds a ledger (DUR-7)."""

import fcntl
import os
from datetime import UTC, datetime
from pathlib import Path

import structlog

from shim.clock import Clock, duration
from shim.ledger.protocol import LedgerError, LedgerLocked

log = structlog.get_logger("shim.ledger")

_TRY_EVERY_MS = 100
_LOCKS = Path("/proc/locks")
"""Where Linux tells which process has which lock."""


class FileLock:
    """An advisory lock on a file beside the ledger; the kernel frees it when the process dies."""

    def __init__(self, ledger: Path, clock: Clock) -> None:
        self._ledger = ledger
        self._path = ledger.with_name(ledger.name + ".lock")
        self._clock = clock
        self._fd: int | None = None

    async def take(self, wait_ms: int) -> None:
        """Take the lock, after a wait at most, which is told at once. Raises LedgerLocked, LedgerError."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            fd = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as exc:
            raise LedgerError(f"{self._path}: {exc.strerror}") from exc
        try:
            await self._wait(fd, wait_ms)
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def release(self) -> None:
        """Let go of the lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    async def _wait(self, fd: int, wait_ms: int) -> None:
        """Try until the lock is taken. Raises LedgerLocked."""
        give_up = self._clock.ticks_ms() + wait_ms
        if not _taken(fd) and wait_ms:
            until = datetime.fromtimestamp((self._clock.now_ms() + wait_ms) / 1000, UTC)
            log.warning(
                "the ledger is held by another process: waiting for it",
                ledger=str(self._ledger), holder=_holder(fd), wait=duration(wait_ms),
                until=until.isoformat(timespec="seconds"),
            )  # fmt: skip
        while not _taken(fd):
            if self._clock.ticks_ms() >= give_up:
                who = f"another taskshim{_named(_holder(fd))} holds this ledger"
                waited = f", also after ledger.lock_wait_ms ({duration(wait_ms)})" if wait_ms else ""
                mend = "stop it, or set ledger.path to another file"
                raise LedgerLocked(f"{self._ledger}: {who}{waited}; {mend}")
            await self._clock.sleep_ms(_TRY_EVERY_MS)


def _taken(fd: int) -> bool:
    """Take the lock if it is free, or held here already."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _named(pid: int | None) -> str:
    return f" (process {pid})" if pid is not None else ""


def _holder(fd: int) -> int | None:
    """Give the process that holds the lock; None where the system does not tell, or not to this container."""
    try:
        lines = _LOCKS.read_text("ascii").splitlines()
    except (OSError, ValueError):
        return None
    stat = os.fstat(fd)
    where = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    for line in lines:  # "1: FLOCK  ADVISORY  WRITE 1234 fd:01:5678 0 EOF"; "1: -> FLOCK ..." only waits
        match line.split():
            case [_, "FLOCK", _, _, pid, held, *_] if held == where and int(pid) > 0:
                return int(pid)
    return None
