"""What of a run is kept: the smallest inputs that together take every way through the shim that was found."""

import sys
from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from pathlib import Path
from types import FrameType
from typing import Any

from fuzz.targets import target

_SHIM = str(Path(__file__).parents[1] / "shim")
_MOST_BYTES = 1_024

Arc = tuple[str, int, int]


def minimised(name: str, found: Iterable[bytes]) -> list[bytes]:
    """Give those of some inputs that take a way which neither the target's seeds nor smaller ones take."""
    check, seeds = target(name).check, target(name).SEEDS
    known: set[Arc] = set()
    for seed in seeds:
        known |= ways(check, seed)
    kept = []
    for data in sorted(set(found), key=lambda one: (len(one), one)):
        if len(data) <= _MOST_BYTES and not (taken := ways(check, data)) <= known:
            known |= taken
            kept.append(data)
    return kept


def ways(check: Callable[[bytes], None], data: bytes) -> set[Arc]:
    """Give the steps from line to line of the shim that an input makes."""
    taken: set[Arc] = set()

    def enter(frame: FrameType, _event: str, _arg: Any) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(_SHIM):
            return None
        before = 0

        def step(frame: FrameType, event: str, _arg: Any) -> Any:
            nonlocal before
            if event == "line":
                taken.add((file, before, frame.f_lineno))
                before = frame.f_lineno
            return step

        return step

    outer = sys.gettrace()
    sys.settrace(enter)
    try:
        check(data)
    finally:
        sys.settrace(outer)
    return taken


def write(folder: Path, kept: Sequence[bytes]) -> None:
    """Make a folder hold these inputs and no others, each under its hash."""
    folder.mkdir(parents=True, exist_ok=True)
    names = {sha256(data).hexdigest()[:16]: data for data in kept}
    for path in folder.iterdir():
        if path.name not in names:
            path.unlink()
    for name, data in names.items():
        (folder / name).write_bytes(data)
