-- What a question is about: each event once, in the period, past the filters. A filter that is not set is NULL.
-- `legacy` is a use of the old API that counts as one: who was turned away before anything told who calls used nothing.
CREATE VIEW known AS
SELECT
    * REPLACE (legacy AND NOT unidentified AS legacy),
    legacy AND unidentified AS refused,
    NOT legacy AND NOT unidentified AND era IS NOT NULL AS modern,
    -- a token or a session is no person: such callers are counted by client
    CASE WHEN caller_kind NOT IN ('token', 'session', 'none') THEN caller END AS person,
    CASE WHEN unidentified THEN '(caller unknown)' ELSE concat_ws(' ', coalesce(client, '(no name)'), version) END
        AS software,
    coalesce(person, software) AS caller_key,
    coalesce(CASE WHEN person IS NOT NULL THEN coalesce(caller_label, caller_kind || ':' || caller[:12]) END, software)
        AS who
FROM line
WHERE ts >= getvariable('since') AND ts < getvariable('until');

CREATE VIEW seen AS
SELECT * FROM known
WHERE (getvariable('caller') IS NULL OR caller_label = getvariable('caller') OR starts_with(caller, getvariable('caller')))
  AND (getvariable('client') IS NULL OR client = getvariable('client') OR software = getvariable('client'))
  AND (getvariable('tool') IS NULL OR tool = getvariable('tool'))
  AND (getvariable('upstream') IS NULL OR upstream = getvariable('upstream'))
  AND (getvariable('era') IS NULL OR era = getvariable('era'))
  AND (getvariable('corner') IS NULL OR corner = getvariable('corner'));

-- How long requests waited for an upstream, to 0.1 ms, of each tool and of all. Equal times are counted first: what
-- is kept in memory grows with the times there are, not with requests.
CREATE VIEW waited AS
WITH took AS (
    SELECT grouping(tool) = 1 AS any_tool, tool, upstream, upstream_era, round(upstream_ms, 1) AS took_ms, count(*) AS n
    FROM seen WHERE event = 'request' AND upstream_ms > 0
    GROUP BY GROUPING SETS ((tool, upstream, took_ms), (upstream, upstream_era, took_ms))
), ranked AS (
    SELECT *, sum(n) OVER (PARTITION BY any_tool, tool, upstream, upstream_era ORDER BY took_ms) AS upto,
           sum(n) OVER (PARTITION BY any_tool, tool, upstream, upstream_era) AS all_n
    FROM took
)
SELECT any_tool, tool, upstream, upstream_era,
       min(took_ms) FILTER (upto >= 0.5 * all_n) AS p50_ms, min(took_ms) FILTER (upto >= 0.95 * all_n) AS p95_ms
FROM ranked GROUP BY ALL;
