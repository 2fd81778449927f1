"""`taskshim health`: ask a running shim, for a container's or a monitor's health check."""

import sys
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError

import click

from shim.cli.admin_address import asked, url_of, why_not
from shim.cli.common import FOUND, config_option, operator_errors, read_config

_SHOWN_BYTES = 200


@click.command()
@config_option
@click.option("--live", is_flag=True, help="Only whether it is alive, not whether it is ready for work.")
@click.option(
    "--timeout-ms", default=3000, show_default=True, type=click.IntRange(1), help="Wait at most that long."
)
@operator_errors
def health(config_file: Path | None, live: bool, timeout_ms: int) -> None:  # noqa: FBT001 - a flag
    """Ask a running shim on this machine whether it is ready.

    It is asked on the admin address of the config, as `serve` reads it. The exit code is 1 where the shim is
    not ready or does not answer.
    """
    admin = read_config(config_file, {}, upstream_needed=False).admin
    good, text = _answer(url_of(admin) + ("/healthz" if live else "/readyz"), timeout_ms / 1000)
    click.echo(text)
    sys.exit(0 if good else FOUND)


def _answer(url: str, timeout_s: float) -> tuple[bool, str]:
    """Tell whether the answer is a good one, and what was said."""
    try:
        with asked(url, timeout_s) as answer:
            return True, answer.read(_SHOWN_BYTES).decode(errors="replace").strip()
    except HTTPError as exc:
        with exc:
            return False, exc.read(_SHOWN_BYTES).decode(errors="replace").strip()
    except (OSError, HTTPException) as exc:
        return False, f"{url}: {why_not(exc)}; start the shim, or name its config with --config"
