"""Why logs may not tell everything of a period. While there is a doubt, nothing is safe."""

from datetime import timedelta

from shim.audit.counted import counted
from shim.auditing.integrity import Integrity
from shim.auditing.period import Period

_STILL_ALIVE = timedelta(seconds=90)


def doubts(whole: Integrity, period: Period, *, tolerated: int = 0) -> list[str]:
    """Say why the logs of the period may not tell everything; so many silent minutes are tolerated."""
    found = []
    if (silent := whole.coverage.silent_minutes) > tolerated:
        found.append(counted(silent, "minute has no sign of life", "minutes have no sign of life"))
    if whole.coverage.minutes == 0:
        found.append("the period has no whole minute")
    holes = [hole for hole in whole.holes if hole["before"] >= period.since and hole["after"] < period.until]
    if missing := sum(hole["missing"] for hole in holes):
        found.append(counted(missing, "event is missing", "events are missing"))
    if whole.dropped:
        found.append(f"{counted(whole.dropped, 'event was', 'events were')} lost by the shim's own account")
    if cut := [run for run in whole.runs if run["cut"] and period.since < run["first"] < period.until]:
        found.append(f"the beginning of {counted(len(cut), 'run')} is missing")
    unreadable = [
        line
        for line in whole.unreadable
        if not line["tail"]
        and (line["before"] is None or line["before"] >= period.since)
        and (line["after"] is None or line["after"] < period.until)
    ]
    if unreadable:
        found.append(f"{counted(len(unreadable), 'line')} cannot be read")
    if whole.differing:
        found.append(counted(whole.differing, "repeated event differs", "repeated events differ"))
    if whole.chain is not None and whole.chain.count:
        place = whole.chain.faults[0]
        lines = counted(
            whole.chain.count,
            "line does not stand as the shim wrote it",
            "lines do not stand as the shim wrote them",
        )
        where = f"the first one in {place['file']}, line {place['line']}: {place['fault']}"
        found.append(f"{lines}; {where}")
    newest = max((run["last"] for run in whole.runs), default=period.until)
    if ends := [run for run in whole.open_ends(period.until) if run["last"] < newest - _STILL_ALIVE]:
        are = counted(len(ends), "run ends", "runs end")
        found.append(f"{are} without having stopped, and nothing took their place")
    return found
