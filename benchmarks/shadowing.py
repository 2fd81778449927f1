"""What the shadow comparison costs a relayed call: one shim, in this process, takes turns with itself.

The servers and the load are processes of their own, so the processor time of this one is the shim's. In each
turn the shadow is off, decides only (0 %), samples 10 %, and copies every call: each window is followed until
its copies have ended, so that their whole work is in it.
"""

import asyncio
import gc
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from benchmarks.processes import ROOT, Service, module
from benchmarks.shims import KEY, MANY, canned
from shim.app import App, running
from shim.config import Config

SAMPLED_PERCENT = 10.0
PERCENTS = (None, 0.0, SAMPLED_PERCENT, 100.0)
"""None: the shadow is off."""
WINDOW_S = 0.4
CLIENTS = 16
_TURN_S = 2 * WINDOW_S * len(PERCENTS)
"""More than a turn takes, as long as the load has to go on."""
_YOUNG_OBJECTS = 10_000
"""As `taskshim serve` has it."""

Percent = float | None


def shadow_costs_us(directory: Path, turns: int) -> dict[Percent, list[float]]:
    """Give the processor time of a relayed call in each turn, in microseconds, by the percentage sampled."""
    with canned(directory) as upstream, canned(directory, name="second") as second:
        return asyncio.run(_measured(directory, upstream, second, turns))


async def _measured(
    directory: Path, upstream: Service, second: Service, turns: int
) -> dict[Percent, list[float]]:
    costs: dict[Percent, list[float]] = {percent: [] for percent in PERCENTS}
    configs = {percent: _config(directory, upstream, second, percent) for percent in PERCENTS}
    async with running(configs[None]) as app, _loaded(app, 2 + turns * _TURN_S):
        gc.collect()
        gc.freeze()
        gc.set_threshold(_YOUNG_OBJECTS)
        await asyncio.sleep(2)  # until it is warm
        for turn in range(turns):
            # each goes first in its turn: what the machine does meanwhile disturbs all alike
            for percent in [*PERCENTS, *PERCENTS][turn % len(PERCENTS) :][: len(PERCENTS)]:
                costs[percent].append(await _window_us(app, configs[percent], configs[None]))
    return costs


async def _window_us(app: App, config: Config, off: Config) -> float:
    app.steering.live.renew(config)
    called, spent_s = _calls(app), time.process_time()
    await asyncio.sleep(WINDOW_S)
    app.steering.live.renew(off)
    while app.shadow.busy:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0.005)
    return (time.process_time() - spent_s) / max(1, _calls(app) - called) * 1e6


def _calls(app: App) -> int:
    return app.steering.traffic.of("main").requests


@asynccontextmanager
async def _loaded(app: App, seconds: float) -> AsyncIterator[None]:
    command = module(
        "benchmarks.load", "call", "--url", app.url, "--connections", str(CLIENTS),
        f"--seconds={seconds}", f"--key={KEY}",
    )  # fmt: skip
    load = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        load.terminate()
        await load.wait()


def _config(directory: Path, upstream: Service, second: Service, percent: Percent) -> Config:
    shadow: dict[str, Any] = {"queue": MANY}
    if percent is not None:
        shadow |= {"tools": ["echo"], "percent": percent}
    legacy = {"dialect": "experimental", "credentials": "none"}
    return Config.model_validate({
        "listen": {"port": 0},
        "admin": {"enabled": False},
        "upstream": [
            {"name": "main", "url": upstream.url, **legacy}, {"name": "second", "url": second.url, **legacy},
        ],
        "identity": {
            "sources": ["api_key"], "key_file": directory / "shadow.key", "api_key": {"keys": {"bench": KEY}},
        },
        "ledger": {"path": directory / "shadow.db"},
        "audit": {"path": directory / "shadow.audit.jsonl"},
        "limits": {"sessions_per_caller": MANY},
        "cutover": {"shadow": shadow},
    })  # fmt: skip
