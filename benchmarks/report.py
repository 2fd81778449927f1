"""The one table of a run, and what was to be reached."""

from collections.abc import Iterable

import msgspec


class Row(msgspec.Struct, kw_only=True):
    """One line of the table; None where a figure means nothing for the cell."""

    cell: str
    who: str
    p50_ms: float | None = None
    p99_ms: float | None = None
    rate: float | None = None
    cpu_us: float | None = None
    errors: int = 0
    note: str = ""


class Target(msgspec.Struct, kw_only=True):
    """A figure with its bound."""

    what: str
    value: float
    bound: float
    at_most: bool
    unit: str = ""

    @property
    def reached(self) -> bool:
        """True if the figure keeps its bound; a figure that is not a number does not."""
        return self.value <= self.bound if self.at_most else self.value >= self.bound

    def line(self) -> str:
        """Give the line of the verdict."""
        verdict = "reached    " if self.reached else "NOT reached"
        relation = "at most" if self.at_most else "at least"
        return f"{verdict}  {self.what}: {self.value:.4g}{self.unit} ({relation} {self.bound:g}{self.unit})"


class Report(msgspec.Struct):
    """What a run found."""

    rows: list[Row] = []
    targets: list[Target] = []

    def text(self) -> str:
        """Give the table and the verdicts."""
        base = {row.who: row for row in self.rows if row.cell == "call"}.get("pass-through")
        head = (
            "cell",
            "through",
            "p50 ms",
            "p99 ms",
            "req/s",
            "CPU us/req",
            "p50 +ms",
            "req/s x",
            "CPU x",
            "",
        )
        lines = [head, *(_cells(row, base) for row in self.rows)]
        widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
        table = [
            "  ".join(_align(text, width, at) for at, (text, width) in _columns(line, widths)).rstrip()
            for line in lines
        ]
        return "\n".join([*table, "", *(target.line() for target in self.targets)])


def _columns(line: Iterable[str], widths: Iterable[int]) -> Iterable[tuple[int, tuple[str, int]]]:
    return enumerate(zip(line, widths, strict=True))


def _align(text: str, width: int, column: int) -> str:
    return text.rjust(width) if 1 < column < 9 else text.ljust(width)


def _cells(row: Row, base: Row | None) -> tuple[str, ...]:
    more = ratio = cpu = ""
    if base is not None and row.cell == "call" and row.who != base.who:
        more = _number(_minus(row.p50_ms, base.p50_ms), "+.3f")
        ratio = _number(_share(row.rate, base.rate), ".2f")
        cpu = _number(_share(row.cpu_us, base.cpu_us), ".2f") if row.who != "direct" else ""
    note = " ".join(part for part in (row.note, f"{row.errors} ERRORS" if row.errors else "") if part)
    return (
        row.cell, row.who, _number(row.p50_ms, ".3f"), _number(row.p99_ms, ".3f"), _number(row.rate, ".0f"),
        _number(row.cpu_us, ".0f"), more, ratio, cpu, note,
    )  # fmt: skip


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _minus(value: float | None, base: float | None) -> float | None:
    return None if value is None or base is None else value - base


def _share(value: float | None, base: float | None) -> float | None:
    return None if value is None or not base else value / base
