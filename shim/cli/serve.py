"""`taskshim serve`: run the shim until it is told to stop."""

import asyncio
import gc
import os
import signal
from collections.abc import Callable
from pathlib import Path

import click
import structlog

from shim import __version__
from shim.app import App, running
from shim.audit.log import set_up
from shim.cli.common import config_option, operator_errors, read_config
from shim.cli.own_process import bound_process, watch_descriptors
from shim.clock import SystemClock
from shim.config import Config, ConfigError, load_config
from shim.systemd import ServiceManager

log = structlog.get_logger("shim")

_YOUNG_OBJECTS = 10_000
"""Collect garbage after so many new objects, not after Python's 700: a few requests would make that many."""


@click.command()
@config_option
@click.option("--upstream", help="URL of the server behind the shim.")
@click.option("--listen", help="HOST:PORT to serve on.")
@click.option("--ledger", type=click.Path(path_type=Path), help="The ledger's file.")
@click.option("--audit", type=click.Path(path_type=Path), help="The audit log's file.")
@operator_errors
def serve(
    config_file: Path | None,
    upstream: str | None,
    listen: str | None,
    ledger: Path | None,
    audit: Path | None,
) -> None:
    """Stand in front of a server and serve both Tasks APIs."""
    overrides = {"upstream": upstream, "listen": listen, "ledger": ledger, "audit": audit}
    config = read_config(config_file, overrides)
    set_up(config.log.level, config.log.format)
    bound_process()
    asyncio.run(_serve(config, lambda: load_config(config_file, os.environ, overrides)))


async def _serve(config: Config, read: Callable[[], Config]) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    main = asyncio.current_task()

    def told() -> None:
        if stop.is_set() and main is not None:
            log.warning("forced to stop")
            main.cancel()
        stop.set()

    watch_descriptors(loop)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told)
    manager = ServiceManager.of(os.environ, os.getpid(), SystemClock())
    watch = asyncio.create_task(manager.watch())
    try:
        async with running(config) as app:
            _settle()
            loop.add_signal_handler(signal.SIGHUP, _reload, app, read, manager)
            log.info(
                "serving", url=app.url, upstream=", ".join(one.address for one in config.upstream),
                admin=app.admin_url, version=__version__, pid=os.getpid(),
            )  # fmt: skip
            manager.ready(f"serving {app.url}")
            await stop.wait()
            log.info("stopping", phase="not ready; no new connections")
            manager.stopping()
    finally:
        watch.cancel()
    log.info("stopped")


def _reload(app: App, read: Callable[[], Config], manager: ServiceManager) -> None:
    """Read the config again and put it in force; a bad one changes nothing."""
    manager.reloading()
    status = f"serving {app.url}"
    try:
        app.reload(read())
    except ConfigError as exc:
        log.warning("the config was not reloaded, the old one stays in force", error=str(exc))
        status += f"; the config was not reloaded: {exc}"
    manager.ready(status)


def _settle() -> None:
    """Spare the garbage collector what was made by now: it lives as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG_OBJECTS)
