CREATE TABLE epoch (n INTEGER PRIMARY KEY AUTOINCREMENT) STRICT;

CREATE TABLE task (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    task_id TEXT NOT NULL UNIQUE,
    upstream TEXT NOT NULL,
    upstream_task_id TEXT NOT NULL,
    dialect TEXT NOT NULL,
    session_id TEXT,
    driven INTEGER NOT NULL,
    caller TEXT NOT NULL,
    caller_kind TEXT NOT NULL,
    client_session TEXT,
    client_dialect TEXT,
    tool TEXT,
    kinds TEXT NOT NULL,
    status TEXT NOT NULL,
    status_message TEXT,
    created_at TEXT NOT NULL,
    last_updated_at TEXT NOT NULL,
    ttl_ms INTEGER,
    poll_interval_ms INTEGER,
    meta BLOB,
    first_seen_ms INTEGER NOT NULL,
    max_ttl_ms INTEGER,
    ended_ms INTEGER,
    touched_ms INTEGER NOT NULL,
    result_request_id BLOB,
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    -- 1: its owner does not ask for it any more, and that was told; 2: and it was seen to
    abandoned INTEGER NOT NULL DEFAULT 0,
    -- when the payload was taken; what is left is a tombstone
    purged_ms INTEGER,
    result BLOB,
    error BLOB,
    -- when an ended task's ttl is over; NULL for open and for unlimited ones
    due_ms INTEGER GENERATED ALWAYS AS (
        CASE WHEN ended_ms IS NULL THEN NULL ELSE max(ended_ms, first_seen_ms + max_ttl_ms) END) VIRTUAL
) STRICT;
CREATE INDEX task_by_caller ON task (caller, pk) WHERE purged_ms IS NULL;
CREATE INDEX task_by_client_session ON task (caller, client_session, pk)
    WHERE purged_ms IS NULL AND client_session IS NOT NULL;
CREATE INDEX task_open ON task (session_id, pk) WHERE ended_ms IS NULL;
CREATE INDEX task_age ON task (first_seen_ms) WHERE ended_ms IS NULL;
CREATE INDEX task_touched ON task (abandoned, touched_ms) WHERE ended_ms IS NULL;
CREATE INDEX task_due ON task (due_ms) WHERE purged_ms IS NULL AND due_ms IS NOT NULL;
CREATE INDEX task_unlimited ON task (ended_ms)
    WHERE purged_ms IS NULL AND max_ttl_ms IS NULL AND ended_ms IS NOT NULL;
CREATE INDEX task_tombstone ON task (purged_ms) WHERE purged_ms IS NOT NULL;
CREATE INDEX task_renamed ON task (upstream, upstream_task_id) WHERE task_id <> upstream_task_id;
CREATE INDEX task_count ON task (upstream, status) WHERE purged_ms IS NULL;

CREATE TABLE session (
    session_id TEXT PRIMARY KEY,
    upstream TEXT NOT NULL,
    caller TEXT NOT NULL,
    caller_kind TEXT NOT NULL,
    side TEXT NOT NULL,
    dialect TEXT,
    client_name TEXT NOT NULL,
    client_version TEXT NOT NULL,
    kinds TEXT NOT NULL,
    version TEXT NOT NULL,
    init BLOB NOT NULL,
    created_ms INTEGER NOT NULL,
    used_ms INTEGER NOT NULL,
    closed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX session_by_caller ON session (caller, upstream, side) WHERE closed = 0;
CREATE INDEX session_by_use ON session (used_ms);

CREATE TABLE input (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    task_pk INTEGER NOT NULL,
    key TEXT NOT NULL,
    method TEXT NOT NULL,
    params BLOB NOT NULL,
    kind TEXT NOT NULL,
    upstream_id BLOB,
    session_id TEXT,
    asked_ms INTEGER NOT NULL,
    state TEXT NOT NULL,
    response BLOB,
    by TEXT,
    UNIQUE (task_pk, key)
) STRICT;
-- servers use an id again for a later question (mcp 1.30 takes a memory address)
CREATE UNIQUE INDEX input_by_upstream_id ON input (task_pk, session_id, upstream_id)
    WHERE upstream_id IS NOT NULL AND state = 'outstanding';
CREATE INDEX input_on_session ON input (session_id, upstream_id) WHERE upstream_id IS NOT NULL;
CREATE INDEX input_undelivered ON input (n) WHERE state = 'answered';

-- a task's questions and answers are payload too
CREATE TRIGGER task_purged AFTER UPDATE OF purged_ms ON task WHEN new.purged_ms IS NOT NULL
BEGIN
    DELETE FROM input WHERE task_pk = new.pk;
END;

CREATE TABLE keyed (
    caller TEXT NOT NULL,
    key TEXT NOT NULL,
    body_hash TEXT NOT NULL,
    state TEXT NOT NULL,
    answer BLOB,
    is_error INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    instance TEXT NOT NULL,
    dialect TEXT NOT NULL,
    PRIMARY KEY (caller, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX keyed_by_age ON keyed (created_ms);
