"""The report as sections of lines and tables, for a terminal or as Markdown."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from shim.audit.counted import agreeing, counted, part_of
from shim.audit.printable import printable
from shim.auditing.logs import Row
from shim.cli.audit_common import cell, laid_out, short
from shim.cli.audit_gate import WORDS

_ROWS = 30
_LINE_CHARS = 2_000
_TABLES = (
    ("clients", "Clients"),
    ("methods", "Methods"),
    ("tools", "Tools"),
    ("features", "Features of the old API"),
    ("refused", "Turned away before anything told who calls"),
    ("losses", "Lost in translation"),
    ("lenient", "Tolerant readings"),
    ("tasks", "Tasks"),
    ("upstreams", "Upstreams"),
    ("shadow", "Shadow comparison"),
    ("errors", "Errors"),
)

_MISSING = (
    ("holes", "Missing events"),
    ("lost", "Events lost by the shim's own account"),
    ("runs", "Runs that are not whole"),
    ("unreadable", "Lines that cannot be read"),
)


@dataclass(frozen=True, slots=True)
class Section:
    """A heading with sentences, and a table or none."""

    title: str
    lines: list[str]
    rows: list[Row] | None = None


def sections(told: dict[str, Any]) -> Iterator[Section]:
    """Give the report's parts, what matters most first."""
    yield Section("Old Tasks API: who still speaks it", list(_head(told)))
    yield Section(f"Can it go off: {WORDS[told['verdict']['verdict']]}", list(_verdict(told["verdict"])))
    yield Section("Is it falling", [_trend(told["trend"]["requests"], "requests a day"),
                                    _trend(told["trend"]["callers"], "callers a day")])  # fmt: skip
    off = told["off"]
    yield Section(
        f"If the old API goes off at {cell(off['at'])}", list(_off(off)), off["callers_still_active"]
    )
    if off["connected"]:
        yield Section("Open now by the old API", [], [_without(row, "open") for row in off["connected"]])
    if off["calls_after"]:
        yield Section("Would have failed since then", [], off["calls_after"])
    yield Section("Used, and without a counterpart in the new API", [], told["without_counterpart"])
    yield Section("Callers of the old API", [], [row for row in told["callers"] if row["legacy"]])
    yield Section("How long ago they last used it", [], told["last_use"]["ages"])
    yield Section("Clients and the features of the old API they used", [], told["used"])
    for name, title in _TABLES:
        yield Section(title, [], told[name])
    yield Section("Coverage", list(_coverage(told["coverage"])), told["coverage"]["gaps"])
    yield from _missing(told["missing"])
    yield Section("Day by day", [], told["days"])


def _missing(missing: dict[str, Any]) -> Iterator[Section]:
    """Say when and where the logs are not whole, beside the minutes without a sign of life."""
    for name, title in _MISSING:
        if missing[name]:
            yield Section(title, [], missing[name])
    chain = missing["chain"]
    if chain is not None:
        signed = counted(chain["signed"], "line stands", "lines stand")
        lines = [f"{signed} as the shim wrote them, {counted(chain['count'], 'does', 'do')} not"]
        yield Section("Macs of the lines", lines, list(chain["faults"]) or None)


def as_text(told: dict[str, Any], room: int | None = None) -> str:
    """Write it as text, tables in lines of at most `room` characters where their columns allow it."""
    return "\n".join(line for section in sections(told) for line in _text(section, room))


def as_markdown(told: dict[str, Any]) -> str:
    """Write it as Markdown."""
    return "\n".join(line for section in sections(told) for line in _markdown(section))


def _text(section: Section, room: int | None) -> Iterator[str]:
    yield section.title
    yield from (f"  {printable(line, _LINE_CHARS)}" for line in section.lines)
    if section.rows is not None:
        yield from laid_out(section.rows[:_ROWS], "  ", room)
        if len(section.rows) > _ROWS:
            yield f"  {_ROWS} of {len(section.rows)}"
    yield ""


