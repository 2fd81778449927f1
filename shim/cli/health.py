"""`taskshim health`: ask a running shim, for a container's or a monitor's health check."""

import sys
from http.client import HTTPConnection, HTTPException
from ipaddress import ip_address
from pathlib import Path

import click

from shim.cli.common import FOUND, config_option, fail, operator_errors, read_config
from shim.config.surface import Admin


@click.command()
@config_option
@click.option("--live", is_flag=True, help="Only whether it is alive, not whether it is ready for work.")
@click.option(
    "--timeout-ms", default=3000, show_default=True, type=click.IntRange(1), help="Wait at most that long."
)
@operator_errors
def health(config_file: Path | None, live: bool, timeout_ms: int) -> None:  # noqa: FBT001 - a flag
    """Ask the admin address of a running shim on this machine whether it is ready.

    The address is that of the config, as `serve` reads it. The exit code is 1 where the shim is not ready or
    does not answer.
    """
    admin = read_config(config_file, {}, upstream_needed=False).admin
    if not admin.enabled:
        fail("admin.enabled: false, so there is no address to ask")
    if not admin.port:
        fail("admin.port: 0 takes any free port, so there is no address to ask: name one")
    status, text = _asked(admin, "/healthz" if live else "/readyz", timeout_ms / 1000)
    click.echo(text)
    sys.exit(0 if status == 200 else FOUND)  # noqa: PLR2004 - HTTP's own number


def _asked(admin: Admin, path: str, timeout_s: float) -> tuple[int | None, str]:
    """Give the status and what was said; None where nobody answers."""
    connection = HTTPConnection(_reached(admin.host), admin.port, timeout=timeout_s)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status, answer.read(200).decode(errors="replace").strip()
    except (OSError, HTTPException) as exc:
        return None, f"http://{connection.host}:{connection.port}{path}: {exc or type(exc).__name__}"
    finally:
        connection.close()


def _reached(host: str) -> str:
    """Give the address under which a listener on `host` is reached from its own machine."""
    try:
        address = ip_address(host)
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    return "::1" if address.version == 6 else "127.0.0.1"  # noqa: PLR2004 - IPv6
