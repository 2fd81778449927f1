"""`taskshim audit gate`: may a pipeline go on."""

import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import click

from shim.auditing.gate import RULES, Answer, Gate, worst
from shim.auditing.period import period
from shim.cli.audit_common import as_json, key_option, laid_out, log_argument, memory_option, now, open_logs
from shim.cli.common import COULD_NOT, FOUND
from shim.cli.text import lines_of, terminal_room

_SHOWN = 20
WORDS = {"safe": "safe", "unsafe": "NOT SAFE", "unknown": "CANNOT BE TOLD"}


@click.command(
    "gate",
    epilog="Rules: " + "; ".join(str(rule.__doc__).removesuffix(".") for rule in RULES.values()) + ".",
)
@log_argument
@click.option("--rule", "rules", multiple=True, required=True, help="What must hold; may be given again.")
@click.option("--since", default="14d", show_default=True, help="From this time on; as in the tables.")
@click.option("--until", help="Up to this time; now unless given.")
@click.option(
    "--tolerate", default=0, show_default=True, type=click.IntRange(0),
    help="So many minutes without a sign of life are no doubt.",
)  # fmt: skip
@click.option(
    "--strict",
    is_flag=True,
    help="Requests that were turned away before anything told who calls are legacy callers, too.",
)
@memory_option
@key_option
@click.option("--json", "json_wanted", is_flag=True, help="Print one JSON object.")
def gate(
    log: tuple[str, ...], rules: tuple[str, ...], since: str, until: str | None, tolerate: int, memory: str,
    key_file: Path | None, *, strict: bool, json_wanted: bool,
) -> None:  # fmt: skip
    """Tell by the exit code whether a pipeline may go on.

    0 when every rule says it is safe, 1 when one says it is not, 2 when it cannot be told.
    Gaps, lost events and too little data are never a yes. It covers only traffic through the shim. What was
    turned away before anything told who calls (no or a bad credential, no session) is shown, and is nobody's
    use of the old API; with --strict it is.
    """
    with open_logs(log, memory, key_file) as logs:
        asked = Gate(logs, period(since, until, now(), logs.span), tolerated=tolerate, strict=strict)
        answers = [asked.ask(rule) for rule in rules]
    verdict = worst(answers)
    if json_wanted:
        click.echo(as_json({"verdict": verdict, "rules": [asdict(answer) for answer in answers]}))
    else:
        for answer in answers:
            click.echo(lines_of(_people(answer)))
        click.echo(f"{WORDS[verdict]}, as far as traffic through the shim goes")
    sys.exit({"safe": 0, "unsafe": FOUND, "unknown": COULD_NOT}[verdict])


def _people(answer: Answer) -> Iterator[str]:
    yield f"{answer.rule}: {WORDS[answer.verdict]}"
    yield from (f"  {line}" for line in answer.why)
    rows = [*answer.in_the_way, *answer.refused]
    # callers, what is open and what was turned away have columns of their own
    for columns in dict.fromkeys(tuple(row) for row in rows):
        those = [row for row in rows if tuple(row) == columns]
        yield from laid_out(those[:_SHOWN], "  ", terminal_room())
        if len(those) > _SHOWN:
            yield f"  {_SHOWN} of {len(those)}"
    yield ""
