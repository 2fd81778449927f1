-- whether payloads may stand in this file, or did and were not wiped yet (ledger.store_results, DUR-8)
CREATE TABLE payloads (in_file INTEGER NOT NULL) STRICT;
INSERT INTO payloads VALUES (1);

-- 1 where the result that is not in the file is a tool's error: what legacy clients see as `failed` (LM-GET)
ALTER TABLE task ADD COLUMN tool_error INTEGER NOT NULL DEFAULT 0;

-- the handle that a keyed call got, if it got one, and nothing else of its answer (DUR-3)
ALTER TABLE keyed ADD COLUMN handle BLOB;
