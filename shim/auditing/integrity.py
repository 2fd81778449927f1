"""Whether the logs are whole: told by identity (`instance`, `seq`), signs of life and unreadable lines."""

from dataclasses import dataclass
from datetime import datetime

from shim.auditing.chained import Chained
from shim.auditing.coverage import Coverage, coverage
from shim.auditing.logs import Logs, Row

_RUNS = """
SELECT instance, min(ts) AS first, max(ts) AS last, count(*) AS events,
       max(seq) - min(seq) + 1 - count(*) AS missing,
       min(seq) > 1 AS cut, bool_or(event = 'instance.stopped') AS stopped
FROM line GROUP BY run, instance ORDER BY first, instance
"""

# numbers are counted in blocks first, so that only blocks that are not full are looked into
_HOLES = """
WITH block AS (
    SELECT run, seq // 4096 AS block, count(*) AS n, min(seq) AS low, max(seq) AS high,
           arg_min(ts, seq) AS begins, arg_max(ts, seq) AS ends
    FROM line GROUP BY ALL
), step AS (
    SELECT run, lag(high) OVER before AS low, low AS high, lag(ends) OVER before AS after, begins AS before
    FROM block WINDOW before AS (PARTITION BY run ORDER BY block)
    UNION ALL
    SELECT l.run, lag(l.seq) OVER before, l.seq, lag(l.ts) OVER before, l.ts
    FROM line AS l JOIN block AS b ON b.run = l.run AND b.block = l.seq // 4096 AND b.n < b.high - b.low + 1
    WINDOW before AS (PARTITION BY l.run, b.block ORDER BY l.seq)
), name AS (SELECT run, any_value(instance) AS instance FROM line GROUP BY run)
SELECT instance, low + 1 AS from_seq, high - 1 AS to_seq, high - low - 1 AS missing, after, before
FROM step JOIN name USING (run) WHERE high - low > 1 ORDER BY instance, from_seq
"""

_UNREADABLE = """
SELECT u.file, u.place = tail.place AS tail, a.ts AS after, b.ts AS before
FROM unreadable AS u JOIN tail USING (file)
ASOF LEFT JOIN (SELECT rowid AS place, file, ts FROM line) AS a ON u.file = a.file AND u.place > a.place
ASOF LEFT JOIN (SELECT rowid AS place, file, ts FROM line) AS b ON u.file = b.file AND u.place < b.place
ORDER BY u.place
"""

_LOST = """
SELECT instance, ts AS told, coalesce(count, 0) AS count FROM known
WHERE event = 'audit.dropped' ORDER BY ts, instance
"""

_REORDERED = """
SELECT file, instance, count(*) AS reordered
FROM (SELECT file, instance, seq < lag(seq) OVER (PARTITION BY file, run ORDER BY rowid) AS back FROM line)
WHERE back GROUP BY file, instance ORDER BY file, instance
"""

_REPEATED = """
SELECT file, instance, count(*) AS repeated, count(*) FILTER (differs) AS differing
FROM repeated GROUP BY file, instance ORDER BY file, instance
"""


@dataclass(frozen=True, slots=True)
class Integrity:
    """What is known of the logs themselves. Only `coverage` and `dropped` are of the period."""

    runs: tuple[Row, ...]
    holes: tuple[Row, ...]
    """Numbers that are missing, with the times of the events before and after."""
    unreadable: tuple[Row, ...]
    """Lines that cannot be read; `tail` is the last one of its file."""
    repeated: tuple[Row, ...]
    coverage: Coverage
    dropped: int
    """Events that the shim says were lost."""
    lost: tuple[Row, ...]
    """When it said so, how many each time."""
    chain: Chained | None
    """What the macs say; None if no key was given."""

    @property
    def missing(self) -> int:
        """How many numbers are missing between those that are there."""
        return sum(run["missing"] for run in self.runs)

    @property
    def differing(self) -> int:
        """How many repeated events do not say what the first of them said."""
        return sum(one["differing"] for one in self.repeated)

    def broken(self, until: datetime) -> list[Row]:
        """Give the runs before `until` whose beginning is missing, and those that `open_ends` gives."""
        found = [
            {"instance": run["instance"], "at": run["first"], "what": "its beginning is missing"}
            for run in self.runs
            if run["cut"] and run["first"] < until
        ]
        found += [
            {"instance": run["instance"], "at": run["last"], "what": "it ends without having stopped"}
            for run in self.open_ends(until)
        ]
        return sorted(found, key=lambda row: (row["at"], row["instance"]))

    def open_ends(self, until: datetime) -> list[Row]:
        """Give the runs before `until` that neither stopped in order nor were followed by a new one.

        A new run takes the place of one that stopped in order, if there is one: what is left was killed and
        not replaced, or the rest of its log is missing.
        """
        moves = sorted(
            [(run["first"], True, run) for run in self.runs]
            + [(run["last"], False, run) for run in self.runs],
            key=lambda move: (move[0], move[1]),
        )
        ended: list[Row] = []
        for at, begins, run in moves:
            if at >= until:
                break
            if not begins:
                ended.append(run)
            elif ended:
                ended.remove(next((one for one in ended if one["stopped"]), ended[0]))
        return [run for run in ended if not run["stopped"]]


def integrity(logs: Logs) -> Integrity:
    """Look for what is missing; of the period looked at, for minutes without a sign of life.

    Raises AuditingError.
    """
    lost = logs.rows(_LOST)
    return Integrity(
        runs=tuple(logs.rows_once(_RUNS)),
        holes=tuple(logs.rows_once(_HOLES)),
        unreadable=tuple(logs.rows_once(_UNREADABLE)),
        repeated=tuple(logs.rows_once(_REPEATED)),
        coverage=coverage(logs),
        dropped=sum(row["count"] for row in lost),
        lost=tuple(lost),
        chain=logs.chained,
    )


def reordered(logs: Logs) -> list[Row]:
    """Give how many lines of a file have a smaller number than the line of their run before them."""
    return logs.rows(_REORDERED)
