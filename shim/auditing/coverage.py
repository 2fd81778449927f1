"""Which minutes the logs speak of: those with an `instance.alive`."""

from dataclasses import dataclass

from shim.auditing.logs import Logs, Row

_MINUTES = """
CREATE OR REPLACE TEMP TABLE bare AS
WITH sign AS (
    SELECT ts, lead(ts) OVER (PARTITION BY run ORDER BY ts, seq) AS next FROM line
    WHERE event = 'instance.alive'
      AND ts >= getvariable('since') - INTERVAL 2 MINUTE AND ts < getvariable('until') + INTERVAL 2 MINUTE
), covered AS (
    SELECT date_trunc('minute', ts) AS minute FROM sign
    UNION
    -- signs are a minute and a bit apart, so that now and then one steps over a minute
    SELECT date_trunc('minute', ts) + INTERVAL 1 MINUTE FROM sign
    WHERE next - ts < INTERVAL 90 SECOND
      AND date_trunc('minute', next) - date_trunc('minute', ts) > INTERVAL 1 MINUTE
)
SELECT minute, minute IN (SELECT minute FROM covered) AS covered
FROM (SELECT unnest(generate_series(
    date_trunc('minute', getvariable('since') + INTERVAL '59.999999' SECOND),
    date_trunc('minute', getvariable('until')) - INTERVAL 1 MINUTE, INTERVAL 1 MINUTE)) AS minute)
"""

_GAPS = """
WITH gap AS (
    SELECT min(minute) AS since, max(minute) + INTERVAL 1 MINUTE AS until, count(*) AS minutes
    FROM (SELECT minute, minute - INTERVAL 1 MINUTE * row_number() OVER (ORDER BY minute) AS island
          FROM bare WHERE NOT covered)
    GROUP BY island
), life AS (
    SELECT ts, arg_min(event, seq) AS earliest, arg_max(event, seq) AS latest FROM line
    WHERE event IN ('instance.started', 'instance.alive', 'instance.stopped') GROUP BY ts
)
SELECT gap.since, gap.until, gap.minutes,
       coalesce(b.latest = 'instance.stopped' AND a.earliest = 'instance.started', false) AS stopped
FROM gap ASOF LEFT JOIN life AS b ON gap.since > b.ts ASOF LEFT JOIN life AS a ON gap.until <= a.ts
ORDER BY gap.since
"""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many whole minutes of the period are covered, and the spans that are not.

    A gap is `stopped` when a run ended in order before it and another began after it: there was no traffic
    through the shim then.
    """

    minutes: int
    covered: int
    gaps: tuple[Row, ...]

    @property
    def percent(self) -> float | None:
        """Share of the minutes, in per cent; None if the period has no whole minute."""
        return 100 * self.covered / self.minutes if self.minutes else None

    @property
    def silent_minutes(self) -> int:
        """Minutes of which nothing is known."""
        return sum(gap["minutes"] for gap in self.gaps if not gap["stopped"])


def coverage(logs: Logs) -> Coverage:
    """Tell how much of the period looked at the logs cover."""
    logs.rows(_MINUTES)
    count = logs.row("SELECT count(*) AS minutes, count(*) FILTER (covered) AS covered FROM bare")
    return Coverage(count["minutes"], count["covered"], tuple(logs.rows(_GAPS)))
