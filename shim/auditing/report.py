"""The report: everything that the logs say about the migration, as plain data."""

from dataclasses import asdict
from datetime import date, datetime, timedelta
from typing import Any

from shim.auditing.counterpart import NONE, counterpart
from shim.auditing.doubts import doubts
from shim.auditing.integrity import integrity
from shim.auditing.legacy import connected, legacy_callers
from shim.auditing.logs import Logs, Row
from shim.auditing.period import Period
from shim.auditing.tables import TABLES, ask
from shim.auditing.trend import Trend, trend

ACTIVE = timedelta(days=14)
"""Who used the old API within so long counts as still using it."""
_DAY_COVERED = 0.9
_MINUTES_A_DAY = 24 * 60

_USAGE = """
SELECT count(*) AS requests, count(*) FILTER (legacy) AS legacy, count(*) FILTER (NOT legacy) AS modern,
       count(DISTINCT caller_key) FILTER (legacy) AS legacy_callers,
       count(DISTINCT caller_key) FILTER (NOT legacy) AS modern_callers,
       min(ts) FILTER (legacy) AS first_legacy, max(ts) FILTER (legacy) AS last_legacy
FROM known WHERE event = 'request'
"""

_DAYS = """
WITH day AS (
    SELECT CAST(minute AS DATE) AS day, count(*) AS minutes, count(*) FILTER (covered) AS covered
    FROM bare GROUP BY 1
), used AS (
    SELECT CAST(ts AS DATE) AS day, count(*) FILTER (legacy) AS legacy,
           count(*) FILTER (NOT legacy) AS modern,
           count(DISTINCT caller_key) FILTER (legacy) AS legacy_callers
    FROM known WHERE event = 'request' GROUP BY 1
)
SELECT day, coalesce(legacy, 0) AS legacy, coalesce(modern, 0) AS modern,
       coalesce(legacy_callers, 0) AS legacy_callers, coalesce(minutes, 0) AS minutes,
       coalesce(covered, 0) AS covered
FROM day FULL JOIN used USING (day) ORDER BY day
"""


def report(logs: Logs, period: Period, off: datetime | None = None) -> dict[str, Any]:
    """Answer everything for the period; `off` is when the old API goes off, the period's end unless given."""
    logs.look(period)
    whole = integrity(logs)
    days = logs.rows(_DAYS)
    known = [
        row
        for row in days
        if row["minutes"] == _MINUTES_A_DAY and row["covered"] >= _DAY_COVERED * _MINUTES_A_DAY
    ]
    requests = trend([(row["day"], row["legacy"]) for row in known])
    tables: dict[str, list[Row]] = {name: ask(logs, name) for name in TABLES}
    return {
        "scope": "This covers only traffic through the shim.",
        "period": asdict(period),
        "read": {
            "files": logs.files, "repeated": logs.duplicates,
            "since": logs.span and logs.span.since, "until": logs.span and logs.span.until,
        },
        "usage": logs.row(_USAGE),
        "doubts": doubts(whole, period),
        "coverage": {
            "minutes": whole.coverage.minutes, "covered": whole.coverage.covered,
            "percent": whole.coverage.percent, "gaps": list(whole.coverage.gaps),
        },
        "trend": {
            "requests": asdict(requests),
            "callers": asdict(trend([(row["day"], row["legacy_callers"]) for row in known])),
        },
        "days": days,
        "off": _off(logs, period, off or period.until, requests, known),
        "without_counterpart": [row for row in _features(tables) if row["instead"].startswith(NONE)],
        **tables,
        "features": _features(tables),
    }  # fmt: skip


def _features(tables: dict[str, list[Row]]) -> list[Row]:
    """Say what takes the place of each feature used, and of each method of old requests that ends."""
    named = {row["feature"] for row in tables["features"]}
    rows = [{**row, "instead": counterpart(row["feature"]) or "not known"} for row in tables["features"]]
    rows += [
        {
            "feature": row["method"], "requests": row["legacy"], "callers": row["callers"], "clients": None,
            "last": row["last"], "instead": instead,
        }
        for row in tables["methods"]
        if row["era"] == "legacy" and row["method"] not in named and (instead := counterpart(row["method"]))
    ]  # fmt: skip
    return rows


def _off(logs: Logs, period: Period, off: datetime, requests: Trend, known: list[Row]) -> dict[str, Any]:
    """Say what breaks if the old API goes off then."""
    end = min(off, period.until)
    active = legacy_callers(logs, end - ACTIVE, end)
    after = legacy_callers(logs, off, period.until) if off < period.until else []
    return {
        "at": off,
        "callers_still_active": active,
        "connected": [row for row in connected(logs) if row["open"]] if off >= period.until else [],
        "calls_after": after,
        "expected_per_day": _expected(requests, known, off.date()) if off > period.until else None,
        "open_tasks": sum(row["open"] for row in ask(logs, "tasks")),
    }


def _expected(requests: Trend, known: list[Row], day: date) -> dict[str, int] | None:
    """Follow the trend to that day: legacy requests a day there, with the bounds of the pace."""
    if requests.per_day is None or requests.per_day_low is None or requests.per_day_high is None:
        return None
    ahead = (day - known[-1]["day"]).days
    level = sorted(row["legacy"] for row in known[-7:])[len(known[-7:]) // 2]
    return {
        name: max(0, round(level + slope * ahead))
        for name, slope in (
            ("low", requests.per_day_low), ("middle", requests.per_day), ("high", requests.per_day_high)
        )
    }  # fmt: skip
