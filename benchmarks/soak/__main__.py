"""`python -m benchmarks.soak --minutes 30`: mixed load in both eras, and a verdict on growth.

Two shims run, in front of a legacy server and of a modern one, each under clients of every API, good and bad.
Each minute what they hold is counted; a figure's sample is the least of its minute, so that what is merely
under way does not count. Exit code 0: nothing grows; 1: something does, or a client got what it should not.
"""

import argparse
import asyncio
import contextlib
import json
import sys
import tempfile
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp

from benchmarks.processes import Service, free_port, module
from benchmarks.shims import shim
from benchmarks.soak.actors import ACTORS, CALLER, Actor, Soaked
from benchmarks.soak.growth import judge

SAMPLE_EVERY_S = 6
WARM_UP_SHARE = 1 / 3
COUNTED = ("rss_kib", "in_use_kib", "blocks", "descriptors", "tasks", "objects", "ledger_rows", "ledger_kib")
ENVIRONMENT = {"MALLOC_MMAP_THRESHOLD_": "131072"}
"""As the image and the unit set it."""
SECTIONS: dict[str, dict[str, Any]] = {
    "identity": {"sources": ["header"]},
    "identity.header": {"name": CALLER},
    "tasks": {
        "retention_ms": 60_000, "tombstone_ms": 60_000, "max_age_ms": 240_000, "sweep_ms": 5_000,
        "idempotency_window_ms": 60_000,
    },
    "sessions": {"idle_ms": 30_000, "close": True},
    "legacy": {"replay_ms": 10_000},
    "limits": {"parked_ms": 15_000, "slow_reader_ms": 3_000},
    "ledger": {"cache_rows": 500, "synchronous": "normal"},
    "log": {"level": "error"},
    "upstream": {"tool_support": {"confirm": "forbidden"}},
}  # fmt: skip
"""What is kept a day elsewhere is kept some minutes here, so that a soak sees the whole of its life."""


@dataclass
class Subject:
    """A shim under load, what it held minute by minute, and what its clients met."""

    name: str
    service: Service
    watch_port: int
    samples: list[dict[str, float]] = field(default_factory=list)
    kinds: list[dict[str, int]] = field(default_factory=list)
    rounds: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)

    def grown(self, warm_up: int) -> list[str]:
        """Name the objects and tasks of which there are more at the end than after the warm-up."""
        first, last = self.kinds[warm_up], self.kinds[-1]
        more = sorted(((count - first.get(name, 0), name) for name, count in last.items()), reverse=True)
        return [f"{name} +{by}" for by, name in more[:40] if by > 0]


def subject(directory: Path, name: str, upstream: Service) -> Subject:
    """Describe a shim that is watched."""
    service, watch_port = shim(directory, name, upstream, **SECTIONS), free_port()
    config = str(directory / f"{name}.toml")
    service.environment = ENVIRONMENT
    service.command = module("benchmarks.soak.watched", "--config", config, "--port", str(watch_port))
    return Subject(name, service, watch_port)


async def act(one: Subject, soaked: Soaked, actor: Actor, until_s: float, pause_s: float) -> None:
    """Do an actor's rounds until the time is over."""
    while time.monotonic() < until_s:
        try:
            async with asyncio.timeout(120):
                await actor(soaked)
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is told at the end
            where = traceback.extract_tb(exc.__traceback__)[-1].name
            one.faults[f"{actor.__name__}: {type(exc).__name__} {str(exc)[:160]} ({where})"] += 1
        one.rounds[actor.__name__] += 1
        await asyncio.sleep(soaked.dice.uniform(0.5, 1.5) * pause_s)


async def watch(one: Subject, until_s: float, minute_s: float) -> None:
    """Take a sample every minute: the least that was seen of each figure in it."""
    async with aiohttp.ClientSession() as http:
        while time.monotonic() < until_s:
            ends_s, seen = time.monotonic() + minute_s, []
            while time.monotonic() < ends_s:
                await asyncio.sleep(min(SAMPLE_EVERY_S, minute_s / 4))
                with contextlib.suppress(aiohttp.ClientError, TimeoutError):
                    async with http.get(f"http://127.0.0.1:{one.watch_port}/") as answer:
                        seen.append(await answer.json())
            if not seen:
                raise RuntimeError(f"{one.name} does not answer any more: {one.service.log}")
            one.samples.append({name: min(held[name] for held in seen) for name in COUNTED})
            least = min(seen, key=lambda held: held["objects"])
            one.kinds.append({**least["types"], **least["waits"]})
            print(f"{one.name} {len(one.samples):3} {json.dumps(one.samples[-1])}", flush=True)


async def load(subjects: list[Subject], minutes: int, minute_s: float, pause_s: float) -> None:
    """Put every actor on every shim, and watch."""
    until_s = time.monotonic() + minutes * minute_s
    async with asyncio.TaskGroup() as group:
        for seed, one in enumerate(subjects):
            group.create_task(watch(one, until_s, minute_s))
            soaked = Soaked(one.service.url, seed)
            for actor in ACTORS:
                group.create_task(act(one, soaked, actor, until_s, pause_s))


def tell(one: Subject, warm_up: int) -> bool:
    """Print a shim's table and verdict; give whether all is well."""
    print(f"\n{one.name}: {sum(one.rounds.values())} rounds ({dict(sorted(one.rounds.items()))})")
    print("| minute | " + " | ".join(COUNTED) + " |\n|" + "---|" * (len(COUNTED) + 1))
    for minute, held in enumerate(one.samples, 1):
        mark = " (warm-up)" if minute <= warm_up else ""
        print(f"| {minute}{mark} | " + " | ".join(f"{held[name]:,.0f}" for name in COUNTED) + " |")
    well = True
    for growth in judge(one.samples, warm_up):
        verdict = "GROWS" if growth.grows else "does not grow"
        well = well and not growth.grows
        print(
            f"{growth.measure.name}: {growth.slope:+.2f} a minute, {growth.grown:+.0f} in all, "
            f"allowed {growth.allowed:.0f}: {verdict}"
        )
    if not well:
        print("more of: " + ", ".join(one.grown(warm_up)))
    for fault, count in one.faults.most_common(20):
        print(f"fault, {count} times: {fault}")
    log = one.service.log.read_text()
    if log.strip():
        print(f"its log:\n{log[-3000:]}")
    return well and not one.faults and "Traceback" not in log


def main() -> int:
    """Soak, and give the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=int, default=30)
    parser.add_argument(
        "--minute-s", type=float, default=60.0, help="length of a minute, to try the soak out"
    )
    parser.add_argument("--pause-s", type=float, default=1.0, help="between two rounds of one actor")
    options = parser.parse_args()
    warm_up = int(options.minutes * WARM_UP_SHARE)
    with tempfile.TemporaryDirectory(prefix="soak") as folder, contextlib.ExitStack() as stack:
        directory = Path(folder)
        subjects = []
        for api in ("legacy", "modern"):
            port = free_port()
            command = module("benchmarks.soak.server", api, "--port", str(port))
            upstream = stack.enter_context(Service(api, command, port, directory / f"{api}.log"))
            one = subject(directory, f"in-front-of-{api}", upstream)
            stack.enter_context(one.service)
            subjects.append(one)
        asyncio.run(load(subjects, options.minutes, options.minute_s, options.pause_s))
        fine = [tell(one, warm_up) for one in subjects]
    print("\nverdict: " + ("nothing grows" if all(fine) else "NOT well: see above"))
    return 0 if all(fine) else 1


if __name__ == "__main__":
    sys.exit(main())
