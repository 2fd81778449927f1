-- sessions that have ended, for the sweep that takes their rows
CREATE INDEX session_closed ON session (used_ms) WHERE closed = 1;

-- nobody answers any more what a session was asked that is gone
CREATE TRIGGER session_gone_asks AFTER DELETE ON session
BEGIN
    DELETE FROM ask WHERE session_id = old.session_id;
END;

-- sessions of the shim's own that an earlier run left, and nobody took up
CREATE INDEX session_unused ON session (upstream, used_ms) WHERE closed = 0 AND side = 'pool';
