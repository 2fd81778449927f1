"""How the followed log looks in a terminal. Needs rich (extra `audit`)."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from shim.audit.counted import counted
from shim.auditing.live import Caller, Corner, Screen, Trouble
from shim.clock import duration

_BLOCKS = " ▁▂▃▄▅▆▇█"
_HEADINGS = 9
"""Lines that are no rows: the title, and spaces and headings of the parts."""
_MIN_ROWS = 1
_WIDE = 100
"""Columns from which there is room to say what a corner is."""
_FIGURES = 48
"""Columns that the figures of a corner take where there is no room to say what it is."""
_BLOCKS_SHOWN = 30
_AGO, _COUNT, _TIMES, _NEW, _GAP = 10, 8, 9, 3, 2
_ABOUT = {
    "LL": "old client, old server", "LM": "old client, new server",
    "ML": "new client, old server", "MM": "new client, new server",
}  # fmt: skip


def drawn(
    screen: Screen,
    now: datetime,
    *,
    name: str,
    waiting: bool,
    upstreams: Sequence[str],
    width: int,
    height: int,
) -> RenderableType:
    """Lay the screen out for a terminal of that size."""
    rows = height - _HEADINGS - len(screen.corners) - (len(upstreams) + 2 if upstreams else 0)
    callers = max(_MIN_ROWS, min(len(screen.callers), rows - _MIN_ROWS, (rows + 1) // 2))
    troubles = max(_MIN_ROWS, rows - callers)
    parts: list[RenderableType] = [
        _title(screen, now, name, waiting=waiting),
        Text(),
        _corners(screen.corners, width),
    ]
    if upstreams:
        parts += [Text(), _heading("Upstreams")]
        parts += [Text(f"  {line}", no_wrap=True, overflow="ellipsis") for line in upstreams]
    parts += [Text(), _heading("Callers of the old API, newest first")]
    parts += [_callers(screen.callers[:callers], now, width)]
    parts += [Text(), _heading("What went wrong, newest first")]
    parts += [_troubles(screen.troubles[:troubles], now, width)]
    return Group(*parts)


def _title(screen: Screen, now: datetime, name: str, *, waiting: bool) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(name, "bold")
    if waiting:
        return text.append("  there is no such file yet", "yellow")
    if screen.newest is None:
        return text.append("  no events yet", "dim")
    text.append(f"  {screen.newest:%H:%M:%S} UTC, {_ago(screen.newest, now)}", "dim")
    for count, what in (
        (screen.missed, ("event missing", "events missing")),
        (screen.unreadable, ("line cannot be read", "lines cannot be read")),
    ):
        if count:
            text.append(f"  {counted(count, *what)}", "yellow")
    return text


def _heading(text: str) -> Text:
    return Text(text, "bold")


def _table(*columns: tuple[str, int, dict[str, Any]]) -> Table:
    """Make a table of columns of fixed width, so that it does not move as rows come."""
    table = Table(box=None, padding=(0, _GAP, 0, 0), header_style="dim", show_edge=False)
    for name, width, options in columns:
        table.add_column(name, width=width, no_wrap=True, overflow="ellipsis", **options)
    return table


def _corners(corners: Sequence[Corner], width: int) -> Table:
    right: dict[str, Any] = {"justify": "right"}
    blocks = max(1, min(_BLOCKS_SHOWN, width - _FIGURES))
    table = _table(
        ("", 4, {"justify": "right", "style": "bold"}), ("", 22 if width >= _WIDE else 1, {"style": "dim"}),
        ("1 min", 6, right), ("10 min", 6, right), ("failed", 6, right), ("seen", 7, right),
        ("the last ten minutes", blocks, {}),
    )  # fmt: skip
    most = max((max(_paired(corner.steps)) for corner in corners), default=0)
    for corner in corners:
        table.add_row(
            corner.name, _ABOUT.get(corner.name, "no server") if width >= _WIDE else "",
            str(corner.last_minute), str(corner.last_ten),
            Text(str(corner.failed_last_ten), "red" if corner.failed_last_ten else ""), str(corner.seen),
            Text(_line(corner.steps, most)[-blocks:], "yellow" if corner.name[0] == "L" else "cyan"),
        )  # fmt: skip
    return table


def _callers(callers: Sequence[Caller], now: datetime, width: int) -> RenderableType:
    if not callers:
        return Text("  none", "dim")
    rest = width - _AGO - _COUNT - _NEW - 6 * _GAP
    table = _table(
        ("", _AGO, {"justify": "right", "style": "dim"}), ("caller", rest * 3 // 9, {}),
        ("client", rest * 3 // 9, {}), ("requests", _COUNT, {"justify": "right"}),
        ("the last one", rest * 3 // 9, {}), ("", _NEW, {"style": "bold yellow"}),
    )  # fmt: skip
    for one in callers:
        cells = (one.name, one.client, str(one.requests), one.what, "new" if one.is_new else "")
        table.add_row(_ago(one.at, now), *map(Text, cells))
    return table


def _troubles(troubles: Sequence[Trouble], now: datetime, width: int) -> RenderableType:
    if not troubles:
        return Text("  nothing", "dim")
    rest = width - _AGO - _TIMES - 4 * _GAP
    table = _table(
        ("", _AGO, {"justify": "right", "style": "dim"}), ("what", rest * 5 // 9, {"style": "red"}),
        ("who", rest * 4 // 9, {}), ("", _TIMES, {"style": "dim"}),
    )  # fmt: skip
    for one in troubles:
        cells = (one.what, one.who, f"{one.times} times" if one.times > 1 else "")
        table.add_row(_ago(one.at, now), *map(Text, cells))
    return table


def _ago(at: datetime, now: datetime) -> str:
    seconds = int((now - at).total_seconds())
    return "now" if seconds < 1 else f"{duration(seconds * 1000)} ago"


def _line(steps: Sequence[int], most: int) -> str:
    """Draw counts as blocks; whatever there is shows."""
    top = len(_BLOCKS) - 1
    return "".join(_BLOCKS[0 if not count else max(1, count * top // most)] for count in _paired(steps))


def _paired(steps: Sequence[int]) -> list[int]:
    return [sum(steps[at : at + 2]) for at in range(0, len(steps), 2)]
