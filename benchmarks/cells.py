"""The cells, each a function of the run: it starts what it needs, measures, adds rows and targets."""

import contextlib
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

import msgspec

from benchmarks.audit_writing import NOTHING, costs_us
from benchmarks.bench import CLIENTS, Bench, counts
from benchmarks.processes import ROOT, Service, cpu_s, module, rss_kib
from benchmarks.report import Row
from benchmarks.seed import SIZES, fill
from benchmarks.shadowing import SAMPLED_PERCENT, shadow_costs_us
from benchmarks.shims import KEY, MANY, canned, canned_modern, pass_through, peer, shim
from benchmarks.stats import Figures, median
from benchmarks.strangers import Compared
from benchmarks.upstream import POLL_INTERVAL_MS

WAITERS = 100
CREATORS = 64
AUDIT_TURNS = 4
SHADOW_TURNS = 12
STREAMS = 1_000
HELD, WAITED = 10_000, 100
PEER_JOB = {"tool": "slow_compute", "arguments": '{"label":"bench","seconds":86400}'}


def call(bench: Bench) -> None:
    """tools/call of a plain tool: direct, pass-through, LL and ML take turns."""
    with canned(bench.directory, sse=bench.sse) as upstream:
        proxy, taskshim = pass_through(bench.directory, upstream), shim(bench.directory, "shim", upstream)
        with proxy, taskshim:
            ways: dict[str, tuple[Service, dict[str, bool]]] = {
                "direct": (upstream, {}),
                "pass-through": (proxy, {}),
                "LL": (taskshim, {}),
                "ML": (taskshim, {"modern": True}),
            }
            alone: dict[str, list[Figures]] = {who: [] for who in ways}
            many: dict[str, list[Figures]] = {who: [] for who in ways}
            for _ in range(bench.rounds):
                for who, (service, flags) in ways.items():
                    alone[who].append(bench.load("call", service, connections=1, **flags))
                for who, (service, flags) in ways.items():
                    many[who].append(bench.load("call", service, connections=CLIENTS, **flags))
            rows = {}
            for who, (service, _) in ways.items():
                one, crowd = median(alone[who]), median(many[who])
                rows[who] = Row(
                    cell="call", who=who, p50_ms=one.p50_ms, p99_ms=one.p99_ms, rate=crowd.rate,
                    cpu_us=crowd.cpu_us(service.name), errors=one.errors + crowd.errors,
                )  # fmt: skip
            bench.report.rows += rows.values()
    base = rows["pass-through"]
    assert base.p50_ms is not None
    assert base.rate is not None
    for who, bound_ms in (("LL", 0.2), ("ML", 0.5)):
        added_ms = (rows[who].p50_ms or 0) - base.p50_ms
        bench.target(
            f"{who} tools/call over the pass-through, p50", added_ms, bound_ms, at_most=True, unit=" ms"
        )
    share = (rows["LL"].rate or 0) / base.rate
    bench.target("LL tools/call, share of the pass-through's requests/s", share, 0.7, at_most=False)


def audit(bench: Bench) -> None:
    """The audit log's part of a request alone; then relayed calls through shims without and with it."""
    alone = costs_us(bench.directory, AUDIT_TURNS * bench.rounds)
    for who, found in alone.items():
        bench.report.rows.append(Row(cell="audit", who=f"{who}, alone", cpu_us=statistics.median(found)))
        if who != NOTHING:
            what = f"CPU a request of the {who}"
            more = [a - b for a, b in zip(found, alone[NOTHING], strict=True)]
            bench.target(what, statistics.median(more), 15, at_most=True, unit=" us")
    with canned(bench.directory) as upstream, contextlib.ExitStack() as stack:
        chained = {"key_file": str(bench.directory / "audit.key")}
        settings: tuple[dict[str, Any], ...] = ({"path": None}, {}, chained)
        shims = {
            who: stack.enter_context(shim(bench.directory, f"shim-audit-{n}", upstream, audit=these))
            for n, (who, these) in enumerate(zip(alone, settings, strict=True))
        }
        runs: dict[str, list[Figures]] = {who: [] for who in shims}
        for _ in range(bench.rounds):
            for who, service in shims.items():
                runs[who].append(bench.load("call", service, connections=CLIENTS))
        for who, service in shims.items():
            bench.row("audit", service, median(runs[who]), who=f"LL, {who}")


