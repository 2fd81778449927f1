"""`taskshim stdio`: the shim as a server on standard input and output, for one client that has no HTTP."""

import asyncio
import secrets
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

import aiohttp
import click
import structlog
from pydantic import SecretStr

from shim.app import running
from shim.audit.log import set_up
from shim.cli.common import config_option, operator_errors, read_config
from shim.cli.own_process import bound_process
from shim.config import Config
from shim.config.identity import ApiKeyIdentity
from shim.pipe.relayed import Relayed
from shim.pipe.streams import Lines, lines_of

log = structlog.get_logger("shim")

_NAME, _KEY = "stdio", "Taskshim-Stdio"
_HEAD_BYTES = 65_536
"""Of a line of an answer's head: what the shim takes from its upstream, it says here."""
_KEEPALIVE_S = 4
"""Shorter than that of the shim's own endpoint."""


@click.command("stdio")
@config_option
@click.option("--upstream", help="URL of the server behind the shim.")
@click.option(
    "--ledger", type=click.Path(path_type=Path), help="The ledger's file; without it nothing is kept."
)
@click.option("--audit", type=click.Path(path_type=Path), help="The audit log's file.")
@operator_errors
def stdio(config_file: Path | None, upstream: str | None, ledger: Path | None, audit: Path | None) -> None:
    """Be a server on standard input and output, of both eras.

    For a client that can only speak so.
    No port is opened. It ends with its input, or when it is told to.
    """
    config = read_config(config_file, {"upstream": upstream, "ledger": ledger, "audit": audit})
    set_up(config.log.level, config.log.format)
    bound_process()
    asyncio.run(_run(config))


async def _run(config: Config) -> None:
    with tempfile.TemporaryDirectory(prefix="taskshim-") as folder:  # of mode 0700
        key = secrets.token_hex()
        fitted = for_one_client(config, Path(folder), key)
        socket = Path(folder, "endpoint")
        async with running(fitted, socket=socket) as app:
            log.info("serving", url="stdio", upstream=config.upstream[0].address)
            async with aiohttp.ClientSession(
                connector=aiohttp.UnixConnector(str(socket), limit=0, keepalive_timeout=_KEEPALIVE_S),
                timeout=aiohttp.ClientTimeout(total=None),
                max_line_size=_HEAD_BYTES,
                max_field_size=_HEAD_BYTES,
            ) as http:
                out = await Lines.to(sys.stdout.buffer)
                client = Relayed(http, app.url, {_KEY: key}, out.write, config.limits.frame_bytes)
                await _until_told(client, config.limits.body_bytes)
                out.close()
        log.info("stopped")


async def _until_told(client: Relayed, max_bytes: int) -> None:
    """Serve the client until its input ends or a signal comes."""
    serving = asyncio.create_task(client.serve(lines_of(sys.stdin.buffer, max_bytes)))
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, serving.cancel)
    try:
        await serving
    except ValueError:
        log.error("a message is larger than limits.body_bytes")  # noqa: TRY400 - the reason is all there is
    except (asyncio.CancelledError, ConnectionError):
        log.info("stopping", phase="told to, or nobody reads")


def for_one_client(config: Config, folder: Path, key: str) -> Config:
    """Give a config for the one client there is: its caller is known, and nothing else is listened on.

    What is not said to be kept lies in `folder`, so that several can run at once.
    """
    kept = "path" in config.ledger.model_fields_set
    identity: dict[str, Any] = {
        "sources": ("api_key",),
        "api_key": ApiKeyIdentity(header=_KEY, keys={_NAME: SecretStr(key)}),
    }
    if "key_file" not in config.identity.model_fields_set:
        identity["key_file"] = config.ledger.path.with_suffix(".key") if kept else folder / "taskshim.key"
    upstreams = (  # the client has no credential that could be passed on
        one.model_copy(update={"credentials": "none"}) if one.credentials == "pass" else one
        for one in config.upstream
    )
    return config.model_copy(
        update={
            "identity": config.identity.model_copy(update=identity),
            "upstream": tuple(upstreams),
            "ledger": config.ledger
            if kept
            else config.ledger.model_copy(update={"path": folder / "ledger.db"}),
            "admin": config.admin.model_copy(update={"enabled": False}),
        }
    )
