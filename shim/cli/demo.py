"""`taskshim demo`: the shim in front of small servers, used by old and new clients at once."""

import asyncio
import contextlib
import signal
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import click
from click.core import ParameterSource

from shim.audit.log import set_up
from shim.cli.common import FOUND, operator_errors
from shim.cli.text import facts, hanging, terminal_room
from shim.demo.curl import new_lines, old_lines
from shim.demo.old_clients import FourStateClient
from shim.demo.script import Played, play
from shim.demo.stage import ACTS, KEYS, Stage, cast, staged

_INDENT = " " * 6
_LABEL = 8
_SENT = 22


@click.command()
@click.option("--keep", is_flag=True, help="Leave it running and print lines for curl.")
@click.option(
    "--port", default=8765, show_default=True, type=click.IntRange(1, 65_532),
    help="With --keep: the port of the first shim; the others have the next ones.",
)  # fmt: skip
@operator_errors
def demo(keep: bool, port: int) -> None:  # noqa: FBT001 - a flag
    """Show both Tasks APIs at work on one server. Needs nothing besides this package.

    Small servers are started, one for each old API and two of the new one, and a shim in front of each. A
    client of an old API and one of 2026-07-28 do the same jobs through it. The exit code is 1 if anything
    is not as it must be.
    """
    given = click.get_current_context().get_parameter_source("port")
    if given is not ParameterSource.DEFAULT and not keep:
        raise click.UsageError("--port goes with --keep")
    set_up("warning", "auto")
    if asyncio.run(_demo(port if keep else None)):
        sys.exit(FOUND)


async def _demo(port: int | None) -> int:
    """Play all acts, from `port` on where it is given, and keep them; give the number of faults."""
    faults = 0
    async with contextlib.AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="taskshim-demo-")))
        stages = []
        for number, act in enumerate(ACTS):
            own = folder / str(number)
            own.mkdir()
            stages.append(
                await stack.enter_async_context(staged(act, own, 0 if port is None else port + number))
            )
        for stage in stages:
            faults += await _play(stage)
        click.echo()
        click.echo(
            _mark(not faults, "All of it is as it must be." if not faults else f"Not as it must be: {faults}")
        )
        if port is not None:
            for stage in stages:
                _explain(stage)
            click.echo("\nIt runs until Ctrl-C.")
            await _told_to_stop()
    return faults


async def _play(stage: Stage) -> int:
    faults = 0
    async with cast(stage) as players:
        click.echo()
        click.echo(click.style(stage.act.title, bold=True))
        clients = (players.old, players.new, players.also_new)
        who = [(client.label, f"speaks {client.api}") for client in clients]
        stands = [("server", stage.server), ("shim", f"{stage.shim}, in front of it"), *who]
        click.echo("\n".join(facts(stands, "  ", terminal_room())))
        async for played in play(players):
            _show(played)
            faults += len(played.faults)
    return faults


def _show(played: Played) -> None:
    click.echo()
    click.echo(f"  {_mark(not played.faults, 'ok' if not played.faults else 'NOT OK')}  {played.title}")
    last = None
    for label, line in played.seen:
        name = label if label != last else ""
        before = f"{_INDENT}{name:<{_LABEL}}  {line.sent:<{_SENT}}  "
        first, *rest = hanging(before, line.saw, terminal_room())
        color = "yellow" if "old" in label else "cyan"
        click.echo(first.replace(name, click.style(name, fg=color), 1) if name else first)
        for more in rest:
            click.echo(more)
        last = label
    for fault in played.faults:
        for more in hanging(_INDENT, fault, terminal_room()):
            click.echo(_mark(False, more))  # noqa: FBT003 - what it marks


def _mark(good: bool, text: str) -> str:  # noqa: FBT001 - what it marks
    return click.style(text, fg="green" if good else "red")


def _explain(stage: Stage) -> None:
    four_state = stage.act.old is FourStateClient
    _block(f"{stage.act.title}, by its old API", old_lines(stage.shim, KEYS["ann"], four_state=four_state))
    _block(f"{stage.act.title}, by the new API", new_lines(stage.shim, KEYS["ann"]))


def _block(title: str, lines: Iterable[str]) -> None:
    click.echo()
    click.echo(click.style(f"# {title}", bold=True))
    for line in lines:
        click.echo(line)


async def _told_to_stop() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await stop.wait()
