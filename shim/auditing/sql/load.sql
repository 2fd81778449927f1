-- One row a line, in the order of the files; a line that cannot be read has no identity.
-- Unknown fields and events are passed over: the schema only grows.
CREATE MACRO lines_of(files, packing) AS TABLE
WITH read AS (
    SELECT * FROM read_json(
        files, format = 'newline_delimited', compression = packing, ignore_errors = true, filename = true,
        columns = {
            seq: 'BIGINT', ts: 'VARCHAR', event: 'VARCHAR', instance: 'VARCHAR', request_id: 'VARCHAR',
            caller: 'VARCHAR', caller_kind: 'VARCHAR', caller_label: 'VARCHAR',
            client: 'STRUCT(name VARCHAR, version VARCHAR)',
            era: 'VARCHAR', dialect: 'VARCHAR', upstream: 'VARCHAR', upstream_era: 'VARCHAR', corner: 'VARCHAR',
            method: 'VARCHAR', tool: 'VARCHAR', task_id: 'VARCHAR', outcome: 'VARCHAR', code: 'BIGINT',
            http_status: 'INTEGER', legacy: 'BOOLEAN', legacy_features: 'VARCHAR[]', unidentified: 'BOOLEAN',
            upstream_ms: 'DOUBLE', via: 'VARCHAR', "to": 'VARCHAR', age_ms: 'BIGINT', reason: 'VARCHAR', "limit": 'VARCHAR', evidence: 'VARCHAR', fault: 'VARCHAR', rule: 'VARCHAR',
            field: 'VARCHAR', detail: 'VARCHAR', count: 'BIGINT', dropped: 'BIGINT',
            other: 'VARCHAR', path: 'VARCHAR', kind: 'VARCHAR',
            connected: 'STRUCT(caller VARCHAR, caller_kind VARCHAR, client STRUCT(name VARCHAR, version VARCHAR), count BIGINT)[]',
            waiting: 'STRUCT(caller VARCHAR, caller_kind VARCHAR, client STRUCT(name VARCHAR, version VARCHAR), era VARCHAR, method VARCHAR, count BIGINT)[]'
        }
    )
)
SELECT
    filename AS file, hash(instance) AS run, seq, try_cast(ts AS TIMESTAMP) AS ts, event, instance, request_id,
    caller, caller_kind, caller_label, client.name AS client, client.version AS version,
    era, dialect, upstream, upstream_era, corner, method, tool, task_id, outcome, code, http_status,
    -- before the field was written, only what came to no caller is known to have been turned away
    event = 'request' AND coalesce(unidentified, caller_kind IS NULL) AND coalesce(outcome <> 'ok', false) AS unidentified,
    coalesce(legacy, era = 'legacy') AS legacy, coalesce(legacy_features, []) AS features,
    upstream_ms, via, "to", age_ms, reason, "limit", evidence, fault, rule, field, detail, count, dropped, other, path, kind, connected, waiting
FROM read;
