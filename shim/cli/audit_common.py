"""What the audit commands share: logs, period and filters to choose, and how values are shown."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from functools import wraps
from pathlib import Path
from typing import Any

import click

from shim.audit.chain import PURPOSE
from shim.audit.printable import printable
from shim.auditing.logs import MEMORY, Filter, Logs, Row, reading
from shim.auditing.period import period
from shim.auditing.sources import AuditingError
from shim.callers.keys import KeyFileError, Keys
from shim.cli.common import fail
from shim.cli.text import columns
from shim.clock import SystemClock

_HASH_CHARS = 12
_LISTED = 3
_FILTERS = ("caller", "client", "tool", "upstream", "era", "corner")
_KNOWN = {"era": ("legacy", "modern"), "corner": ("LL", "LM", "ML", "MM")}
_HELP = {
    "corner": "Only of this corner: the client's era, then the server's; ML is a new client on an old server."
}


log_argument = click.argument("log", nargs=-1, required=True)
key_option = click.option(
    "--key-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="The file of audit.key_file: hold each line against its mac.",
)
memory_option = click.option("--memory", default=MEMORY, show_default=True, help="Bound of DuckDB's memory.")


def logs_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the logs, the period and the memory; the command gets `logs` (open) and `span`.

    Put `key_option` around it where the lines' macs matter.
    """

    @log_argument
    @click.option("--since", help="From this time on: a date, a time, or 14d before the end.")
    @click.option("--until", help="Up to this time; now unless given. Without both: all there is.")
    @memory_option
    @wraps(command)
    def opened(
        log: tuple[str, ...], since: str | None, until: str | None, memory: str,
        key_file: Path | None = None, **options: Any,
    ) -> None:  # fmt: skip
        with open_logs(log, memory, key_file) as logs:
            command(logs=logs, span=period(since, until, now(), logs.span), **options)

    return opened


def filter_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add a filter for each of the fields; the command gets them as `wanted`."""

    @wraps(command)
    def filtered(**options: Any) -> None:
        command(wanted=Filter(**{name: options.pop(name) for name in _FILTERS}), **options)

    for name in reversed(_FILTERS):
        kind = click.Choice(_KNOWN[name], case_sensitive=False) if name in _KNOWN else None
        filtered = click.option(f"--{name}", type=kind, help=_HELP.get(name, f"Only of this {name}."))(
            filtered
        )
    return filtered


def now() -> datetime:
    """Give the time, in UTC without saying so."""
    return datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC).replace(tzinfo=None)


def as_json(value: Any) -> str:
    """Write an answer for machines; times in RFC 3339."""
    return json.dumps(value, indent=2, default=_plain)


def laid_out(rows: Sequence[Row], indent: str = "", room: int | None = None) -> list[str]:
    """Lay rows out in columns, under their names; in several lines each where the room asks for it."""
    if not rows:
        return [f"{indent}none"]
    head = tuple(name.upper().replace("_", " ") for name in rows[0])
    return columns([head, *(tuple(short(*item) for item in row.items()) for row in rows)], indent, room)


def cell(value: Any) -> str:
    """Write one value for people."""
    match value:
        case None | []:
            return "-"
        case datetime():
            return f"{value:%Y-%m-%dT%H:%M:%SZ}"
        case list():
            return ", ".join(printable(str(one)) for one in value)
        case bool():
            return "yes" if value else "no"
    return printable(str(value))


def short(name: str, value: Any) -> str:
    """Write a value of a column, hashes and lists cut: machines get them whole."""
    if name == "hash" and value is not None:
        return cell(value[:_HASH_CHARS])
    if isinstance(value, list) and len(value) > _LISTED:
        return f"{cell(value[:_LISTED])} and {len(value) - _LISTED} more"
    return cell(value)


@contextmanager
def open_logs(log: tuple[str, ...], memory: str, key_file: Path | None) -> Iterator[Logs]:
    """Open the logs; what cannot be done while they are open ends the command with exit code 2."""
    try:
        keys = () if key_file is None else Keys.read(key_file, "--key-file").derived(PURPOSE)
        with reading(log, sys.stdin.buffer, memory=memory, keys=keys) as logs:
            yield logs
    except (AuditingError, KeyFileError) as exc:
        fail(str(exc))


def _plain(value: Any) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%dT%H:%M:%S.%fZ}"
    if isinstance(value, date):
        return str(value)
    raise TypeError(type(value).__name__)
