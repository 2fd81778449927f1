"""How the old API is used: by caller and day, by client and feature, and how long ago last."""

from collections.abc import Iterable
from datetime import datetime, timedelta

from shim.auditing.logs import Logs, Row

CALLERS_DAILY = 60
"""So many callers, those who used it last, are told day by day."""
CLIENTS = 40
"""So many client versions, those that used it most, are told by feature."""

_DAILY = """
WITH day AS (
    SELECT caller_key, who, CAST(ts AS DATE) AS day, count(*) AS requests, any_value(person) AS person,
           list(DISTINCT software) AS clients, min(ts) AS first, max(ts) AS last
    FROM known WHERE event = 'request' AND legacy GROUP BY ALL
)
SELECT who AS caller, any_value(person) AS hash, list_sort(list_distinct(flatten(list(clients)))) AS clients,
       CAST(sum(requests) AS BIGINT) AS requests, min(first) AS first_legacy, max(last) AS last_legacy,
       list({day: day, requests: requests} ORDER BY day) AS days
FROM day GROUP BY caller_key, who ORDER BY last_legacy DESC, caller, hash LIMIT $most
"""

_USED = """
WITH used AS (
    SELECT software, unnest(list_distinct(features)) AS feature FROM known WHERE event = 'request' AND legacy
), most AS (
    SELECT software, count(*) AS requests FROM known WHERE event = 'request' AND legacy
    GROUP BY software ORDER BY requests DESC, software LIMIT $most
)
SELECT software AS client, any_value(most.requests) AS legacy, feature, count(*) AS requests
FROM used JOIN most USING (software) GROUP BY software, feature
ORDER BY legacy DESC, client, requests DESC, feature
"""

_AGES = {"1 day": timedelta(1), **{f"{days} days": timedelta(days) for days in (7, 14, 30)}}
_LONGER = "longer ago"


def daily(logs: Logs) -> list[Row]:
    """Give who used the old API on which day and how often, who used it last first; CALLERS_DAILY at most."""
    return logs.rows(_DAILY, most=CALLERS_DAILY)


def used(logs: Logs) -> list[Row]:
    """Give which client version used which feature of the old API, and how often; CLIENTS at most."""
    return logs.rows(_USED, most=CLIENTS)


def ages(callers: Iterable[Row], until: datetime) -> list[Row]:
    """Count callers, rows of that table, by how long before `until` they last used the old API."""
    found = {name: [0, 0] for name in (*_AGES, _LONGER)}
    for caller in callers:
        if (last := caller["last_legacy"]) is not None:
            ago = until - last
            counts = found[next((name for name, age in _AGES.items() if ago <= age), _LONGER)]
            counts[0] += 1
            counts[1] += caller["legacy"]
    return [
        {"within": name, "callers": count, "requests": requests} for name, (count, requests) in found.items()
    ]
