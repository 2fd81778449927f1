"""Text for a terminal: rows in columns, times."""

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TextIO

import click

from shim.audit.printable import printable

_CELL_CHARS = _LINE_CHARS = 2_000
_GAP = 2
_NARROWEST = 20
"""What a text has at least, however narrow the terminal is."""


def columns(rows: Iterable[Sequence[str]], indent: str = "", room: int | None = None) -> list[str]:
    """Lay rows of equal length out in columns; what others stated in them is made fit to be shown.

    Where they do not fit into `room` characters, each row, the head too, goes on in lines of its own below,
    broken between columns and indented: so what belongs together stays aligned.
    """
    table = [tuple(printable(cell, _CELL_CHARS) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    lines = list(_lines(widths, None if room is None else room - len(indent)))
    return [
        indent + " " * (_GAP if part.start else 0) + _in_line(row[part], widths[part])
        for row in table
        for part in lines
    ]


def facts(rows: Iterable[tuple[str, str]], indent: str = "", room: int | None = None) -> list[str]:
    """Lay names out beside what is said of each; what is longer than the room goes on below its beginning."""
    table = [(name, printable(said, _LINE_CHARS)) for name, said in rows]
    width = max((len(name) for name, _ in table), default=0)
    return [
        line
        for name, said in table
        for line in hanging(f"{indent}{name.ljust(width)}{' ' * _GAP}", said, room)
    ]


def hanging(before: str, text: str, room: int | None) -> list[str]:
    """Give a text behind what stands before it, its further lines below its beginning."""
    if room is None:
        return [(before + text).rstrip()]
    at_least = max(_NARROWEST, room - len(before))
    first, *rest = textwrap.wrap(text, at_least, break_long_words=False, break_on_hyphens=False) or [""]
    return [(before + first).rstrip(), *(" " * len(before) + line for line in rest)]


def said(before: str, text: str) -> None:
    """Say something on standard error: in one line, but for a terminal that is narrower."""
    click.echo("\n".join(hanging(before, text, terminal_room(sys.stderr))), err=True)


def lines_of(texts: Iterable[str]) -> str:
    """Give lines for people, in which what others stated is made fit to be shown."""
    return "\n".join(printable(text, _LINE_CHARS) for text in texts)


def terminal_room(output: TextIO | None = None) -> int | None:
    """Tell how many characters a line of the terminal has; None where the output is no terminal."""
    return shutil.get_terminal_size().columns if (output or sys.stdout).isatty() else None


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
