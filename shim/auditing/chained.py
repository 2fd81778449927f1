"""Whether the chain of macs holds: which lines were changed, removed, added or moved.

Each file is read once, and each line is held against the one of its run before it, in its file or the file
before. Nothing but the last macs is kept, so that memory does not grow with the logs.
"""

import gzip
import re
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, BinaryIO, cast

import msgspec

from shim.audit.chain import MAC_CHARS, Signer
from shim.auditing.sources import AuditingError, Sources

_HEAD = re.compile(rb'\{"v":\d+,"seq":(\d+),"ts":"([^"]*)","instance":"([^"]*)",')
_MARK = b',"mac":"'
_END = b'"}'
_TAIL = len(_MARK) + MAC_CHARS + len(_END)
_BEGIN = re.compile(rb',"chain":\{"key":"([0-9a-f]{8})","after":"([0-9a-f]*)"\}\Z')
_KEPT_MACS = 64
"""A line is known to stand in another place if it follows one of so many before it."""
_KEPT_FAULTS = 1_000

CHANGED = "changed, or put in"
MISSING = "changed, or what came before it is missing"
MOVED = "stands in another place"
UNSIGNED = "has no mac"
NO_KEY = "not signed with any of the keys"
NO_START = "what came before its run is missing"

Head = re.Match[bytes]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Chained:
    """What the macs say."""

    signed: int
    """Lines that are as they were written, where they were written."""
    faults: tuple[Row, ...]
    """Where they are not, the first ones: each with its place and the number of lines it stands for."""
    count: int
    """Lines with a fault, in all."""


@dataclass(slots=True)
class _Run:
    """A run's chain so far: the mac of the line before, and of the last one that fits."""

    signer: Signer | None
    seq: int
    last: bytes
    good: bytes
    recent: deque[bytes] = field(default_factory=lambda: deque(maxlen=_KEPT_MACS))

    def step(self, seq: int, mac: bytes, *, good: bool) -> None:
        """Go on behind a line."""
        self.seq, self.last = seq, mac
        self.recent.append(mac)
        if good:
            self.good = mac


def chained(sources: Sources, keys: Sequence[bytes]) -> Chained:
    """Hold every line of the files against the one before it. Raises AuditingError."""
    reading = _Reading([Signer(key) for key in keys])
    firsts = sorted((_first(path, sources), path) for path in sources.every)
    reading.wanted = {(instance, seq) for (_, instance, seq), _ in firsts}
    for _, path in firsts:
        reading.read(path, sources)
    return reading.told()


