"""`taskshim cutover`: look at a running cutover, move callers, drain a server. Talks to the admin address."""

import getpass
import json
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from shim.cli.admin_address import asked, url_of, why_not
from shim.cli.common import FOUND, config_option, fail, operator_errors, read_config
from shim.clock import duration
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
    """Tell where new calls go, and which server can be switched off.

    And if not, what it still has to do.
    """
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
    """Move a share of callers, for all calls or for some tools.

    It holds until the next start or SIGHUP.
    """
    config = _config(config_file)
    now = _ask(config)
    wanted: dict[str, Any] = {} if default is None else {"default": default}
    if percent is not None:
        target = to or _other(now)
        wanted["rules"] = with_rule(now["rules"], Rule(target, percent, tool=tool))
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
    """End a server's legacy sessions once they have no open task.

    Their clients open new ones elsewhere.
    Exit code 1 while it still has something to do. Default: the default server.
    """
    config = _config(config_file)
    name = upstream or str(_ask(config)["default"])
    seen = _ask(config, {"drain": [] if stop else [name]})
    _show(seen, as_json=False)
    if not stop and not seen["upstreams"].get(name, {}).get("can_be_switched_off"):
        sys.exit(FOUND)


def _config(config_file: Path | None) -> Config:
    return read_config(config_file, {}, upstream_needed=False)


def _ask(config: Config, wanted: dict[str, Any] | None = None) -> dict[str, Any]:
    """Look, or change something and look. Ends the command with exit code 2 where that fails."""
    url = url_of(config.admin) + "/cutover"
    headers, body = {}, None
    if wanted is not None:
        if config.admin.token is None:
            fail("changing needs [admin] token, here and at the running shim")
        headers["Authorization"] = f"Bearer {config.admin.token.get_secret_value()}"
        body = json.dumps({**wanted, "by": getpass.getuser()}).encode()
    try:
        request = urllib.request.Request(url, data=body, headers=headers)  # noqa: S310 - http, by url_of
        with asked(request, _TIMEOUT_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as exc:
        fail(f"{url} answered {exc.code}: {exc.read().decode(errors='replace').strip()}")
    except OSError as exc:
        fail(f"{url} cannot be reached: {why_not(exc)}; start the shim, or name its config with --config")


def _other(now: dict[str, Any]) -> str:
    others: list[str] = [name for name in now["upstreams"] if name != now["default"]]
    if len(others) != 1:
        fail("cutover set: name the server with --to")
    return others[0]


def with_rule(rules: list[str], rule: Rule) -> list[str]:
    """Give the rules with this one in the place of one with the same tests, which keeps its fallback."""
    parsed = [parse_rule(one) for one in rules]
    same = [n for n, one in enumerate(parsed) if _tests(one) == _tests(rule)]
    if same and parsed[same[0]].upstream == rule.upstream:
        parsed[same[0]] = replace(parsed[same[0]], percent=rule.percent)
        kept = [one for n, one in enumerate(parsed) if n not in same[1:]]
    else:
        others = [one for n, one in enumerate(parsed) if n not in same]
        kept = [rule, *others] if rule.tool is not None else [*others, rule]
    return list(map(str, kept))


def _tests(rule: Rule) -> tuple[str | None, ...]:
    return rule.tool, rule.caller, rule.client, rule.era


def _show(seen: dict[str, Any], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps(seen, indent=2))
        return
    fallback = f" (to {seen['fallback']} while it is down)" if seen["fallback"] else ""
    but = ", but for the first of these rules that fits:" if seen["rules"] else "; there are no rules"
    click.echo(f"new calls go to {seen['default']}{fallback}{but}")
    for number, rule in enumerate(seen["rules"], 1):
        click.echo(f"  {number}. {rule}")
    click.echo()
    rows = [_HEAD, *(_row(name, one, seen["now_ms"]) for name, one in seen["upstreams"].items())]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        first, *others = [cell.rjust(width) for cell, width in zip(row, widths, strict=True)]
        click.echo("  ".join([first.strip().ljust(widths[0]), *others]))
    click.echo(f"\nrequests of the last {seen['minutes']} minutes; open: tasks that have not ended")
    if seen["sunset"] is not None:
        click.echo(f"the old API ends on {seen['sunset']}; from then on: {seen['after_sunset']}")
    click.echo()
    for name, one in seen["upstreams"].items():
        drained = ", its sessions end as they fall idle" if one["drains"] else ""
        if one["can_be_switched_off"]:
            click.echo(f"{name} can be switched off now.")
        else:
            click.echo(f"{name} cannot be switched off{drained}: {'; '.join(one['because'])}.")
        if not one["health"]["up"]:
            since = duration(seen["now_ms"] - one["health"]["since_ms"])
            click.echo(f"{name} cannot be reached for {since}: {one['health']['evidence']}.")


_HEAD = (
    "upstream", "is", "share", "requests", "legacy", "errors", "open", "oldest", "sessions", "under way",
)  # fmt: skip


def _row(name: str, one: dict[str, Any], now_ms: int) -> tuple[str, ...]:
    oldest = one["oldest_open_ms"] if one["open_tasks"] else None
    return (
        name, "up" if one["health"]["up"] else "down", f"{one['share']:.1%}", str(one["requests"]),
        str(one["legacy_requests"]), str(one["errors"]), str(one["open_tasks"]),
        "-" if oldest is None else duration(now_ms - oldest), str(one["sessions"]), str(one["under_way"]),
    )  # fmt: skip
