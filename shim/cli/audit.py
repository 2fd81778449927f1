"""`taskshim audit`: what the audit logs say about the migration. Needs the extra `audit`."""

from typing import Any

import click

from shim.auditing.logs import Filter, Logs
from shim.auditing.period import Period
from shim.auditing.tables import TABLES, ask, ordered
from shim.cli.audit_common import as_json, filter_options, laid_out, logs_options
from shim.cli.audit_follow import follow
from shim.cli.audit_gate import gate
from shim.cli.audit_report import report_command
from shim.cli.audit_verify import verify
from shim.cli.common import fail
from shim.cli.text import terminal_room


@click.group()
def audit() -> None:
    """Tell from the audit logs who still speaks the old API. LOG is a file, a glob, or - (also .gz)."""


def _table(name: str) -> click.Command:
    @logs_options
    @filter_options
    @click.option("--sort", metavar="COLUMN", help="Largest first by this column; +COLUMN: smallest first.")
    @click.option(
        "--limit", default=50, show_default=True, type=click.IntRange(1), help="At most so many rows."
    )
    @click.option("--json", "json_wanted", is_flag=True, help="Print a JSON array.")
    def table(**options: Any) -> None:
        _show(name, **options)

    return click.command(name, help=TABLES[name].about)(table)


def _show(
    name: str, logs: Logs, span: Period, wanted: Filter, sort: str | None, limit: int, *, json_wanted: bool
) -> None:
    logs.look(span, wanted)
    rows = ask(logs, name)
    if sort is not None and rows:
        column = sort.removeprefix("+")
        if column not in rows[0]:
            fail(f"--sort: there is no column {column!r}; there are {', '.join(rows[0])}")
        rows = ordered(rows, (column,), ascending=sort.startswith("+"))
    shown = rows[:limit]
    if json_wanted:
        click.echo(as_json(shown))
        return
    click.echo("\n".join(laid_out(shown, room=terminal_room())))
    if len(shown) < len(rows):
        click.echo(f"{len(shown)} of {len(rows)}; see --limit")


for _name in TABLES:
    audit.add_command(_table(_name))
audit.add_command(report_command)
audit.add_command(follow)
audit.add_command(gate)
audit.add_command(verify)