class _Reading:
    """Goes through the files in the order of their first lines."""

    def __init__(self, signers: Sequence[Signer]) -> None:
        self.wanted: set[tuple[bytes, int]] = set()
        """First lines of files; a file may begin in the middle of another one."""
        self._signers = {one.key_id.encode(): one for one in signers}
        self._path = Path()
        self._here: dict[bytes, _Run] = {}
        self._runs: dict[bytes, _Run] = {}
        self._before: dict[tuple[bytes, int], bytes] = {}
        """The macs before the wanted ones that were come by."""
        self._ends: set[bytes] = set()
        self._starts: list[tuple[bytes | None, Row]] = []
        self._faults: dict[tuple[object, ...], Row] = {}
        self._signed = self._count = 0

    def read(self, path: Path, sources: Sources) -> None:
        """Hold a file's lines against each other and against the files before."""
        self._path, self._here = path, {}
        with opened(path, sources) as file:
            for number, line in enumerate(file, start=1):
                self._line(number, line.rstrip(b"\n"))
        for instance, run in self._here.items():
            self._ends.add(run.last)
            if instance not in self._runs or run.seq > self._runs[instance].seq:
                self._runs[instance] = run

    def told(self) -> Chained:
        """Look for what came before each run, and give what was found."""
        oldest = min((row["ts"] for _, row in self._starts if row["ts"] is not None), default=None)
        for after, row in self._starts:
            if after != b"" and after not in self._ends and row["ts"] != oldest:
                self._note(row, (row["instance"],))
        return Chained(self._signed, tuple(self._faults.values()), self._count)

    def _line(self, number: int, line: bytes) -> None:
        head = _HEAD.match(line)
        if head is None or not line.endswith(_END) or line[-_TAIL : len(_MARK) - _TAIL] != _MARK:
            self._unsigned(number, line, head)
            return
        body, mac, seq = line[:-_TAIL], line[len(_MARK) - _TAIL : -len(_END)], int(head[1])
        run = self._here.get(head[3]) or self._begin(number, body, mac, head)
        if run is None:
            return
        good = self._fits(run, body, mac)
        if good:
            self._signed += 1
            if (head[3], seq) in self.wanted:
                self._before[head[3], seq] = run.last
        elif run.signer is None:
            self._note(self._row(number, head, NO_KEY), (self._path, head[3], NO_KEY))
        else:
            self._note(self._row(number, head, _fault(run, body, mac, seq)), (self._path, number))
        run.step(seq, mac, good=good)

    def _fits(self, run: _Run, body: bytes, mac: bytes) -> bool:
        if run.signer is None:  # the line that says which key it is, is missing
            run.signer = next((one for one in self._signers.values() if one.mac(run.last, body) == mac), None)
            return run.signer is not None
        if run.signer.mac(run.last, body) == mac:
            return True
        # behind a line that was put in, the next one follows the last one that fits
        return run.last != run.good and run.signer.mac(run.good, body) == mac

    def _begin(self, number: int, body: bytes, mac: bytes, head: Head) -> _Run | None:
        """Take up a run in a file; None if there is nothing to hold its first line against."""
        instance, seq = head[3], int(head[1])
        known = self._runs.get(instance)
        if (begins := _BEGIN.search(body)) is not None:
            after = begins[2]
            run = _Run(self._signers.get(begins[1]), 0, after, after)
            if known is None:
                self._starts.append((after, self._row(number, head, NO_START)))
        elif known is not None and seq > known.seq:
            run = replace(known)
        elif known is not None and (before := self._before.get((instance, seq))) is not None:
            run = _Run(known.signer, 0, before, before)
        else:
            self._here[instance] = _Run(None if known is None else known.signer, seq, mac, mac)
            if known is None:
                self._starts.append((None, self._row(number, head, NO_START)))
            return None
        self._here[instance] = run
        return run

    def _unsigned(self, number: int, line: bytes, head: Head | None) -> None:
        """Note a line of the log without a mac; what is no JSON is told as unreadable."""
        if head is None or not line.endswith(b"}"):
            try:
                if not isinstance(msgspec.json.decode(line), dict):
                    return
            except (ValueError, RecursionError):
                return
        self._note(self._row(number, head, UNSIGNED), (self._path, head and head[3], UNSIGNED))

    def _row(self, number: int, head: Head | None, fault: str) -> Row:
        at = None
        if head is not None:
            with suppress(ValueError):
                at = datetime.fromisoformat(head[2].decode("utf-8", "replace")).replace(tzinfo=None)
        return {
            "file": str(self._path), "line": number, "lines": 0,
            "instance": head and head[3].decode("utf-8", "replace"), "seq": head and int(head[1]),
            "ts": at, "fault": fault,
        }  # fmt: skip

    def _note(self, row: Row, alike: tuple[object, ...]) -> None:
        self._count += 1
        if alike in self._faults or len(self._faults) < _KEPT_FAULTS:
            self._faults.setdefault(alike, row)["lines"] += 1


def _fault(run: _Run, body: bytes, mac: bytes, seq: int) -> str:
    signer = run.signer
    if seq <= run.seq or any(signer is not None and signer.mac(one, body) == mac for one in run.recent):
        return MOVED
    return MISSING if seq > run.seq + 1 else CHANGED


@contextmanager
def opened(path: Path, sources: Sources) -> Iterator[BinaryIO]:
    """Open a file for reading, unpacked. Raises AuditingError."""
    try:
        with path.open("rb") as file:
            yield cast("BinaryIO", gzip.GzipFile(fileobj=file)) if path in sources.gzipped else file
    except (OSError, EOFError) as exc:
        raise AuditingError(f"{path}: {getattr(exc, 'strerror', None) or exc}") from exc


def carries_macs(sources: Sources) -> bool:
    """Tell whether a line has a mac, among the first few of each file. Raises AuditingError."""
    for path in sources.every:
        with opened(path, sources) as file:
            few = zip(range(_KEPT_MACS), file, strict=False)
            if any(_MARK in line[-_TAIL - 1 :] for _, line in few):
                return True
    return False


def _first(path: Path, sources: Sources) -> tuple[bytes, bytes, int]:
    """Give time, run and number of a file's first line that has them, among the first few."""
    with opened(path, sources) as file:
        for _, line in zip(range(_KEPT_MACS), file, strict=False):
            if (head := _HEAD.match(line)) is not None:
                return head[2], head[3], int(head[1])
    return b"", b"", 0
