"""The tables: one question each, over the events that were looked at."""

from dataclasses import dataclass

from shim.auditing.logs import Logs, Row


@dataclass(frozen=True, slots=True)
class Table:
    """A question, and the columns by which its answer is sorted unless told otherwise, largest first."""

    about: str
    order: tuple[str, ...]
    sql: str


TABLES = {
    "callers": Table(
        "Who called, with which clients and when last; old API first.",
        ("legacy", "requests"),
        """
        SELECT who AS caller, any_value(person) AS hash, any_value(caller_kind) AS kind,
               list_sort(list(DISTINCT software)) AS clients,
               count(*) AS requests, count(*) FILTER (legacy) AS legacy,
               count(*) FILTER (outcome = 'error') AS errors, count(*) FILTER (outcome = 'denied') AS denied,
               min(ts) AS first, max(ts) AS last, max(ts) FILTER (legacy) AS last_legacy
        FROM seen WHERE event = 'request' GROUP BY caller_key, who
        """,
    ),
    "methods": Table(
        "Which methods were called, by era.",
        ("requests",),
        """
        SELECT coalesce(method, '-') AS method, era, count(*) AS requests, count(*) FILTER (legacy) AS legacy,
               count(*) FILTER (outcome = 'error') AS errors, count(*) FILTER (outcome = 'denied') AS denied,
               count(DISTINCT caller_key) AS callers, max(ts) AS last
        FROM seen WHERE event = 'request' GROUP BY method, era
        """,
    ),
    "tools": Table(
        "Which tools were called, on which upstream.",
        ("requests",),
        """
        WITH called AS (
            SELECT tool, upstream, count(*) AS requests, count(*) FILTER (legacy) AS legacy,
                   count(*) FILTER (list_contains(features, 'task param')) AS with_task_param,
                   count(*) FILTER (outcome = 'error') AS errors, count(DISTINCT caller_key) AS callers,
                   max(ts) AS last, max(ts) FILTER (legacy) AS last_legacy
            FROM seen WHERE event = 'request' AND tool IS NOT NULL GROUP BY tool, upstream
        )
        SELECT called.tool, called.upstream, requests, legacy, with_task_param, errors, callers,
               p50_ms, p95_ms, last, last_legacy
        FROM called LEFT JOIN waited ON NOT waited.any_tool
            AND called.tool = waited.tool AND called.upstream IS NOT DISTINCT FROM waited.upstream
        """,
    ),
    "upstreams": Table(
        "How much, how well and how fast each upstream answered. Times are what requests waited for it.",
        ("requests",),
        """
        WITH called AS (
            SELECT upstream, upstream_era, count(*) AS requests, count(*) FILTER (legacy) AS legacy,
                   count(*) FILTER (outcome = 'error') AS errors,
                   count(*) FILTER (outcome = 'denied') AS denied,
                   count(DISTINCT caller_key) AS callers, min(ts) AS first, max(ts) AS last
            FROM seen WHERE event = 'request' AND upstream IS NOT NULL GROUP BY upstream, upstream_era
        )
        SELECT called.upstream, called.upstream_era, requests, legacy, errors, denied, callers,
               p50_ms, p95_ms, first, last
        FROM called LEFT JOIN waited ON waited.any_tool AND called.upstream = waited.upstream
            AND called.upstream_era IS NOT DISTINCT FROM waited.upstream_era
        """,
    ),
    "clients": Table(
        "Which clients called, and what of the old API they used.",
        ("legacy", "requests"),
        """
        WITH used AS (
            SELECT client, version, era, list_sort(list(DISTINCT feature)) AS features
            FROM (SELECT client, version, era, unnest(features) AS feature
                  FROM seen WHERE event = 'request' AND NOT unidentified)
            GROUP BY ALL
        ), called AS (
            SELECT client, version, era, count(*) AS requests, count(*) FILTER (legacy) AS legacy,
                   count(DISTINCT caller_key) AS callers, min(ts) AS first, max(ts) AS last
            FROM seen WHERE event = 'request' GROUP BY client, version, era
        )
        SELECT called.client, called.version, called.era, requests, legacy, callers,
               coalesce(used.features, []) AS features, first, last
        FROM called LEFT JOIN used ON called.client IS NOT DISTINCT FROM used.client
            AND called.version IS NOT DISTINCT FROM used.version AND called.era IS NOT DISTINCT FROM used.era
        """,
    ),
    "refused": Table(
        "What was turned away before anything told who calls, and why.",
        ("requests",),
        """
        SELECT era, coalesce(reason, '-') AS reason, http_status,
               list_sort(list(DISTINCT method) FILTER (method IS NOT NULL)) AS methods,
               count(*) AS requests, min(ts) AS first, max(ts) AS last
        FROM seen WHERE event = 'request' AND unidentified GROUP BY era, reason, http_status
        """,
    ),
    "features": Table(
        "Which features of the old API were used.",
        ("requests",),
        """
        SELECT feature, count(*) AS requests, count(DISTINCT caller_key) AS callers,
               count(DISTINCT software) AS clients, max(ts) AS last
        FROM (SELECT unnest(list_distinct(features)) AS feature, caller_key, software, ts
              FROM seen WHERE event = 'request' AND NOT unidentified)
        GROUP BY feature
        """,
    ),
    "losses": Table(
        "What could not cross between the APIs.",
        ("count",),
        """
        SELECT rule, field, corner, upstream, count(*) AS count, count(DISTINCT caller_key) AS callers,
               min(ts) AS first, max(ts) AS last
        FROM seen WHERE event = 'loss' GROUP BY rule, field, corner, upstream
        """,
    ),
    "lenient": Table(
        "Where a tolerant reading was needed.",
        ("count",),
        """
        SELECT rule, detail, corner, upstream, count(*) AS count, count(DISTINCT caller_key) AS callers,
               list_sort(list(DISTINCT software)) AS clients, min(ts) AS first, max(ts) AS last
        FROM seen WHERE event = 'lenient' GROUP BY rule, detail, corner, upstream
        """,
    ),
    "tasks": Table(
        "What became of the tasks, by corner and upstream. Durations are of tasks that ended.",
        ("tasks",),
        """
        WITH step AS (
            SELECT task_id, run, seq, ts, event, upstream, coalesce(via, corner) AS corner, "to", age_ms
            FROM seen
            WHERE task_id IS NOT NULL
              AND event IN ('task.created', 'task.status', 'task.ended', 'task.lost', 'adopted')
        ), task AS (
            SELECT task_id, arg_min(upstream, (ts, seq)) AS upstream, arg_min(corner, (ts, seq)) AS corner,
                   arg_max(event, (ts, seq)) AS last_event, arg_max("to", (ts, seq)) AS state,
                   max(age_ms) FILTER (event = 'task.ended') AS age_ms, max(ts) AS last
            FROM step GROUP BY task_id
        )
        SELECT upstream, corner, count(*) AS tasks,
               count(*) FILTER (last_event = 'task.ended' AND state = 'completed') AS completed,
               count(*) FILTER (last_event = 'task.ended' AND state = 'failed') AS failed,
               count(*) FILTER (last_event = 'task.ended' AND state = 'cancelled') AS cancelled,
               count(*) FILTER (last_event = 'task.lost') AS lost,
               count(*) FILTER (last_event NOT IN ('task.ended', 'task.lost')) AS open,
               quantile_disc(age_ms, 0.5) AS p50_ms, quantile_disc(age_ms, 0.95) AS p95_ms, max(last) AS last
        FROM task GROUP BY upstream, corner
        """,
    ),
    "shadow": Table(
        "Where two upstreams answer alike or not, by tool and place. COMPARED are all copies that could be.",
        ("calls",),
        """
        WITH told AS (
            SELECT tool, upstream, other, kind AS found, path, 1 AS calls, count AS places, ts
            FROM seen WHERE event = 'shadow.diff'
            UNION ALL
            SELECT tool, upstream, other, concat_ws(': ', outcome, reason), NULL, count, NULL, ts
            FROM seen WHERE event = 'shadow.compared' AND outcome <> 'different'
        ), copies AS (
            SELECT tool, upstream, other, sum(if(outcome = 'skipped', 0, count)) AS compared
            FROM seen WHERE event = 'shadow.compared' GROUP BY ALL
        )
        SELECT told.tool, told.upstream, told.other, found, path, CAST(sum(calls) AS BIGINT) AS calls,
               CAST(any_value(compared) AS BIGINT) AS compared,
               CAST(sum(places) AS BIGINT) AS places, min(ts) AS first, max(ts) AS last
        FROM told LEFT JOIN copies ON told.tool = copies.tool AND told.other = copies.other
            AND told.upstream IS NOT DISTINCT FROM copies.upstream
        GROUP BY told.tool, told.upstream, told.other, found, path
        """,
    ),
    "errors": Table(
        "What failed, was refused or went wrong otherwise, and why.",
        ("count",),
        """
        SELECT event AS what, method,
               CASE WHEN event = 'request'
                    THEN concat_ws(': ', concat_ws(' ', outcome, code, http_status), fault)
                    ELSE coalesce(rule, "limit", reason, evidence) END AS why,
               era, upstream, count(*) AS count, count(DISTINCT caller_key) AS callers,
               min(ts) AS first, max(ts) AS last
        FROM seen
        WHERE (event = 'request' AND outcome IN ('error', 'denied'))
           OR event IN ('denied', 'task.lost', 'input.lost', 'session.lost', 'upstream.down',
                        'upstream.invalid', 'hub.illegal_transition')
        GROUP BY ALL
        """,
    ),
}


def ask(logs: Logs, name: str) -> list[Row]:
    """Give a table's rows in its own order; ties by the first columns."""
    table = TABLES[name]
    return ordered(logs.rows(table.sql), table.order)


def ordered(rows: list[Row], by: tuple[str, ...], *, ascending: bool = False) -> list[Row]:
    """Sort rows by columns, unset last."""
    rows = sorted(rows, key=lambda row: [str(value) for value in row.values()])
    for column in reversed(by):
        unset = [row for row in rows if row[column] is None]
        there = sorted(
            (row for row in rows if row[column] is not None),
            key=lambda row: row[column],
            reverse=not ascending,
        )
        rows = there + unset
    return rows