def _markdown(section: Section) -> Iterator[str]:
    yield f"## {section.title}"
    yield ""
    for line in section.lines:
        yield f"- {_escaped(printable(line, _LINE_CHARS))}"
    if section.lines:
        yield ""
    if section.rows is None:
        return
    if not section.rows:
        yield "none"
    else:
        yield "| " + " | ".join(name.replace("_", " ") for name in section.rows[0]) + " |"
        yield "|" + "---|" * len(section.rows[0])
        for row in section.rows[:_ROWS]:
            yield "| " + " | ".join(_escaped(short(*item)) for item in row.items()) + " |"
        if len(section.rows) > _ROWS:
            yield ""
            yield f"{_ROWS} of {len(section.rows)}"
    yield ""


def _escaped(text: str) -> str:
    """Keep what clients state from being read as Markdown or HTML."""
    for mark in "\\`*_[]<>|#&":
        text = text.replace(mark, f"\\{mark}")
    return text


def _head(told: dict[str, Any]) -> Iterator[str]:
    usage, period = told["usage"], told["period"]
    callers = f"by {counted(usage['legacy_callers'], 'caller')}"
    yield f"{cell(period['since'])} to {cell(period['until'])}; the logs end at {cell(told['read']['until'])}"
    yield (
        f"{part_of(usage['legacy'], usage['requests'], 'request', 'was', 'were')} legacy, {callers}; "
        f"the last one at {cell(usage['last_legacy'])}"
    )
    if usage["unidentified"]:
        away = counted(usage["unidentified"], "request was", "requests were")
        yield f"{away} turned away before anything told who called, and count as no use of either API"
    for doubt in told["doubts"]:
        yield f"NOT WHOLE: {doubt}"
    yield told["scope"]


def _verdict(verdict: dict[str, Any]) -> Iterator[str]:
    for rule in verdict["rules"]:
        yield ": ".join((rule["rule"], "; ".join((WORDS[rule["verdict"]], *rule["why"]))))


def _trend(found: dict[str, Any], what: str) -> str:
    match found["verdict"]:
        case "cannot be told":
            return f"legacy {what}: {counted(found['days'], 'whole day')} with logs: too few to tell"
        case "gone":
            return f"legacy {what}: none since {found['zero']}"
        case "not falling":
            return (
                f"legacy {what}: not falling for certain ({found['per_day']:+.2f} a day, between "
                f"{found['per_day_low']:+.2f} and {found['per_day_high']:+.2f}); no end can be told"
            )
    between = f"between {found['zero_earliest']} and {found['zero_latest']}"
    return (
        f"legacy {what}: falling by {-found['per_day']:.2f} a day; at this pace none from {found['zero']}, "
        f"{between} (95 %, told from {counted(found['days'], 'day')})"
    )


def _off(off: dict[str, Any]) -> Iterator[str]:
    if off["days_ahead"] is not None and off["days_ahead"] > 0:
        yield f"{counted(off['days_ahead'], 'day')} after the end of the period"
    active = len(off["callers_still_active"])
    breaks = agreeing(active, "breaks", "break")
    yield f"{counted(active, 'caller')} used it in the 14 days before and {breaks}"
    if off["connected"]:
        held = sum(row["count"] for row in off["connected"])
        yield counted(
            held, "session, stream or call is open by it", "sessions, streams and calls are open by it"
        )
    if off["open_tasks"]:
        yield counted(off["open_tasks"], "task has not ended", "tasks have not ended")
    if (expected := off["expected_per_day"]) is not None:
        are = counted(expected["middle"], "request a day is", "requests a day are")
        yield (f"at this pace {are} still legacy then, between {expected['low']} and {expected['high']}")
    if off["calls_after"]:
        count = sum(row["requests"] for row in off["calls_after"])
        yield f"{counted(count, 'request')} came after it and would have failed"


def _coverage(cover: dict[str, Any]) -> Iterator[str]:
    if cover["percent"] is None:
        yield "the period has no whole minute"
    else:
        share = part_of(cover["covered"], cover["minutes"], "minute", "has", "have")
        yield f"{share} a sign of life ({cover['percent']:.2f} %)"


def _without(row: Row, name: str) -> Row:
    return {column: value for column, value in row.items() if column != name}
