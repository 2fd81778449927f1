"""A disk that is full for a while, for whatever writes audit logs."""

import errno
import os

import pytest


def full_disk(monkeypatch: pytest.MonkeyPatch, takes: int) -> list[int | None]:
    """Let the disk take so many bytes of audit logs, then nothing; None in the list given frees it again."""
    real, room = os.write, [takes]

    def write(fd: int, data: bytes) -> int:
        if room[0] is None:
            return real(fd, data)
        if room[0] == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = real(fd, bytes(data[: room[0]]))
        room[0] -= count
        return count

    monkeypatch.setattr("shim.audit.files.os.write", write)
    return room
