"""Is it safe: rules over the logs, each safe, unsafe or not to be told. An unsure answer is never a yes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from shim.audit.counted import counted
from shim.auditing.coverage import coverage
from shim.auditing.doubts import doubts
from shim.auditing.integrity import Integrity, integrity
from shim.auditing.legacy import connected, legacy_callers, refused
from shim.auditing.logs import Logs, Row
from shim.auditing.open_tasks import open_tasks
from shim.auditing.period import Period, length
from shim.auditing.rates import difference
from shim.auditing.sources import AuditingError

Verdict = Literal["safe", "unsafe", "unknown"]

_ENOUGH = 100
"""Requests of each API without which error rates are not compared."""
_HASH_CHARS = 8
_UNDECIDED = 500
"""HTTP status from which on it was no refusal: it could not be told then who calls."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a rule comes to, why, and who or what stands in the way."""

    rule: str
    verdict: Verdict
    why: tuple[str, ...]
    in_the_way: tuple[Row, ...] = ()
    refused: tuple[Row, ...] = ()
    """What was turned away before anything told who calls, by reason; in the way of a strict gate only."""


def worst(answers: Iterable[Answer]) -> Verdict:
    """Give what several answers come to: safe only if all are."""
    verdicts: set[Verdict] = {answer.verdict for answer in answers}
    return "unsafe" if "unsafe" in verdicts else "unknown" if "unknown" in verdicts else "safe"


class Gate:
    """Holds logs to rules, up to the end of a period; `tolerated` minutes may have no sign of life.

    Strict, it takes requests that were turned away before anything told who calls for callers too.
    """

    def __init__(self, logs: Logs, period: Period, *, tolerated: int = 0, strict: bool = False) -> None:
        self._logs = logs
        self._period = period
        self._tolerated = tolerated
        self._strict = strict

    def ask(self, rule: str) -> Answer:
        """Hold the logs to one rule, NAME or NAME:VALUE. Raises AuditingError."""
        name, _, value = rule.partition(":")
        if name not in RULES:
            raise AuditingError(f"no rule is called {name!r}; there are {', '.join(RULES)}")
        return RULES[name](self, rule, value)

    def no_legacy_for(self, rule: str, value: str) -> Answer:
        """no-legacy-for:14d - nobody called by the old API for so long; no call or stream of it was open."""
        period = Period(self._period.until - length(value), self._period.until)
        return self._only(rule, period, frozenset())

    def legacy_only_from(self, rule: str, value: str) -> Answer:
        """legacy-only-from:A,B - only these call by the old API: label, hash, or client=NAME if not known."""
        allowed = frozenset(filter(None, (one.strip() for one in value.split(","))))
        if not allowed:
            raise AuditingError("legacy-only-from needs who is allowed: legacy-only-from:nightly,0a1b2c3d")
        return self._only(rule, self._period, allowed)

    def _only(self, rule: str, period: Period, allowed: frozenset[str]) -> Answer:
        whole = self._look(period)
        called = legacy_callers(self._logs, period.since, period.until)
        held = [row for row in connected(self._logs) if not _is_one_of(row, allowed)]
        calls = [row for row in held if row["what"] != "session"]
        sessions = [row for row in held if row["what"] == "session"]
        callers = [row for row in called if not _is_one_of(row, allowed)]
        away = refused(self._logs, period.since, period.until)
        if callers or calls or (away and self._strict):
            why = []
            if callers:
                requests = counted(sum(row["requests"] for row in callers), "legacy request")
                by = counted(len(callers), "caller")
                why.append(f"{requests} by {by}, the last one at {_last(callers)}")
            if calls:
                why.append(f"calls or streams by the old API were open at {_last(calls)}")
            why += (*_turned_away(away), *_undecided(away))
            return Answer(rule, "unsafe", tuple(why), (*callers, *calls), tuple(away))
        unsure = self._unsure(whole, period)
        unsaid, served = self._unsaid()
        if unsaid:
            unsure.append(counted(unsaid, "request does not say whether it is legacy",
                                  "requests do not say whether they are legacy"))  # fmt: skip
        if not served:
            unsure.append("no request that was served came through the shim")
        unsure += _undecided(away)
        told = (*unsure, *_turned_away(away))
        if idle := sum(row["count"] for row in sessions if row["open"]):
            are = counted(idle, "legacy session is open, but nothing was called on it",
                          "legacy sessions are open, but nothing was called on them")  # fmt: skip
            told += (are,)
        return Answer(rule, "unknown" if unsure else "safe", told, refused=tuple(away))

    def no_open_tasks(self, rule: str, value: str) -> Answer:
        """no-open-tasks[:UPSTREAM] - no task is open there; without a name, on any old upstream."""
        span = self._logs.span
        since = self._period.since if span is None else min(span.since, self._period.since)
        period = Period(since, self._period.until)
        whole = self._look(period)
        found = open_tasks(self._logs, value or None)
        still = [row for row in found if row["state"] == "open"]
        if still:
            why = counted(len(still), "task has not ended", "tasks have not ended")
            return Answer(rule, "unsafe", (why,), tuple(still))
        unsure = self._unsure(whole, period)
        if found:
            unsure.append(f"of {counted(len(found), 'task')} the logs do not tell the end or the upstream")
        return Answer(rule, "unknown" if unsure else "safe", tuple(unsure), tuple(found))

    def error_rate(self, rule: str, value: str) -> Answer:
        """error-rate:X - new requests fail at most X percentage points more often than old ones."""
        margin = _percent(rule, value)
        whole = self._look(self._period)
        counts = {row["era"]: (row["errors"], row["requests"]) for row in self._logs.rows(_RATES)}
        new, old = counts.get("modern", (0, 0)), counts.get("legacy", (0, 0))
        unsure = self._unsure(whole, self._period)
        if min(new[1], old[1]) < _ENOUGH:
            few = f"{new[1]} new and {counted(old[1], 'old request')} are too few to compare"
            return Answer(rule, "unknown", (few, *unsure))
        above, at_most = difference(new, old)
        why = (
            f"new {100 * new[0] / new[1]:.2f} % of {new[1]}, old {100 * old[0] / old[1]:.2f} % of {old[1]}: "
            f"{100 * above:+.2f} points, at most {100 * at_most:+.2f} (95 %)"
        )
        if 100 * above > margin:
            return Answer(rule, "unsafe", (why,))
        if 100 * at_most > margin:
            unsure.insert(0, "it may be more: too few requests to be sure")
        return Answer(rule, "unknown" if unsure else "safe", (why, *unsure))

    def coverage(self, rule: str, value: str) -> Answer:
        """coverage:Y - at least Y per cent of the period's minutes have a sign of life."""
        wanted = _percent(rule, value)
        self._logs.look(self._period)
        found = coverage(self._logs)
        if found.percent is None:
            return Answer(rule, "unknown", ("the period has no whole minute",))
        why = f"{found.covered} of {counted(found.minutes, 'minute')}, {found.percent:.3f} %"
        enough = 100 * found.covered >= wanted * found.minutes
        return Answer(rule, "safe" if enough else "unsafe", (why,), () if enough else found.gaps)

    def _look(self, period: Period) -> Integrity:
        self._logs.look(period)
        return integrity(self._logs)

    def _unsure(self, whole: Integrity, period: Period) -> list[str]:
        found = doubts(whole, period, tolerated=self._tolerated)
        span = self._logs.span
        if span is None:
            return ["the logs are empty", *found]
        if span.since > period.since:
            found.insert(0, f"the logs begin only at {span.since:%Y-%m-%dT%H:%M:%SZ}")
        return found

    def _unsaid(self) -> tuple[int, int]:
        row = self._logs.row(_SAID)
        return row["unsaid"], row["served"]


