"""`taskshim audit verify`: are the logs whole."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict

import click

from shim.audit.counted import counted, part_of
from shim.auditing.integrity import Integrity, integrity, reordered
from shim.auditing.logs import Logs, Row
from shim.auditing.period import Period
from shim.cli.audit_common import as_json, cell, key_option, laid_out, logs_options
from shim.cli.common import FOUND
from shim.cli.text import terminal_room

_SHOWN = 50


@click.command("verify")
@key_option
@logs_options
@click.option("--json", "json_wanted", is_flag=True, help="Print one JSON object.")
def verify(logs: Logs, span: Period, *, json_wanted: bool) -> None:
    """Tell whether the logs are whole.

    Missing, repeated, reordered and torn events are found, and minutes without a sign of life.
    With --key-file also lines that were changed, removed, added or moved, where audit.key_file was set. Exit
    code 1 if the logs are not whole. What overlapping files repeat in the same words is no fault.
    """
    logs.look(span)
    found, back = integrity(logs), reordered(logs)
    faults = list(_faults(found, back))
    if json_wanted:
        click.echo(as_json({"whole": not faults, "faults": faults, **asdict(found), "reordered": back}))
    else:
        click.echo("\n".join(_people(logs, span, found, back, faults)))
    if faults:
        sys.exit(FOUND)


def _faults(found: Integrity, back: list[Row]) -> Iterator[str]:
    if not found.runs:
        yield "there are no events"
    tails = sum(line["tail"] for line in found.unreadable)
    for count, one, many in (
        (found.missing, "event is missing", "events are missing"),
        (
            found.dropped,
            "event was lost by the shim's own account",
            "events were lost by the shim's own account",
        ),
        (found.differing, "repeated event differs", "repeated events differ"),
        (sum(row["reordered"] for row in back), "event stands out of order", "events stand out of order"),
        (len(found.unreadable) - tails, "line cannot be read", "lines cannot be read"),
        (tails, "file ends in a torn line", "files end in a torn line"),
        (found.coverage.silent_minutes, "minute has no sign of life", "minutes have no sign of life"),
        (
            found.chain.count if found.chain else 0,
            "line does not stand as the shim wrote it",
            "lines do not stand as the shim wrote them",
        ),
    ):
        if count:
            yield counted(count, one, many)


def _people(logs: Logs, span: Period, found: Integrity, back: list[Row], faults: list[str]) -> Iterator[str]:
    cover = found.coverage
    events = counted(sum(run["events"] for run in found.runs), "event")
    yield f"{counted(logs.files, 'file')}, {events}, {logs.duplicates} repeated"
    share = part_of(cover.covered, cover.minutes, "minute", "has", "have")
    yield f"{cell(span.since)} to {cell(span.until)}: {share} a sign of life"
    if found.chain is not None:
        yield f"{counted(found.chain.signed, 'line stands', 'lines stand')} as the shim wrote them"
    if logs.unjudged:
        yield "the lines have macs that were not looked at: name the keys with --key-file"
    sections: tuple[tuple[str, Sequence[Row]], ...] = (
        ("runs", found.runs), ("missing", found.holes), ("minutes without a sign of life", cover.gaps),
        ("unreadable lines", found.unreadable), ("repeated", found.repeated), ("out of order", back),
        ("not as the shim wrote them", found.chain.faults if found.chain else ()),
    )  # fmt: skip
    for title, rows in sections:
        if rows:
            yield ""
            yield title
            yield from laid_out(rows[:_SHOWN], "  ", terminal_room())
            if len(rows) > _SHOWN:
                yield f"  and {len(rows) - _SHOWN} more"
    yield ""
    yield "whole" if not faults else "not whole: " + ", ".join(faults)
