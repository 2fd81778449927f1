-- what a local task's call was, for the few that may run once more after a kill; gone when the task ends
CREATE TABLE call (task_pk INTEGER PRIMARY KEY, params BLOB NOT NULL) STRICT;

CREATE TRIGGER task_ended_call AFTER UPDATE OF ended_ms ON task WHEN new.ended_ms IS NOT NULL
BEGIN
    DELETE FROM call WHERE task_pk = new.pk;
END;
