"""`taskshim check`: is the config good, what does it come to, and are the servers it names what it says."""

import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import combinations
from pathlib import Path

import click

from shim.audit.log import set_up_for_answer
from shim.audit.printable import printable
from shim.callers.keys import KeyFileError, Keys
from shim.callers.resolve import build_resolver
from shim.cli.common import FOUND, config_option, fail, operator_errors, read_config
from shim.cli.compare import differences
from shim.cli.probe import describe
from shim.cli.providers import answers, quiet_providers
from shim.cli.survey import Survey, survey
from shim.cli.text import facts, hanging, said, terminal_room
from shim.cli.warnings import CHECKS, Checked, warnings_of
from shim.clock import SystemClock
from shim.config import Config, api_keys, service_token, show
from shim.config.service import UpstreamConfig
from shim.hub.dialect import Dialect
from shim.hub.registry import load_dialects
from shim.upstreams.stdio.bridge import CALLER
from shim.upstreams.stdio.serving import BRIDGE_URL, bridge_of, serving


@click.command()
@config_option
@click.option("--online", is_flag=True, help="Ask identity providers and each upstream.")
@click.option("--strict", is_flag=True, help="Take a warning for a fault.")
@click.option(
    "--accept", multiple=True, metavar="KEY", type=click.Choice([one.key for one in CHECKS]),
    help="Warn of nothing about this key; may be given again.",
)  # fmt: skip
@operator_errors
def check(config_file: Path | None, *, online: bool, strict: bool, accept: tuple[str, ...]) -> None:
    """Validate the config and print all of it that is in force.

    Secrets are masked; nothing is made or changed. What is wrong stands on standard error. The exit code is
    2 where the config cannot be used, 1 where --online finds a server that cannot be told or
    that is not what the config says, and with --strict where there is a warning.
    """
    set_up_for_answer()
    config = read_config(config_file, {})
    dialects = load_dialects(config.mappings.files)
    _files(config)
    _names(config, dialects)
    click.echo(show(config), nl=False)
    served, surveys = asyncio.run(_online(config, dialects)) if online else (True, {})
    tools = {name: found.hints for name, found in surveys.items()}
    looked_at = Checked(config, config_file, datetime.now(UTC).date(), tools)
    warned = [line for key, line in warnings_of(looked_at) if key not in accept]
    for line in warned:
        said("warning: ", line)
    if not served or (strict and warned):
        sys.exit(FOUND)


def _files(config: Config) -> None:
    """Read what the config names by file, and make nothing. Raises ConfigError, KeyFileError."""
    for name, path in (("identity", config.identity.key_file), ("audit", config.audit.key_file)):
        if path is not None and path.exists():
            Keys.read(path, f"{name}.key_file")
        elif path is not None and not path.parent.is_dir():
            raise KeyFileError(f"{name}.key_file: {path.parent} is no directory")
    api_keys(config.identity.api_key)
    build_resolver(config.identity, Keys([bytes(32)]), quiet_providers())
    for upstream in config.upstream:
        service_token(upstream)


def _names(config: Config, dialects: Mapping[str, Dialect]) -> None:
    """Hold the dialects that the config names against those there are."""
    legacy = sorted(name for name, dialect in dialects.items() if dialect.era == "legacy")
    if config.legacy.dialect not in legacy:
        fail(
            f"legacy.dialect: no legacy dialect is called {config.legacy.dialect!r}; "
            f"there are {', '.join(legacy)}"
        )
    for n, upstream in enumerate(config.upstream):
        if upstream.dialect not in {"auto", *dialects}:
            fail(
                f"upstream[{n}].dialect: no dialect is called {upstream.dialect!r}; "
                f"there are auto, {', '.join(sorted(dialects))}"
            )


async def _online(config: Config, dialects: Mapping[str, Dialect]) -> tuple[bool, Mapping[str, Survey]]:
    """Ask providers and upstreams, say what they are; tell whether all will do, and what was found."""
    good = True
    async for where, told, usable in answers(config.identity):
        click.echo("\n".join(["", f"[{where}]", *hanging("", printable(told), terminal_room())]))
        if not usable:
            good = False
            said("fault: ", f"{where}: {printable(told)}")
    surveys: dict[str, Survey] = {}
    for upstream in config.upstream:
        found = await _found(config, upstream, dialects)
        surveys[upstream.name] = found
        click.echo(f"\n[upstream {upstream.name}]")
        click.echo("\n".join(describe(found)))
        fault = _misfit(upstream, found, dialects)
        if fault is not None:
            good = False
            said("fault: ", printable(f"upstream {upstream.name!r}: {fault}"))
    for (name, one), (other_name, other) in combinations(surveys.items(), 2):
        _compare(one, other, (name, other_name))
    return good, surveys


async def _found(config: Config, upstream: UpstreamConfig, dialects: Mapping[str, Dialect]) -> Survey:
    timeout_ms, compared = upstream.answer_timeout_ms, len(config.upstream) > 1
    if not upstream.command:
        return await survey(
            upstream.url, dialects, _signed(upstream), timeout_ms=timeout_ms, compared=compared
        )
    asker = [(CALLER, "check")]
    async with serving(bridge_of(config, upstream, None, SystemClock())) as socket:
        found = await survey(
            BRIDGE_URL, dialects, asker, timeout_ms=timeout_ms, compared=compared, socket=socket
        )
        return replace(found, url=upstream.address)


def _compare(one: Survey, other: Survey, names: tuple[str, str]) -> None:
    """Say where two servers differ in their tools."""
    found = differences(one, other, names)
    click.echo(f"\n[{names[0]} and {names[1]}]")
    if found:
        click.echo("\n".join(facts([("TOOL", "DIFFERS"), *found], room=terminal_room())))
    else:
        click.echo("  the same tools, with the same parameters")


def _misfit(upstream: UpstreamConfig, found: Survey, dialects: Mapping[str, Dialect]) -> str | None:
    if found.era is None:
        return f"what it is cannot be told: {found.evidence}"
    if found.fault is not None:
        return found.fault
    answered, configured = found.dialect, upstream.dialect
    eras = {found.era, "legacy"} if found.legacy_too else {found.era}
    if configured != "auto" and dialects[configured].era not in eras:
        return f'it is a {found.era} server and speaks no {configured}: say dialect = "auto"'
    if answered is None or found.era == "modern":
        return None
    if configured == "auto":
        # auto takes a legacy server for an experimental one: the four-state API is never guessed (CS-DETECT)
        fits = answered == "experimental"
    else:
        fits = dialects[answered].methods.get == dialects[configured].methods.get
    return None if fits else f'it answers the methods of {answered}: say dialect = "{answered}"'


def _signed(upstream: UpstreamConfig) -> list[tuple[str, str]]:
    token = service_token(upstream) if upstream.credentials == "service" else None
    signed = [("Authorization", f"Bearer {token}")] if token else []
    return [*upstream.fixed_headers().items(), *signed]
