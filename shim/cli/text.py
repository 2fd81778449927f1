"""Text for a terminal: rows in columns, times."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from shim.audit.printable import printable

_CELL_CHARS = _LINE_CHARS = 2_000


def columns(rows: Iterable[Sequence[str]], indent: str = "") -> list[str]:
    """Lay rows of equal length out in columns; what others stated in them is made fit to be shown."""
    table = [tuple(printable(cell, _CELL_CHARS) for cell in row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def lines_of(texts: Iterable[str]) -> str:
    """Give lines for people, in which what others stated is made fit to be shown."""
    return "\n".join(printable(text, _LINE_CHARS) for text in texts)


def moment(at_ms: int | None) -> str:
    """Write a time in UTC to the second; `-` for none."""
    return "-" if at_ms is None else f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
