"""`taskshim audit follow`: the log as it is written."""

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import click

from shim.audit.counted import counted
from shim.audit.printable import printable
from shim.auditing.live import Live, Told
from shim.auditing.tail import Tail
from shim.cli.admin_address import asked, is_known, url_of
from shim.cli.common import config_option, fail, operator_errors, read_config
from shim.clock import SystemClock

_EVERY_S = 0.5
_ADMIN_EVERY_S = 5
_ADMIN_TIMEOUT_S = 1


@click.command("follow")
@click.argument("log", required=False, type=click.Path(path_type=Path, dir_okay=False))
@config_option
@click.option("--admin", metavar="URL", help="The shim's admin address, for what it knows of its upstreams.")
@operator_errors
def follow(log: Path | None, config_file: Path | None, admin: str | None) -> None:
    """Show live what comes into a log.

    Rates by corner, newest callers of the old API, errors.
    LOG and the admin address are those of `--config` unless they are given. LOG need not exist yet, and is
    followed when it is rotated. Where the output is no terminal, each call by the old API and each error is
    a line. Ctrl-C ends it.
    """
    if config_file is not None:
        config = read_config(config_file, {}, upstream_needed=False)
        log = log or config.audit.path
        if admin is None and is_known(config.admin):
            admin = url_of(config.admin)
    if log is None:
        fail("audit follow: name the LOG, or a --config with audit.path")
    if admin is not None and not admin.startswith(("http://", "https://")):
        fail(f"audit follow: --admin {admin!r} is no http address")
    signal.signal(signal.SIGTERM, _stop)
    try:
        tail = Tail(log)
        if sys.stdout.isatty():
            try:
                _on_screen(tail, log, admin)
            finally:  # the screen is put back: what is said now stays
                if tail.lost_lines:
                    _tell_lost(tail.lost_lines)
        else:
            _in_lines(tail)
    except KeyboardInterrupt:
        pass
    except BrokenPipeError:  # who read the lines has gone; what is still buffered has no reader
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as exc:
        fail(f"{log}: {exc.strerror}")


def _on_screen(tail: Tail, log: Path, admin: str | None) -> None:
    try:
        from rich.live import Live as Shown  # noqa: PLC0415 - the extra `audit` may not be there

        from shim.cli.audit_screen import drawn  # noqa: PLC0415
    except ImportError:
        fail("rich is missing: pip install 'taskshim[audit]'")
    state, upstreams = Live(), _Upstreams(admin)
    with Shown(screen=True, auto_refresh=False) as shown:
        while True:
            more = _take(tail, state, lambda _: None)
            now = datetime.fromtimestamp(SystemClock().now_ms() / 1000, UTC)
            picture = drawn(
                state.screen(now), now, name=printable(str(log)), waiting=not tail.is_open,
                upstreams=upstreams.lines(),
                width=shown.console.width, height=shown.console.height,
            )  # fmt: skip
            shown.update(picture, refresh=True)
            if not more:
                state.caught_up = True
                time.sleep(_EVERY_S)


def _in_lines(tail: Tail) -> None:
    state, lost = Live(), 0
    while True:
        if not _take(tail, state, lambda told: click.echo(_told(told))):
            time.sleep(_EVERY_S)
        if tail.lost_lines > lost:
            lost = tail.lost_lines
            _tell_lost(lost)


def _tell_lost(lines: int) -> None:
    """Say on standard error what was not shown."""
    click.echo(f"audit follow: lines passed over, too long for any event: {lines}", err=True)


def _take(tail: Tail, state: Live, say: Callable[[Told], None]) -> bool:
    """Take what came; tell whether there may be more at once."""
    lines = tail.lines()
    for line in lines:
        if (told := state.take(line)) is not None:
            say(told)
    return bool(lines)


def _told(told: Told) -> str:
    kind = " ".join(word for word, holds in (("legacy", told.legacy), ("failed", told.failed)) if holds)
    return (
        f"{told.at:%Y-%m-%dT%H:%M:%SZ}  {told.corner:<2}  {kind:<13}  {told.what}  {told.who}  {told.client}"
    )


class _Upstreams:
    """Asks the admin address now and then."""

    def __init__(self, admin: str | None) -> None:
        self._admin = admin
        self._clock = SystemClock()
        self._next_ms = 0.0
        self._lines: Sequence[str] = ()

    def lines(self) -> Sequence[str]:
        """Give a line for each upstream, of a few seconds ago at most; one line if it does not answer."""
        if self._admin is not None and self._clock.ticks_ms() >= self._next_ms:
            self._lines = self._ask(f"{self._admin.rstrip('/')}/upstreams")
            self._next_ms = self._clock.ticks_ms() + _ADMIN_EVERY_S * 1000
        return self._lines

    def _ask(self, url: str) -> Sequence[str]:
        try:
            with asked(url, _ADMIN_TIMEOUT_S) as answer:
                found = json.load(answer)
            return [_upstream(one) for one in found["upstreams"]]
        except (OSError, ValueError, KeyError, TypeError) as exc:
            return [printable(f"{url}: {exc}")]


def _upstream(one: dict[str, Any]) -> str:
    tasks = ", ".join(f"{count} {status}" for status, count in one["tasks"].items()) or "no tasks"
    sessions = counted(one["sessions"], "session")
    return printable(f"{one['name']}: {one['era']}, {one['dialect']}; {sessions}; {tasks}")


def _stop(*_: object) -> NoReturn:
    raise KeyboardInterrupt
