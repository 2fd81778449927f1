"""Text for a terminal: rows in columns, times, durations."""

import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


_GAP = 2


def columns(rows: Iterable[Sequence[str]], indent: str = "", room: int | None = None) -> list[str]:
    """Lay rows of equal length out in columns.

    Where they do not fit into `room` characters, each row, the head too, goes on in lines of its own below,
    broken between columns and indented: so what belongs together stays aligned.
    """
    table = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = list(_lines(widths, None if room is None else room - len(indent)))
    return [
        indent + " " * (_GAP if part.start else 0) + _in_line(row[part], widths[part])
        for row in table
        for part in lines
    ]


def terminal_room() -> int | None:
    """Tell how many characters a line of the terminal has; None where the output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _lines(widths: Sequence[int], room: int | None) -> Iterator[slice]:
    """Share the columns out to as many lines as they need."""
    first, used = 0, 0
    for number, width in enumerate(widths):
        if room is not None and number > first and used + width > room:
            yield slice(first, number)
            first, used = number, _GAP
        used += width + _GAP
    yield slice(first, len(widths))


def _in_line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(cells, widths, strict=True))
    return (" " * _GAP).join(padded).rstrip()


def moment(at_ms: int | None) -> str:
    """Write a time in UTC to the second; `-` for none."""
    return "-" if at_ms is None else f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def duration(length_ms: int) -> str:
    """Write a length of time in its largest whole unit."""
    for unit_ms, name in _UNITS:
        if length_ms >= unit_ms:
            return f"{length_ms // unit_ms} {name}"
    return f"{max(length_ms, 0)} ms"
