"""The report: everything that the logs say about the migration, as plain data."""

from dataclasses import asdict
from datetime import date, datetime, timedelta
from typing import Any

from shim.auditing.counterpart import NONE, counterpart
from shim.auditing.doubts import doubts
from shim.auditing.gate import Gate, worst
from shim.auditing.integrity import Integrity, integrity
from shim.auditing.legacy import connected, legacy_callers
from shim.auditing.logs import Logs, Row
from shim.auditing.period import Period
from shim.auditing.tables import TABLES, ask
from shim.auditing.trend import Trend, line, trend
from shim.auditing.upstreams import compared
from shim.auditing.usage import ages, daily, used

ACTIVE = timedelta(days=14)
"""Who used the old API within so long counts as still using it."""
RULES = ("no-legacy-for:14d", "no-open-tasks")
"""What must be safe for the old API to go off."""
_AHEAD = timedelta(days=28)
"""A trend's line is told so far beyond the last day that is known, or as far as it reaches back."""
_DAY_COVERED = 0.9
_MINUTES_A_DAY = 24 * 60

_USAGE = """
SELECT count(*) AS requests, count(*) FILTER (legacy) AS legacy, count(*) FILTER (modern) AS modern,
       count(*) FILTER (unidentified) AS unidentified,
       count(DISTINCT caller_key) FILTER (legacy) AS legacy_callers,
       count(DISTINCT caller_key) FILTER (modern) AS modern_callers,
       min(ts) FILTER (legacy) AS first_legacy, max(ts) FILTER (legacy) AS last_legacy
FROM known WHERE event = 'request'
"""

_DAYS = """
WITH day AS (
    SELECT CAST(minute AS DATE) AS day, count(*) AS minutes, count(*) FILTER (covered) AS covered
    FROM bare GROUP BY 1
), used AS (
    SELECT CAST(ts AS DATE) AS day, count(*) FILTER (legacy) AS legacy,
           count(*) FILTER (modern) AS modern,
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
    verdict = _verdict(logs, period)
    logs.look(period)
    whole = integrity(logs)
    days = [{**row, "whole": _is_whole(row)} for row in logs.rows(_DAYS)]
    known = [row for row in days if row["whole"]]
    counts = {
        "requests": [(row["day"], row["legacy"]) for row in known],
        "callers": [(row["day"], row["legacy_callers"]) for row in known],
    }
    trends = {name: trend(of) for name, of in counts.items()}
    tables: dict[str, list[Row]] = {name: ask(logs, name) for name in TABLES}
    return {
        "scope": "This covers only traffic through the shim.",
        "verdict": verdict,
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
        "missing": _missing(whole, period),
        "trend": {
            name: {**asdict(found), "line": _line(counts[name], found, off)} for name, found in trends.items()
        },
        "days": days,
        "off": _off(logs, period, off, trends["requests"], counts["requests"]),
        "last_use": {"ages": ages(tables["callers"], period.until), "callers": daily(logs)},
        "used": used(logs),
        "compared": compared(tables["upstreams"], tables["tools"]),
        "without_counterpart": [row for row in _features(tables) if row["instead"].startswith(NONE)],
        **tables,
        "features": _features(tables),
    }  # fmt: skip


def _verdict(logs: Logs, period: Period) -> dict[str, Any]:
    """Say whether the old API can go off at the end of the period."""
    gate = Gate(logs, period)
    answers = [gate.ask(rule) for rule in RULES]
    return {"verdict": worst(answers), "rules": [asdict(answer) for answer in answers]}


def _is_whole(day: Row) -> bool:
    return bool(day["minutes"] == _MINUTES_A_DAY and day["covered"] >= _DAY_COVERED * _MINUTES_A_DAY)


def _missing(whole: Integrity, period: Period) -> dict[str, Any]:
    """Say where numbers and lines of the period are missing."""
    return {
        "dropped": whole.dropped,
        "holes": [
            row for row in whole.holes if row["before"] >= period.since and row["after"] < period.until
        ],
        "unreadable": list(whole.unreadable),
        "lost": list(whole.lost),
        "runs": [row for row in whole.broken(period.until) if row["at"] >= period.since],
        "chain": None if whole.chain is None else asdict(whole.chain),
    }


def _line(counts: list[tuple[date, int]], found: Trend, off: datetime | None) -> list[Row]:
    """Follow a trend until it is gone for certain or the old API goes off, as far as that can be seen."""
    if not counts:
        return []
    last = counts[-1][0]
    furthest = last + max(_AHEAD, last - counts[0][0])
    ends = [found.zero_latest or (furthest if found.zero else last + _AHEAD)]
    if off is not None and last < off.date() <= furthest:
        ends.append(off.date())
    return [asdict(one) for one in line(counts, found, min(max(ends), furthest))]


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
        if row["era"] == "legacy" and row["legacy"] and row["method"] not in named
        and (instead := counterpart(row["method"]))
    ]  # fmt: skip
    return rows


def _off(
    logs: Logs, period: Period, off: datetime | None, requests: Trend, counts: list[tuple[date, int]]
) -> dict[str, Any]:
    """Say what breaks if the old API goes off then."""
    at = off or period.until
    end = min(at, period.until)
    active = legacy_callers(logs, end - ACTIVE, end)
    after = legacy_callers(logs, at, period.until) if at < period.until else []
    return {
        "at": at,
        "days_ahead": None if off is None else (off.date() - period.until.date()).days,
        "callers_still_active": active,
        "connected": [row for row in connected(logs) if row["open"]] if at >= period.until else [],
        "calls_after": after,
        "expected_per_day": _expected(requests, counts, at.date()) if at > period.until else None,
        "open_tasks": sum(row["open"] for row in ask(logs, "tasks")),
    }


def _expected(requests: Trend, counts: list[tuple[date, int]], day: date) -> dict[str, int] | None:
    """Follow the trend to that day: legacy requests a day there, with the bounds of the pace."""
    found = line(counts, requests, day)
    if not found:
        return None
    return {name: round(value) for name, value in asdict(found[-1]).items() if name != "day"}
