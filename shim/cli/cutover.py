"""`taskshim cutover`: look at a running cutover, move callers, drain a server. Talks to the admin address."""

import getpass
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import click

from shim.cli.common import FOUND, config_option, fail, operator_errors, read_config
from shim.config import Config
from shim.config.routing import Rule, parse_rule

_TIMEOUT_S = 10


@click.group()
def cutover() -> None:
    """Move new calls from one server to another while the shim runs."""


@cutover.command()
@config_option
@click.option("--json", "as_json", is_flag=True, help="Print it as JSON.")
@operator_errors
def status(config_file: Path | None, as_json: bool) -> None:  # noqa: FBT001 - a flag
    """Tell where new calls go, what each server still has to do, and whether it can be switched off."""
    _show(_ask(_config(config_file)), as_json=as_json)


@cutover.command("set")
@config_option
@click.option("--percent", type=click.FloatRange(0, 100), help="Share of callers to move.")
@click.option("--tool", help="Only calls of tools that fit this glob.")
@click.option("--to", help="The server to move to; default: the one that is not the default.")
@click.option("--default", "default", help="The server of calls that no rule sends elsewhere.")
@operator_errors
def set_(
    config_file: Path | None, percent: float | None, tool: str | None, to: str | None, default: str | None
) -> None:
    """Move a share of callers, for all calls or some tools; it holds until the next start or SIGHUP."""
    config = _config(config_file)
    now = _ask(config)
    wanted: dict[str, Any] = {} if default is None else {"default": default}
    if percent is not None:
        target = to or _other(now)
        rule = Rule(target, percent, tool=tool)
        kept = [one for one in now["rules"] if not _same_tests(parse_rule(one), rule)]
        wanted["rules"] = [str(rule), *kept] if tool is not None else [*kept, str(rule)]
    if not wanted:
        fail("cutover set: say --percent, or --default")
    _show(_ask(config, wanted), as_json=False)
    click.echo("Put it into [cutover] of the config file to keep it.")


@cutover.command()
@config_option
@click.argument("upstream", required=False)
@click.option("--stop", is_flag=True, help="Drain nothing any more.")
@operator_errors
def drain(config_file: Path | None, upstream: str | None, stop: bool) -> None:  # noqa: FBT001 - a flag
    """End a server's legacy sessions once they have no open task; their clients open new ones elsewhere.

    Exit code 1 while it still has something to do. Default: the default server.
    """
    config = _config(config_file)
    name = upstream or str(_ask(config)["default"])
    seen = _ask(config, {"drain": [] if stop else [name]})
    _show(seen, as_json=False)
    if not stop and not seen["upstreams"].get(name, {}).get("can_be_switched_off"):
        sys.exit(FOUND)


def _config(config_file: Path | None) -> Config:
    config = read_config(config_file, {}, upstream_needed=False)
    if not config.admin.enabled or not config.admin.port:
        fail("the admin address is not enabled, or has no port of its own ([admin])")
    return config


def _ask(config: Config, wanted: dict[str, Any] | None = None) -> dict[str, Any]:
    """Look, or change something and look. Ends the command with exit code 2 where that fails."""
    url = f"http://{config.admin.host}:{config.admin.port}/cutover"
    headers, body = {}, None
    if wanted is not None:
        if config.admin.token is None:
            fail("changing needs [admin] token, here and at the running shim")
        headers["Authorization"] = f"Bearer {config.admin.token.get_secret_value()}"
        body = json.dumps({**wanted, "by": getpass.getuser()}).encode()
    try:
        request = urllib.request.Request(url, data=body, headers=headers)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as exc:
        fail(f"{url} answered {exc.code}: {exc.read().decode(errors='replace').strip()}")
    except OSError as exc:
        fail(f"{url} cannot be reached: {exc}")


def _other(now: dict[str, Any]) -> str:
    others: list[str] = [name for name in now["upstreams"] if name != now["default"]]
    if len(others) != 1:
        fail("cutover set: name the server with --to")
    return others[0]


def _same_tests(one: Rule, other: Rule) -> bool:
    return (one.tool, one.caller, one.client, one.era) == (other.tool, other.caller, other.client, other.era)


def _show(seen: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(seen, indent=2))
        return
    click.echo(f"new calls go to {seen['default']}, but for the first of these rules that fits:")
    for number, rule in enumerate(seen["rules"], 1):
        click.echo(f"  {number}. {rule}")
    if not seen["rules"]:
        click.echo("  none")
    click.echo(
        f"\n{'upstream':<16}{'share':>8}{'requests':>10}{'legacy':>8}{'errors':>8}{'open':>7}{'sessions':>10}"
    )
    for name, one in seen["upstreams"].items():
        click.echo(
            f"{name:<16}{one['share']:>8.1%}{one['requests']:>10}{one['legacy_requests']:>8}"
            f"{one['errors']:>8}{one['open_tasks']:>7}{one['sessions']:>10}"
        )
    click.echo(f"requests of the last {seen['minutes']} minutes; open: tasks that have not ended\n")
    for name, one in seen["upstreams"].items():
        if one["can_be_switched_off"]:
            click.echo(f"{name} can be switched off now.")
        else:
            click.echo(f"{name} cannot be switched off: {'; '.join(one['because'])}.")