def shadow(bench: Bench) -> None:
    """What the shadow comparison adds to a relayed call, in one shim that takes turns with itself.

    The bound is held against what was measured at 10 % itself, the copies' whole work included.
    """
    runs = shadow_costs_us(bench.directory, SHADOW_TURNS * bench.rounds)
    off = runs[None]
    for percent, found in runs.items():
        who = "LL, no shadow" if percent is None else f"LL, shadow, {percent:g} %"
        row = Row(cell="shadow", who=who, cpu_us=statistics.median(found))
        bench.report.rows.append(row)
        if percent is not None:
            low, middle, high = statistics.quantiles((a - b for a, b in zip(found, off, strict=True)), n=4)
            row.note = f"{middle:+.1f} us ({low:+.1f} to {high:+.1f} in half of the {len(found)} pairs)"
            if percent == SAMPLED_PERCENT:
                what = "CPU a relayed call at 10 % sampling, copies included"
                bench.target(what, middle, 15, at_most=True, unit=" us")


def poll(bench: Bench) -> None:
    """tasks/get: 100 clients poll one task as fast as they can, at the real server and through ML."""
    if bench.peer_python is None:
        print("  poll skipped: name the python of an environment with mcp 1.30 with --peer-python")
        return
    server = peer(bench.directory, bench.peer_python)
    with server, shim(bench.directory, "shim-peer", server) as taskshim:
        at_peer, through = [], []
        for _ in range(bench.rounds):
            at_peer.append(bench.load("poll", server, connections=WAITERS, **PEER_JOB))
            through.append(bench.load("poll", taskshim, connections=WAITERS, modern=True, **PEER_JOB))
        direct = bench.row("poll", server, median(at_peer), who="mcp 1.30 direct")
        shimmed = bench.row("poll", taskshim, median(through), who="ML, mcp 1.30")
    ratio = (shimmed.rate or 0) / (direct.rate or 1)
    bench.target("tasks/get through ML, times the rate of mcp 1.30", ratio, 3, at_most=False)


def wait(bench: Bench) -> None:
    """100 clients wait for one task and poll at the hint: how many of their polls reach the upstream."""
    with canned(bench.directory) as upstream, shim(bench.directory, "shim-wait", upstream) as taskshim:
        before = counts(upstream).get("tasks/get", 0)
        seconds = max(bench.seconds, 6 * POLL_INTERVAL_MS / 1000)
        pace = {"pace_ms": POLL_INTERVAL_MS, "seconds": seconds, "warm_up": 0}
        figures = bench.load("poll", taskshim, connections=WAITERS, modern=True, **pace)
        asked = max(1, counts(upstream).get("tasks/get", 0) - before)
    fewer = figures.requests / asked
    note = f"{figures.requests} polls, {asked} upstream"
    bench.row("wait", taskshim, figures, who="ML", note=note)
    bench.target("upstream polls when 100 clients wait, times fewer", fewer, 10, at_most=False)


def create(bench: Bench) -> None:
    """Durable creates by 64 clients: one upstream session for all, then the default of one task a session."""
    with canned(bench.directory) as upstream:
        raised = shim(bench.directory, "shim-raised", upstream, tasks={"tasks_per_session": MANY})
        default = shim(bench.directory, "shim-default", upstream)
        proxy = pass_through(bench.directory, upstream)
        with raised, default, proxy:
            plain, fast, slow = [], [], []
            for _ in range(bench.rounds):
                plain.append(bench.load("create", proxy, connections=CREATORS))
                fast.append(bench.load("create", raised, connections=CREATORS, modern=True))
                slow.append(bench.load("job", default, connections=CREATORS, modern=True))
            bench.row("create", proxy, median(plain), note="nothing is written")
            row = bench.row("create", raised, median(fast), who="ML", note="tasks_per_session raised")
            bench.row(
                "create",
                default,
                median(slow),
                who="ML",
                note="default; each polled to its end, CPU includes it",
            )
    bench.target("durable creates/s with 64 clients", row.rate or 0, 1000, at_most=False)


def pages(bench: Bench) -> None:
    """A tasks/list page from ledgers of 1,000 and of 1,000,000 rows of one caller."""
    sizes = (SIZES[0], bench.list_rows)
    with canned(bench.directory) as upstream:
        made = []
        for rows in sizes:
            ledger = bench.directory / f"list-{rows}.db"
            with shim(bench.directory, f"shim-{rows}", upstream, ledger) as taskshim:
                bench.load("job", taskshim, connections=1, modern=True, seconds=0.2, warm_up=0)
            fill(ledger, rows)
            made.append(taskshim)
        small, large = made
        with small, large:
            few: list[Figures] = []
            lots: list[Figures] = []
            for _ in range(bench.rounds):
                few.append(bench.load("list", small, connections=1))
                lots.append(bench.load("list", large, connections=1))
            base = bench.row("list", small, median(few), who="LL", note=f"{sizes[0]:,} rows")
            row = bench.row("list", large, median(lots), who="LL", note=f"{sizes[1]:,} rows")
    times = (row.p50_ms or 0) / (base.p50_ms or 1)
    bench.target(f"tasks/list page at {sizes[1]:,} rows, times that at 1,000", times, 2, at_most=True)


