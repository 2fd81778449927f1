"""Where audit events go: a file of JSON lines, written by a thread of its own, off the request path.

`emit` numbers the event and appends it to a bounded queue. The thread collects for a moment, encodes,
and writes whole lines, so that a request never waits for a disk. An event that finds no room, or that
the disk refuses, is counted; its number stays missing, and `audit.dropped` tells how many.
"""

import functools
import itertools
import json
import secrets
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog

from shim.audit.chain import Chain, Signer, mac_at_end
from shim.audit.events import SCHEMA_VERSION, AuditDropped, Event
from shim.audit.files import RotatingFile

log = structlog.get_logger("shim.audit")

_LINGER_S = 0.02
"""The thread waits this long for more before it works: fewer switches between it and the event loop."""
_BATCH = 2_000
_SECOND_NS = 1_000_000_000

_encode = msgspec.json.Encoder().encode


def new_instance() -> str:
    """Make the id of a process's run."""
    return secrets.token_hex(8)


class NullSink:
    """Takes events and keeps none: no audit file is configured."""

    dropped = 0

    def __init__(self) -> None:
        self.reached: Counter[str] = Counter()

    def emit(self, event: Event) -> None:
        """Forget the event."""

    def close(self, timeout_s: float = 0) -> None:
        """Do nothing."""


class MemorySink:
    """Keeps events in a list."""

    dropped = 0

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.reached: Counter[str] = Counter()

    def emit(self, event: Event) -> None:
        """Keep the event."""
        self.events.append(event)

    def named(self, name: str) -> list[Event]:
        """Give the events of one name."""
        return [event for event in self.events if event.__struct_config__.tag == name]

    def close(self, timeout_s: float = 0) -> None:
        """Do nothing."""


class FileSink:
    """Writes events to a file of mode 0600, rotated by size and, if `daily`, by day (UTC).

    With a `signer` the lines are chained. Raises OSError when the file cannot be opened.
    """

    def __init__(
        self,
        path: Path,
        *,
        instance: str,
        max_bytes: int = 268_435_456,
        daily: bool = True,
        queue: int = 100_000,
        signer: Signer | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._chain = None if signer is None else Chain(signer, mac_at_end(path))
        self._file = RotatingFile(path, max_bytes=max_bytes, daily=daily, now_s=clock_ns() / _SECOND_NS)
        self.reached: Counter[str] = Counter()
        self._instance = instance
        self._bound = queue
        self._clock_ns = clock_ns
        self._queue: deque[tuple[int, int, Event]] = deque()
        self._numbers = itertools.count(1)
        self._refused = 0
        self._failed = 0
        self._told = 0
        self._failing = False
        self._full = False
        self._work = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="audit-writer", daemon=True)
        self._thread.start()

    @property
    def dropped(self) -> int:
        """Events lost since the start: no room in the queue, or no room on the disk."""
        return self._refused + self._failed

    def emit(self, event: Event) -> None:
        """Take an event; never blocks."""
        number = next(self._numbers)
        if len(self._queue) >= self._bound:
            self._refused += 1
            if not self._full:
                log.warning("events are lost: the audit file takes them too slowly, or not at all")
            self._full = True
        else:
            self._queue.append((number, self._clock_ns(), event))
        if not self._work.is_set():
            self._work.set()

    def close(self, timeout_s: float = 5) -> None:
        """Write what is queued and close the file; blocks at most that long."""
        self._stopping.set()
        self._work.set()
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            log.warning("events are lost: the audit file does not take them", waiting=len(self._queue))

    def _run(self) -> None:
        while not self._stopping.is_set():
            self._work.wait()
            self._stopping.wait(_LINGER_S)
            if not self._queue:  # the thread need not be woken while it finds work each time
                self._work.clear()
            # read after the clearing: whatever comes later wakes the thread again
            self._drain()
        self._drain()
        self._file.close()

    def _drain(self) -> None:
        while self._queue:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _BATCH))]
            self._failed += self._write(batch)
        lost = self.dropped - self._told
        if (
            lost
            and not self._failing
            and not self._write([(next(self._numbers), self._clock_ns(), AuditDropped(count=lost))])
        ):
            self._told += lost
            self._full = False
            log.info("the audit file is written again", lost=lost)

    def _write(self, batch: list[tuple[int, int, Event]]) -> int:
        """Write events and give how many of them did not get into the file."""
        before = self._file.lines_written
        try:
            for number, ts_ns, event in batch:
                self._file.append(self._line(number, ts_ns, event), ts_ns / _SECOND_NS)
            self._file.flush()
        except OSError as exc:
            self._file.discard()
            if not self._failing:
                log.warning("the audit file cannot be written: events are lost until it can", error=str(exc))
            self._failing = True
        else:
            self._failing = False
        written = self._file.lines_written - before
        if self._chain is not None:
            self._chain.written(written)
        return len(batch) - written

    def _line(self, number: int, ts_ns: int, event: Event) -> bytes:
        try:
            body = _encode(event)
        except UnicodeEncodeError:  # a lone surrogate in a name that a client stated
            body = json.dumps(msgspec.to_builtins(event), ensure_ascii=False).encode("utf-8", "replace")
        head = f'{{"v":{SCHEMA_VERSION},"seq":{number},"ts":"{_stamp(ts_ns)}","instance":"{self._instance}",'
        if self._chain is not None:
            return self._chain.signed(head.encode() + body[1:-1]) + b"\n"
        return head.encode() + body[1:] + b"\n"


def _stamp(ts_ns: int) -> str:
    seconds, rest_ns = divmod(ts_ns, _SECOND_NS)
    return f"{_date_and_time(seconds)}.{rest_ns // 1000:06d}Z"


@functools.lru_cache(maxsize=8)
def _date_and_time(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"
