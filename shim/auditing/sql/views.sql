-- What a question is about: each event once, in the period, past the filters. A filter that is not set is NULL.
CREATE VIEW known AS
SELECT
    *,
    -- a token or a session is no person: such callers are counted by client
    CASE WHEN caller_kind NOT IN ('token', 'session', 'none') THEN caller END AS person,
    concat_ws(' ', coalesce(client, '(no name)'), version) AS software,
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
