-- when a server took a question back that nobody had answered: a later look that shows it again asks it anew
ALTER TABLE input ADD COLUMN withdrawn_ms INTEGER;
