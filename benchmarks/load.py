"""The load generator: N connections in one process, each sending its next request when the last is answered.

Prints one JSON object (benchmarks.stats.Figures). Counting begins after a warm-up, and the watched processes'
own processor time is read at the same two moments. `idle` opens streams instead, says `open`, and waits for
the end of its standard input.
"""

import argparse
import asyncio
import contextlib
import sys
import time
from collections.abc import Callable

import msgspec

from benchmarks.connection import Answer, Connection, hold_open
from benchmarks.processes import cpu_s
from benchmarks.serving import raise_file_limit
from benchmarks.stats import Figures, summarise
from benchmarks.workloads import WORKLOADS, Setting, Workload, speaker

STREAMS_AT_ONCE = 20
LAST_ANSWERS_S = 3


class Recorder:
    """Latencies and errors of the measured window."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self.latencies_s: list[float] = []
        self.errors = 0
        self.first_error: str | None = None
        self.measuring = False

    def good(self, latency_s: float) -> None:
        """Note an answer as expected."""
        if self.measuring:
            self.latencies_s.append(latency_s)

    def bad(self, what: str) -> None:
        """Note an answer that was not expected; the first one's text is kept, also from the warm-up."""
        self.first_error = self.first_error or what
        self.errors += self.measuring


class Client:
    """One connection and its conversation. `pace_s` is the least time between two requests of it."""

    def __init__(self, connection: Connection, work: Workload, recorder: Recorder, pace_s: float) -> None:
        self.connection = connection
        self.work = work
        self.recorder = recorder
        self.pace_s = pace_s
        self.stopped = self.idle = False
        self._sent_at = 0.0
        self._counts = True

    def run(self) -> None:
        """Begin; goes on by itself until stopped."""
        self.connection.on_answer = self._answered
        self.connection.on_lost = self._lost
        self._send()

    def _send(self) -> None:
        self.idle = self.stopped and self.work.counts  # what was begun is brought to its end
        if not self.idle:
            self._counts = self.work.counts
            request = self.work.next()
            self._sent_at = self.recorder.clock()
            self.connection.send(request)

    def _answered(self, answer: Answer) -> None:
        latency_s = self.recorder.clock() - self._sent_at
        if not self.work.accept(answer):
            self.recorder.bad(f"HTTP {answer.status} {answer.body[:300]!r}")
        elif self._counts:
            self.recorder.good(latency_s)
        if self.pace_s > latency_s:
            asyncio.get_running_loop().call_later(self.pace_s - latency_s, self._send)
        else:
            self._send()

    def _lost(self) -> None:
        if not self.idle:
            self.stopped = self.idle = True
            self.recorder.bad("connection lost")


async def measure(options: argparse.Namespace) -> Figures:
    """Run one cell."""
    setting = Setting(options.url, options.key, options.modern, options.tool, options.arguments)
    recorder = Recorder()
    clients: list[Client] = []
    for _ in range(options.connections):
        connection = await Connection.open(options.url)
        work = WORKLOADS[options.workload](setting)
        await work.start(connection)
        clients.append(Client(connection, work, recorder, options.pace_ms / 1000))
    for position, client in enumerate(clients):  # paced clients do not march in step
        asyncio.get_running_loop().call_later(client.pace_s * position / len(clients), client.run)
    await asyncio.sleep(options.warm_up)
    before = {pid: cpu_s(pid) for pid in options.watch}
    recorder.measuring, began = True, recorder.clock()
    await asyncio.sleep(options.seconds)
    recorder.measuring, seconds = False, recorder.clock() - began
    spent = {str(pid): cpu_s(pid) - before[pid] for pid in options.watch}
    for client in clients:
        client.stopped = True
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_ANSWERS_S):
            while not all(client.idle for client in clients):  # noqa: ASYNC110 - after the measurement
                await asyncio.sleep(0.01)
    for client in clients:
        client.connection.close()
    figures = summarise(recorder.latencies_s, errors=recorder.errors, seconds=seconds)
    figures.cpu_s, figures.first_error = spent, recorder.first_error
    return figures


async def idle(options: argparse.Namespace) -> None:
    """Open sessions and their GET streams, and hold them until standard input ends."""
    setting = Setting(options.url, options.key, modern=False)

    async def one(_: int) -> Connection:
        posts, stream = await Connection.open(options.url), await Connection.open(options.url)
        client = await speaker(setting, posts)
        posts.close()
        await stream.opens(client.stream(), b"\r\n\r\n")
        return stream

    await hold_open(options.connections, one, at_once=STREAMS_AT_ONCE)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload", choices=[*WORKLOADS, "idle"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--key", default="bench-key")
    parser.add_argument("--modern", action="store_true")
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--warm-up", type=float, default=0.5)
    parser.add_argument("--pace-ms", type=float, default=0)
    parser.add_argument("--tool", default="job")
    parser.add_argument("--arguments", default="", help="JSON, for the task tool")
    parser.add_argument("--watch", type=int, action="append", default=[], metavar="PID")
    options = parser.parse_args()
    raise_file_limit()
    if options.workload == "idle":
        asyncio.run(idle(options))
    else:
        sys.stdout.buffer.write(msgspec.json.encode(asyncio.run(measure(options))) + b"\n")


if __name__ == "__main__":
    main()