def idle(bench: Bench) -> None:
    """1,000 idle legacy GET streams, a session each: what they add to each proxy's memory."""
    grown_kib = {}
    with canned(bench.directory) as upstream:
        for service in (
            pass_through(bench.directory, upstream, "pass-through-idle"),
            shim(bench.directory, "shim-idle", upstream),
        ):
            with service:
                bench.load("call", service, connections=CLIENTS, seconds=1)
                before = rss_kib(service.pid)
                grown_kib[service.name] = held(service) - before
                who = "LL" if service.name == "shim-idle" else "pass-through"
                note = f"{grown_kib[service.name] / STREAMS:.1f} KiB a stream, {before // 1024} MiB before"
                bench.report.rows.append(Row(cell="idle", who=who, note=note))
    times = grown_kib["shim-idle"] / grown_kib["pass-through-idle"]
    bench.target("memory of 1,000 idle streams, times the pass-through's", times, 2.5, at_most=True)


def waiters(bench: Bench) -> None:
    """10,000 legacy tasks/result calls wait on 100 tasks of a modern server: upstream polls, memory."""
    with canned_modern(bench.directory) as upstream:
        wide = {"concurrent_requests": HELD + 1_000}
        with shim(bench.directory, "shim-waiters", upstream, limits=wide) as taskshim:
            before = rss_kib(taskshim.pid)
            flags = ("--url", taskshim.url, "--key", KEY, "--tasks", str(WAITED), "--waiters", str(HELD))
            with subprocess.Popen(
                module("benchmarks.waiters", *flags), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            ) as client:
                assert client.stdin is not None
                assert client.stdout is not None
                if client.stdout.readline() != b"open\n":
                    raise RuntimeError("the waiting calls did not open")
                memory = rss_kib(taskshim.pid) - before
                seconds = max(10.0, bench.seconds)
                asked, spent = counts(upstream)["tasks/get"], cpu_s(taskshim.pid)
                time.sleep(seconds)
                asked = counts(upstream)["tasks/get"] - asked
                spent = cpu_s(taskshim.pid) - spent
                client.stdin.close()
    pace = asked / WAITED / seconds
    note = (
        f"{memory / HELD:.1f} KiB a call, {memory // 1024} MiB in all; {pace:.2f} polls/s a task, "
        f"{100 * spent / seconds:.0f} % of a core"
    )
    bench.report.rows.append(Row(cell="waiters", who="LM", note=note))
    bench.target("upstream polls of a waited-for task, a second (hint: 1)", pace, 1.0, at_most=True)


def strangers(bench: Bench) -> None:
    """tasks/get of a task of someone else's and of none, in turn: can the time tell them apart?"""
    with canned(bench.directory) as upstream, shim(bench.directory, "shim-strangers", upstream) as taskshim:
        for who, flags in (("LL", ()), ("ML", ("--modern",))):
            pairs = str(max(1_000, int(bench.rounds * bench.seconds * 400)))
            command = module("benchmarks.strangers", "--url", taskshim.url, "--pairs", pairs, *flags)
            done = subprocess.run(command, cwd=ROOT, capture_output=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"strangers failed:\n{done.stderr.decode()[-2000:]}")
            found = msgspec.json.decode(done.stdout, type=Compared)
            bench.report.rows += [
                Row(
                    cell="strangers", who=f"{who}, not yours", p50_ms=found.foreign_p50_us / 1000,
                    p99_ms=found.foreign_p99_us / 1000, note=f"{found.pairs} pairs",
                ),
                Row(
                    cell="strangers", who=f"{who}, not there", p50_ms=found.unknown_p50_us / 1000,
                    p99_ms=found.unknown_p99_us / 1000,
                    note=f"{found.apart_us:.1f} us apart, noise {found.noise_us:.1f} us, "
                    f"{'the same bytes' if found.same_bytes else 'DIFFERENT BYTES'}",
                ),
            ]  # fmt: skip
            apart = found.apart_us / found.noise_us if found.same_bytes else float("inf")
            bench.target(f"{who} not yours and not there apart, times the noise", apart, 1, at_most=True)


def held(service: Service) -> int:
    """Open the streams and give the service's memory while they are open, in KiB."""
    flags = ("--url", service.url, "--key", KEY, "--connections", str(STREAMS))
    with subprocess.Popen(
        module("benchmarks.load", "idle", *flags), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        if client.stdout.readline() != b"open\n":
            raise RuntimeError(f"the streams on {service.name} did not open")
        memory = rss_kib(service.pid)
        client.stdin.close()
    return memory


CELLS: dict[str, Callable[[Bench], None]] = {
    "call": call,
    "audit": audit,
    "shadow": shadow,
    "poll": poll,
    "wait": wait,
    "create": create,
    "list": pages,
    "idle": idle,
    "waiters": waiters,
    "strangers": strangers,
}
