-- tasks that live in the shim itself until the upstream makes one, if it ever does
ALTER TABLE task ADD COLUMN local INTEGER NOT NULL DEFAULT 0;
CREATE INDEX task_local ON task (pk) WHERE local = 1 AND ended_ms IS NULL;

-- what a client asked of a session that the shim itself serves: log level, subscriptions
ALTER TABLE session ADD COLUMN settings BLOB NOT NULL DEFAULT x'7b7d';

-- a task's question as it was sent to a legacy client: under which id, over which session, when
CREATE TABLE ask (
    session_id TEXT NOT NULL,
    request_id BLOB NOT NULL,
    task_pk INTEGER NOT NULL,
    key TEXT NOT NULL,
    sent_ms INTEGER NOT NULL,
    event_id TEXT NOT NULL,
    PRIMARY KEY (session_id, request_id),
    UNIQUE (task_pk, key, session_id)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER task_purged_asks AFTER UPDATE OF purged_ms ON task WHEN new.purged_ms IS NOT NULL
BEGIN
    DELETE FROM ask WHERE task_pk = new.pk;
END;
