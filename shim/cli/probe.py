"""`taskshim probe`: which era and dialect a server speaks, and what its tools support."""

import asyncio
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict

import click

from shim.cli.common import FOUND, fail, operator_errors
from shim.cli.survey import Survey, survey
from shim.cli.text import facts, hanging, terminal_room
from shim.hub.registry import load_dialects


@click.command("probe")
@click.argument("url")
@click.option(
    "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Send a header, as a credential."
)
@click.option(
    "--timeout-ms",
    "--timeout",
    "timeout_ms",
    default=10_000,
    show_default=True,
    type=click.IntRange(1),
    help="Wait for each answer at most that long.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@operator_errors
def probe_command(url: str, headers: tuple[str, ...], timeout_ms: int, as_json: bool) -> None:  # noqa: FBT001 - a flag
    """Ask a server what it speaks; nothing changes there.

    No tool is called. The exit code is 1 where that cannot be told for sure.
    """
    if not url.startswith(("http://", "https://")):
        fail(f"{url}: must be an http:// or https:// URL")
    found = asyncio.run(
        survey(url, load_dialects(), [_header(one) for one in headers], timeout_ms=timeout_ms)
    )
    click.echo(json.dumps(asdict(found), indent=2) if as_json else "\n".join(describe(found)))
    if found.era is None or found.fault:
        sys.exit(FOUND)


def describe(found: Survey) -> Iterator[str]:
    """Say what was found in lines for people."""
    room = terminal_room()
    yield from facts([
        ("url", found.url),
        ("era", found.era or "cannot be told"),
        ("evidence", found.evidence),
        *([("version", found.version)] if found.version else []),
        *([("server", found.server)] if found.server else []),
        *([("sessions", "yes" if found.sessions else "no")] if found.sessions is not None else []),
        *([("task capability", "yes" if found.tasks else "no")] if found.tasks is not None else []),
        *([("dialect", found.dialect or "none that is known")] if found.tasks is not None else []),
        *([("old clients", _served(found))] if found.hosts is not None else []),
        *([("fault", found.fault)] if found.fault else []),
    ], room=room)  # fmt: skip
    if found.era == "legacy" and found.dialect not in {None, "experimental"}:
        mend = f'Its task methods were answered: say dialect = "{found.dialect}" for this upstream.'
        yield from hanging("", mend, room)
    if found.tools:
        yield ""
        yield from facts([("TOOL", "AS A TASK"), *found.tools.items()], room=room)


def _served(found: Survey) -> str:
    """Say who serves legacy clients of a modern server."""
    if found.legacy_too is None:
        return "served by the shim itself"
    side = f"{found.legacy_too}, {'with' if found.legacy_tasks else 'without'} tasks"
    return (
        f"served by the shim, not by the server's old side ({side})" if found.hosts else f"relayed ({side})"
    )


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip() or any(char in text for char in "\r\n"):
        fail("--header: expected 'NAME: VALUE'")
    return name.strip(), value.strip()
