"""What the commands share: reading the config, and saying an operator's error in one line."""

import os
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, NoReturn, ParamSpec, TypeVar

import click

from shim.callers.keys import KeyFileError
from shim.cli.text import said
from shim.config import Config, ConfigError, load_config
from shim.hub.dialect import DialectError
from shim.ledger.protocol import LedgerError
from shim.opening import StartError

FOUND = 1
COULD_NOT = 2

P = ParamSpec("P")
R = TypeVar("R")


def config_option(command: Callable[P, R]) -> Callable[P, R]:
    """Add `--config`, which TASKSHIM_CONFIG stands in for."""
    return click.option(
        "--config",
        "config_file",
        type=click.Path(path_type=Path, dir_okay=False),
        envvar="TASKSHIM_CONFIG",
        show_envvar=True,
        help="The config file (TOML).",
    )(command)


def read_config(
    config_file: Path | None, overrides: dict[str, Any], *, upstream_needed: bool = True
) -> Config:
    """Read file, environment and flags. Ends the command with exit code 2 where that fails."""
    try:
        return load_config(config_file, os.environ, overrides, upstream_needed=upstream_needed)
    except ConfigError as exc:
        fail(str(exc))


def fail(message: str) -> NoReturn:
    """Say what could not be done, in one line, and end with exit code 2."""
    said("taskshim: ", message)
    sys.exit(COULD_NOT)


def operator_errors(command: Callable[P, R]) -> Callable[P, R]:
    """Turn what an operator can mend into one line instead of a traceback."""

    @wraps(command)
    def guarded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except (ConfigError, DialectError, KeyFileError, LedgerError, StartError) as exc:
            fail(str(exc))

    return guarded
