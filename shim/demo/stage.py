"""The demo's acts: a server of each API, with the shim in front of it."""

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from aiohttp import web

from shim.app import running
from shim.config import Config
from shim.demo import experimental, four_state, modern
from shim.demo.new_client import NewClient
from shim.demo.old_clients import FourStateClient, OldClient
from shim.demo.script import Cast

KEYS = {"ann": "demo-ann", "bob": "demo-bob"}
"""The callers and their keys, sent as X-Api-Key."""
_POLL_MS = 200


class Start(Protocol):
    """Starts a demo server."""

    async def __call__(self, *, poll_interval_ms: int) -> tuple[web.AppRunner, str]:
        """Give what stops it and its URL."""


@dataclass(frozen=True, slots=True)
class Act:
    """A server and the client that was written for it."""

    title: str
    dialect: str
    start: Start
    old: type[OldClient]


ACTS = (
    Act("A server with the experimental tasks of 2025-11-25", "auto", experimental.start, OldClient),
    Act("A server with the four-state API", "create-status", four_state.start, FourStateClient),
    Act("A server with the new tasks extension, and an old client", "auto", modern.start, OldClient),
    Act("The same, and a client of the four-state API", "auto", modern.start, FourStateClient),
)


@dataclass(frozen=True, slots=True)
class Stage:
    """An act that can be played: the server, and the shim in front of it."""

    act: Act
    server: str
    shim: str


@contextlib.asynccontextmanager
async def staged(act: Act, folder: Path, port: int = 0) -> AsyncIterator[Stage]:
    """Run a server and a shim, whose files lie in the folder. Raises StartError where the port is taken."""
    runner, url = await act.start(poll_interval_ms=_POLL_MS)
    try:
        async with running(_config(act, url, folder, port)) as app:
            yield Stage(act, url, app.url)
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def cast(stage: Stage) -> AsyncIterator[Cast]:
    """Connect the clients."""
    async with (
        stage.act.old("ann, old", stage.shim, KEYS["ann"]) as old,
        NewClient("bob, new", stage.shim, KEYS["bob"]) as new,
        NewClient("ann, new", stage.shim, KEYS["ann"]) as also_new,
    ):
        yield Cast(old, new, also_new)


def _config(act: Act, url: str, folder: Path, port: int) -> Config:
    """Give the config that `serve` would read from a file."""
    return Config.model_validate({
        "listen": {"port": port},
        "upstream": [{"url": url, "dialect": act.dialect}],
        "identity": {
            "sources": ["api_key"], "api_key": {"keys": KEYS}, "key_file": folder / "taskshim.key",
        },
        "ledger": {"path": folder / "taskshim.db", "synchronous": "normal"},
        "audit": {"path": folder / "audit.jsonl"},
        "admin": {"enabled": False},
    })  # fmt: skip
