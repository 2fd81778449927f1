"""Who uses the old API: by requests that ended, and by what is open."""

from datetime import datetime

from shim.auditing.logs import Logs, Row

_CALLERS = """
SELECT who AS caller, any_value(person) AS hash, list_sort(list(DISTINCT software)) AS clients,
       count(*) AS requests, list_sort(list_distinct(flatten(list(DISTINCT features)))) AS features,
       list_sort(list(DISTINCT tool) FILTER (tool IS NOT NULL)) AS tools, max(ts) AS last
FROM known WHERE event = 'request' AND legacy AND ts >= $since AND ts < $until
GROUP BY caller_key, who ORDER BY requests DESC, caller, hash
"""

_REFUSED = """
SELECT coalesce(reason, '-') AS reason, http_status,
       list_sort(list(DISTINCT method) FILTER (method IS NOT NULL)) AS methods,
       count(*) AS requests, min(ts) AS first, max(ts) AS last
FROM known WHERE event = 'request' AND refused AND ts >= $since AND ts < $until
GROUP BY reason, http_status ORDER BY requests DESC, reason, http_status
"""

_ALIVE = """
WITH newest AS (
    SELECT run, max(seq) FILTER (event = 'instance.alive') AS newest,
           bool_or(event = 'instance.stopped') AS stopped
    FROM known WHERE event IN ('instance.alive', 'instance.stopped') GROUP BY run
), told AS (
    SELECT run, seq, ts, unnest(connected) AS one, 'session' AS what FROM known WHERE event = 'instance.alive'
    UNION ALL
    SELECT run, seq, ts, {caller: w.caller, caller_kind: w.caller_kind, client: w.client, count: w.count},
           coalesce(w.method, 'stream')
    FROM (SELECT run, seq, ts, unnest(waiting) AS w FROM known WHERE event = 'instance.alive')
    WHERE w.era = 'legacy' AND w.caller_kind IS NOT NULL -- who is not known yet may turn out to be nobody
), person AS (
    SELECT *, CASE WHEN one.caller_kind NOT IN ('token', 'session', 'none') THEN one.caller END AS hash,
           concat_ws(' ', coalesce(one.client.name, '(no name)'), one.client.version) AS software
    FROM told WHERE one.count > 0
), label AS (
    SELECT person AS hash, any_value(caller_label) AS label FROM known
    WHERE caller_label IS NOT NULL GROUP BY 1
)
SELECT coalesce(label, one.caller_kind || ':' || hash[:12], software) AS caller, hash, software AS client,
       what, arg_max(one.count, (ts, seq)) AS count, max(ts) AS last,
       bool_or(seq = newest AND NOT stopped) AS open
FROM person JOIN newest USING (run) LEFT JOIN label USING (hash)
GROUP BY ALL ORDER BY last DESC, caller, hash, client, what
"""


def legacy_callers(logs: Logs, since: datetime, until: datetime) -> list[Row]:
    """Give who used the old API between two times of the period, most first."""
    return logs.rows(_CALLERS, since=since, until=until)


def refused(logs: Logs, since: datetime, until: datetime) -> list[Row]:
    """Give what asked by the old API and was turned away before anything told who it is, by reason."""
    return logs.rows(_REFUSED, since=since, until=until)


def connected(logs: Logs) -> list[Row]:
    """Give legacy sessions, and calls and streams that had not ended, with when they were last told of.

    A `request` event tells of a stream only when it ends, weeks later perhaps. `open` are those that the
    newest sign of life of a run that goes on tells of.
    """
    return logs.rows(_ALIVE)
