"""The span of time that is looked at."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shim.auditing.sources import AuditingError

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LENGTH = re.compile(r"(\d{1,5})([mhdw])")


@dataclass(frozen=True, slots=True)
class Period:
    """From `since` up to, not including, `until`; both in UTC without saying so, as the logs are kept."""

    since: datetime
    until: datetime

    @property
    def days(self) -> float:
        """Its length in days."""
        return (self.until - self.since) / timedelta(days=1)


def length(text: str) -> timedelta:
    """Read a length such as 30m, 12h, 14d, 2w. Raises AuditingError."""
    found = _LENGTH.fullmatch(text)
    if found is None:
        raise AuditingError(f"{text!r} is no length of time; write it as 12h, 14d or 2w")
    return timedelta(**{_UNITS[found[2]]: int(found[1])})


def moment(text: str, end: datetime) -> datetime:
    """Read a date, a time, or a length counted back from `end`. Raises AuditingError."""
    if _LENGTH.fullmatch(text):
        return end - length(text)
    try:
        read = datetime.fromisoformat(text)
    except ValueError:
        raise AuditingError(f"{text!r} is no time; write a date, an RFC 3339 time, or 14d") from None
    return read if read.tzinfo is None else read.astimezone(UTC).replace(tzinfo=None)


def period(since: str | None, until: str | None, now: datetime, logged: Period | None) -> Period:
    """Give what `--since` and `--until` mean; without both, what the log spans. Raises AuditingError.

    A length given for `since` counts back from `until`, and that is now unless it is given.
    """
    if since is None and until is None and logged is not None:
        return logged
    end = now if until is None else moment(until, now)
    begin = moment(since, end) if since is not None else (logged.since if logged is not None else end)
    if begin > end:
        raise AuditingError(f"the period ends at {end:%Y-%m-%dT%H:%MZ}, before it begins")
    return Period(begin, end)
