"""Asks for what is someone else's and for what is not there, in turn, and compares how long that takes.

Prints one JSON object (Compared). The two of a pair are asked in random order, so that nothing slow or fast
falls on one of them alone. `noise_us` is how far apart the medians come when the members of pairs are swapped
at random: what is below it cannot be told from chance.
"""

import argparse
import asyncio
import random
import statistics
import sys
import time
import uuid
from collections.abc import Sequence

import msgspec

from benchmarks.connection import Answer, Connection
from benchmarks.messages import FIRST_ID
from benchmarks.shims import KEY, STRANGER
from benchmarks.stats import percentile
from benchmarks.workloads import Setting, create, speaker

WARM_UP = 200
SHUFFLES = 1_000
LEVEL = 0.999


class Compared(msgspec.Struct, kw_only=True):
    """Two kinds of answers and what lies between them."""

    pairs: int
    foreign_p50_us: float
    foreign_p99_us: float
    unknown_p50_us: float
    unknown_p99_us: float
    apart_us: float
    """The median over all pairs of foreign minus unknown, without its sign."""
    noise_us: float
    same_bytes: bool


def compare(foreign_s: Sequence[float], unknown_s: Sequence[float], *, same_bytes: bool) -> Compared:
    """Tell whether two kinds of answers can be told apart by their time."""
    apart = [one - other for one, other in zip(foreign_s, unknown_s, strict=True)]
    chance = random.Random(1)
    shuffled = sorted(
        abs(statistics.median(value if chance.random() < 0.5 else -value for value in apart))
        for _ in range(SHUFFLES)
    )
    one, other = sorted(foreign_s), sorted(unknown_s)
    return Compared(
        pairs=len(apart),
        foreign_p50_us=percentile(one, 0.5) * 1e6,
        foreign_p99_us=percentile(one, 0.99) * 1e6,
        unknown_p50_us=percentile(other, 0.5) * 1e6,
        unknown_p99_us=percentile(other, 0.99) * 1e6,
        apart_us=abs(statistics.median(apart)) * 1e6,
        noise_us=percentile(shuffled, LEVEL) * 1e6,
        same_bytes=same_bytes,
    )


async def measure(options: argparse.Namespace) -> Compared:
    """Make tasks as their owner, then ask for them, and for none, as somebody else."""
    owner, stranger = await Connection.open(options.url), await Connection.open(options.url)
    hers = Setting(options.url, options.key, options.modern)
    client = await speaker(hers, owner)
    tasks = [await create(hers, client, owner) for _ in range(options.tasks)]
    other = await speaker(Setting(options.url, STRANGER, options.modern), stranger)
    chance = random.Random(2)
    took: dict[bool, list[float]] = {True: [], False: []}
    bodies = set()
    number = FIRST_ID
    for position in range(WARM_UP + options.pairs):
        asked = {True: chance.choice(tasks), False: str(uuid.uuid4())}
        for foreign in chance.sample([True, False], 2):
            request = other.request("tasks/get", {"taskId": asked[foreign]}).fill(number)
            began = time.perf_counter()
            answer = await stranger.exchange(request)
            seconds = time.perf_counter() - began
            bodies.add(_shown(answer, number))
            number += 1
            if position >= WARM_UP:
                took[foreign].append(seconds)
    owner.close()
    stranger.close()
    if b"-32602" not in next(iter(bodies)):
        raise RuntimeError(f"not the refusal that was expected: {next(iter(bodies))[:300]!r}")
    return compare(took[True], took[False], same_bytes=len(bodies) == 1)


def _shown(answer: Answer, number: int) -> bytes:
    return answer.body.replace(str(number).encode(), b"ID")


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--key", default=KEY)
    parser.add_argument("--modern", action="store_true")
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--pairs", type=int, default=4_000)
    options = parser.parse_args()
    sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(measure(options))) + b"\n")


if __name__ == "__main__":
    main()
