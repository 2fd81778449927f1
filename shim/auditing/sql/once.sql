-- rowid is the place of a line in the order in which the files were read
CREATE TABLE unreadable AS
SELECT rowid AS place, file FROM line WHERE seq IS NULL OR instance IS NULL OR ts IS NULL OR event IS NULL;
CREATE TABLE tail AS SELECT file, max(rowid) AS place FROM line GROUP BY file;
DELETE FROM line WHERE seq IS NULL OR instance IS NULL OR ts IS NULL OR event IS NULL;
-- 64 numbers are a bitmap: only where it has fewer bits than there are lines is something repeated
CREATE TABLE crowded AS
SELECT run, seq // 64 AS block FROM line GROUP BY run, block
HAVING count(*) > bit_count(bit_or(1::UBIGINT << (seq & 63)::UBIGINT));
CREATE TABLE twice AS
SELECT run, seq, min(rowid) AS place FROM line SEMI JOIN crowded ON line.run = crowded.run AND seq // 64 = crowded.block
GROUP BY run, seq HAVING count(*) > 1;
-- what is repeated says the same, or one of the two was changed
CREATE TABLE repeated AS
SELECT place, file, instance, seq, content <> min_by(content, place) OVER (PARTITION BY run, seq) AS differs
FROM (
    SELECT l.rowid AS place, l.file, l.run, l.instance, l.seq, twice.place AS kept,
           hash(*COLUMNS(l.* EXCLUDE (file))) AS content
    FROM line AS l JOIN twice ON l.run = twice.run AND l.seq = twice.seq
)
QUALIFY place <> kept;
DELETE FROM line WHERE rowid IN (SELECT place FROM repeated)