_SAID = """
SELECT count(*) FILTER (legacy IS NULL) AS unsaid, count(*) FILTER (NOT unidentified) AS served
FROM known WHERE event = 'request'
"""

_RATES = """
SELECT era, count(*) AS requests, count(*) FILTER (outcome = 'error') AS errors
FROM known WHERE event = 'request' AND NOT unidentified GROUP BY era
"""

RULES: dict[str, Callable[[Gate, str, str], Answer]] = {
    "no-legacy-for": Gate.no_legacy_for,
    "legacy-only-from": Gate.legacy_only_from,
    "no-open-tasks": Gate.no_open_tasks,
    "error-rate": Gate.error_rate,
    "coverage": Gate.coverage,
}


def _is_one_of(row: Row, allowed: frozenset[str]) -> bool:
    """Tell whether a caller is in a list: by label or hash; by its client's name if it is not known."""
    if row["hash"] is None:
        name, _, _version = row["caller"].rpartition(" ")
        return f"client={row['caller']}" in allowed or f"client={name}" in allowed
    return row["caller"] in allowed or any(
        len(one) >= _HASH_CHARS and row["hash"].startswith(one) for one in allowed
    )


def _turned_away(away: list[Row]) -> Iterator[str]:
    if refusals := [row for row in away if not _is_undecided(row)]:
        was = counted(sum(row["requests"] for row in refusals), "legacy request was", "legacy requests were")
        yield f"{was} turned away before anything told who called, the last one at {_last(refusals)}"


def _undecided(away: list[Row]) -> Iterator[str]:
    if undecided := [row for row in away if _is_undecided(row)]:
        came = counted(sum(row["requests"] for row in undecided), "legacy request")
        yield f"{came} came while it could not be told who calls, the last one at {_last(undecided)}"


def _is_undecided(row: Row) -> bool:
    return row["http_status"] is not None and row["http_status"] >= _UNDECIDED


def _last(rows: list[Row]) -> str:
    return f"{max(row['last'] for row in rows):%Y-%m-%dT%H:%M:%SZ}"


def _percent(rule: str, value: str) -> float:
    try:
        found = float(value.removesuffix("%"))
    except ValueError:
        found = -1.0
    if not 0 <= found <= 100:  # noqa: PLR2004 - per cent
        raise AuditingError(f"{rule!r}: the value is a number of per cent")
    return found
