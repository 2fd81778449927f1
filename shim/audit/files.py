"""A file of lines that only its owner may read, rotated by size or by day (UTC)."""

import contextlib
import fcntl
import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import structlog

log = structlog.get_logger("shim.audit")

_MODE = 0o600
_DAY_S = 86_400


class RotatingFile:
    """Takes whole lines; a line never spans two files, and one that was torn by a full disk stays alone.

    A full `audit.jsonl` becomes `audit-20261130T120000Z.jsonl`, so `audit*.jsonl` names all of them.
    A pipe or device in its place is written to and otherwise left alone. Everything may raise OSError; then
    what `lines_written` does not count is not in the file.
    """

    def __init__(self, path: Path, *, max_bytes: int, daily: bool, now_s: float) -> None:
        self._path = path
        self._max_bytes = max_bytes
        self._daily = daily
        self._buffer = bytearray()
        self.lines_written = 0
        self._torn = False
        self._shared = False
        self._open()
        modified_s = os.fstat(self._fd).st_mtime
        self._day = _day(modified_s if self._size else now_s)

    def append(self, line: bytes, now_s: float) -> None:
        """Take a line that ends in a newline; it is in the file after `flush`."""
        size, day = self._size + len(self._buffer), _day(now_s)
        full = size + len(line) > self._max_bytes
        if self._own and (full or (self._daily and day > self._day)) and size > 0:
            self.flush()
            self._rotate(now_s)
        self._day = max(self._day, day)
        self._buffer += line

    def flush(self) -> None:
        """Write what was taken."""
        self._follow()
        if self._torn:
            self._size += os.write(self._fd, b"\n")
            self._torn = False
        while self._buffer:
            count = os.write(self._fd, self._buffer)
            written = bytes(self._buffer[:count])
            del self._buffer[:count]
            self._size += count
            self._torn = not written.endswith(b"\n")
            self.lines_written += written.count(b"\n")

    def discard(self) -> None:
        """Forget what could not be written."""
        self._buffer.clear()

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._fd = os.open(self._path, flags, _MODE)
        status = os.fstat(self._fd)
        self._own = stat.S_ISREG(status.st_mode)  # a pipe or a device belongs to someone else
        if self._own:
            os.fchmod(self._fd, _MODE)
            self._claim()
        self._size = status.st_size
        # an earlier run may have been killed in the middle of a line
        self._torn = self._size > 0 and os.pread(self._fd, 1, self._size - 1) != b"\n"

    def _claim(self) -> None:
        """Hold the file while it is open, and tell where another process does: both would put it aside."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if not self._shared:
                log.warning("another process writes this audit file too: name another", path=str(self._path))
            self._shared = True
        except OSError:  # a file system without locks
            return

    def _follow(self) -> None:
        """Make the file anew if someone moved or removed it."""
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(self._path.stat(), os.fstat(self._fd)):
                return
        self.close()
        self._open()

    def _rotate(self, now_s: float) -> None:
        stamp = datetime.fromtimestamp(now_s, UTC).strftime("%Y%m%dT%H%M%SZ")
        target = self._path.with_stem(f"{self._path.stem}-{stamp}")
        number = 1
        while target.exists():
            number += 1
            target = self._path.with_stem(f"{self._path.stem}-{stamp}.{number}")
        try:
            self._path.rename(target)
        except OSError as exc:
            log.warning("the audit file cannot be rotated: it goes on growing", error=str(exc))
            self._size = 0  # the next try comes after as many bytes again
            return
        self.close()
        self._open()


def _day(time_s: float) -> int:
    return int(time_s // _DAY_S)
