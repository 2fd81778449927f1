"""Text for a terminal: rows in columns, times."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime


def columns(rows: Iterable[Sequence[str]], indent: str = "") -> list[str]:
    """Lay rows of equal length out in columns."""
    table = [tuple(row) for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return [
        indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in table
    ]


def moment(at_ms: int | None) -> str:
    """Write a time in UTC to the second; `-` for none."""
    return "-" if at_ms is None else f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"
