"""Tasks that have not ended, as far as the logs tell."""

from shim.auditing.logs import Logs, Row

_OPEN = """
WITH step AS (
    SELECT task_id, ts, seq, event, upstream, upstream_era, who FROM known
    WHERE task_id IS NOT NULL AND (
        event IN ('task.created', 'task.status', 'task.ended', 'task.lost', 'task.purged', 'adopted')
        OR (event = 'request' AND outcome = 'ok')
    )
), task AS (
    SELECT task_id, arg_max(upstream, (ts, seq)) AS upstream,
           arg_max(upstream_era, (ts, seq)) AS upstream_era,
           arg_max(event, (ts, seq)) FILTER (event <> 'request') AS event, arg_min(who, (ts, seq)) AS caller,
           min(ts) AS first, max(ts) AS last
    FROM step GROUP BY task_id
), told AS (
    SELECT *, CASE WHEN event IN ('task.ended', 'task.lost', 'task.purged') THEN 'ended'
                   WHEN upstream IS NULL OR upstream_era IS NULL THEN 'upstream not told'
                   WHEN event IS NULL THEN 'end not told' ELSE 'open' END AS state
    FROM task
)
SELECT task_id, state, upstream, caller, first, last FROM told
WHERE state <> 'ended' AND (
    upstream IS NULL OR upstream = $upstream
    OR ($upstream IS NULL AND coalesce(upstream_era, 'legacy') = 'legacy'))
ORDER BY first, task_id
"""


def open_tasks(logs: Logs, upstream: str | None) -> list[Row]:
    """Give tasks on an upstream, or on any of the old API, that did not end in the period.

    `state` is `open`, or what the logs do not tell: a task that was asked for and began before the logs do.
    """
    return logs.rows(_OPEN, upstream=upstream)
