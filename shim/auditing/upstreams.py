"""Two servers side by side: how they answer as a whole, and tool by tool. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from shim.auditing.logs import Row
from shim.auditing.rates import difference


def compared(upstreams: Sequence[Row], tools: Sequence[Row]) -> dict[str, Any]:
    """Compare servers by the rows of the tables `upstreams` and `tools`.

    `errors`: each new server against each old one, by how many per cent of requests fail, with the upper
    bound of the difference at 95 per cent. `tools`: those that more than one server was asked for, most
    requests first.
    """
    old = [row for row in upstreams if row["upstream_era"] == "legacy"]
    new = [row for row in upstreams if row["upstream_era"] == "modern"]
    by_tool: dict[str, list[Row]] = defaultdict(list)
    for row in tools:
        if row["upstream"] is not None:
            by_tool[row["tool"]].append(row)
    shared = [rows for rows in by_tool.values() if len(rows) > 1]
    shared.sort(key=lambda rows: (-sum(row["requests"] for row in rows), rows[0]["tool"]))
    return {
        "errors": [_points(one, other) for one in new for other in old],
        "tools": [
            {**row, "error_percent": _percent(row)}
            for rows in shared
            for row in sorted(rows, key=lambda row: str(row["upstream"]))
        ],
    }  # fmt: skip


def _points(new: Row, old: Row) -> Row:
    above, at_most = difference((new["errors"], new["requests"]), (old["errors"], old["requests"]))
    return {
        "new": new["upstream"], "new_percent": _percent(new),
        "old": old["upstream"], "old_percent": _percent(old),
        "points": round(100 * above, 2), "points_at_most": round(100 * at_most, 2),
    }  # fmt: skip


def _percent(row: Row) -> float:
    return round(100.0 * int(row["errors"]) / int(row["requests"]), 2)
