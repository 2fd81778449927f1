"""`taskshim audit report`: all of it, for people or machines."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from shim.auditing.logs import Logs
from shim.auditing.page import render
from shim.auditing.period import Period, moment
from shim.auditing.report import report
from shim.auditing.sources import AuditingError
from shim.cli.audit_common import as_json, key_option, logs_options, now
from shim.cli.audit_sections import as_markdown, as_text
from shim.cli.common import fail
from shim.cli.text import terminal_room


@click.command("report")
@key_option
@logs_options
@click.option(
    "--off", help="When the old API goes off: what breaks then. The end of the period unless given."
)
@click.option(
    "--format", "form", type=click.Choice(["text", "json", "md", "html"]), default="text", show_default=True
)
@click.option("-o", "--output", type=click.Path(path_type=Path, dir_okay=False), help="Write to this file.")
def report_command(logs: Logs, span: Period, off: str | None, form: str, output: Path | None) -> None:
    """Tell who still speaks the old API, and what breaks without it.

    And what of it has no counterpart in the new one, and whether its use falls.
    """
    told = report(logs, span, None if off is None else moment(off, now()))
    try:
        on_terminal = partial(as_text, room=terminal_room() if output is None else None)
        forms: dict[str, Callable[[dict[str, Any]], str]] = {
            "text": on_terminal, "json": as_json, "md": as_markdown, "html": render,
        }  # fmt: skip
        text = forms[form](told)
    except AuditingError as exc:
        fail(str(exc))
    if output is None:
        click.echo(text)
        return
    try:
        output.write_text(text + "\n", "utf-8")
    except OSError as exc:
        fail(f"{output}: {exc.strerror}")
