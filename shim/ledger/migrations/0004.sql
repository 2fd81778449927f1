-- the open tasks of a caller, or of one of its sessions, without the ended ones between them
CREATE INDEX task_open_of ON task (caller, client_session, pk) WHERE ended_ms IS NULL;
