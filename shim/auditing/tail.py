"""Follows a log that is written: whole lines as they come, past rotation, from before there is a file on."""

import errno
import os
import stat
from pathlib import Path

BACKLOG_BYTES = 1 << 20
"""What is read of a file that is there at the start, from its end."""
_AT_ONCE_BYTES = 4 << 20
_LINE_BYTES = 1 << 20


class Tail:
    """Gives the lines of a file as they come to stand in it."""

    def __init__(self, path: Path, *, backlog_bytes: int = BACKLOG_BYTES) -> None:
        self._path = path
        self._at = 0
        self._torn = bytearray()
        self._passing_over = False
        self.lost_lines = 0
        """Lines that were too long to be kept."""
        self._fd = self._opened()
        if self._fd is not None and (size := os.fstat(self._fd).st_size) > backlog_bytes:
            self._at = size - backlog_bytes
            self._passing_over = os.pread(self._fd, 1, self._at - 1) != b"\n"

    @property
    def is_open(self) -> bool:
        """Whether there is a file yet."""
        return self._fd is not None

    def lines(self) -> list[bytes]:
        """Give the whole lines that came since, of a few megabytes at most; raises OSError.

        What was put aside is read to its end before the new file is begun. A line without its end waits for
        it; at the end of a file that was put aside it is given as it is.
        """
        if self._fd is None:
            self._fd = self._opened()
        if self._fd is None:
            return []
        replaced = self._is_replaced(self._fd)  # asked first: nothing is written to the old file after that
        chunk = os.pread(self._fd, _AT_ONCE_BYTES, self._at)
        if not chunk and os.fstat(self._fd).st_size < self._at:
            self._at = 0  # it was emptied
            self._torn.clear()
            chunk = os.pread(self._fd, _AT_ONCE_BYTES, 0)
        self._at += len(chunk)
        found = self._split(chunk)
        if replaced and not chunk:
            if self._torn:
                found.append(bytes(self._torn))
            self.close()
            return found + self.lines()
        return found

    def close(self) -> None:
        """Close the file."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _opened(self) -> int | None:
        self._at, self._passing_over = 0, False
        self._torn.clear()
        try:
            # a pipe would be waited for, and what is read of it be taken from who it is for
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except FileNotFoundError:
            return None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "only a file can be followed")
        return fd

    def _is_replaced(self, fd: int) -> bool:
        """Whether another file stands under the name; one that is only gone may still be written to."""
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(fd))
        except FileNotFoundError:
            return False

    def _split(self, chunk: bytes) -> list[bytes]:
        *whole, rest = (bytes(self._torn) + chunk).split(b"\n")
        self._torn[:] = rest
        if self._passing_over:
            self._passing_over = not whole
            del whole[:1]
            if self._passing_over:
                self._torn.clear()
        if len(self._torn) > _LINE_BYTES:
            self._torn.clear()
            self._passing_over = True
            self.lost_lines += 1
        return [line for line in whole if line]
