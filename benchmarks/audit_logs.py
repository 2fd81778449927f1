"""How much time and memory `taskshim audit` takes on a large log.

    python -m benchmarks.audit_logs --events 10000000

The log has thirty days of five hundred callers, thirty client versions and tools, an `instance.alive` a
minute, losses and tasks; a line has about 600 bytes, as the shim writes them.
"""

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

_START = datetime(2026, 11, 1)  # noqa: DTZ001 - UTC without saying so
_DAYS = 30
_CALLERS = [f"{n:064x}" for n in range(500)]
_FILES = 8


def lines(events: int) -> Iterator[str]:
    rng = random.Random(1)
    every = timedelta(days=_DAYS) / events
    alive_at = _START
    second, stamp = -1, ""
    for seq in range(1, events + 1):
        at = _START + every * seq
        if at.second != second:
            second, stamp = at.second, f"{at:%Y-%m-%dT%H:%M:%S}"
        head = f'{{"v":1,"seq":{seq},"ts":"{stamp}.{at.microsecond:06d}Z","instance":"0123456789abcdef",'
        if at >= alive_at:
            alive_at += timedelta(minutes=1)
            yield (
                head
                + '"event":"instance.alive","requests":{"LL":100},"sessions":5,"waiting":[],"dropped":0}\n'
            )
            continue
        n = rng.getrandbits(30)
        legacy = n % 100 < 40 - seq * 40 // events
        era, name = ("legacy", "LL") if legacy else ("modern", "ML")
        around = (
            f'"request_id":"ab12cd34-{seq:x}","caller":"{_CALLERS[n % 500]}","caller_kind":"jwt",'
            f'"client":{{"name":"client-{n % 30}","version":"1.{n % 7}.0"}},"era":"{era}",'
            f'"dialect":"experimental","upstream":"main","upstream_era":"legacy",'
            f'"upstream_dialect":"experimental",'
            f'"corner":"{name}",'
        )
        if n % 97 == 0:
            yield head + f'"event":"loss",{around}"rule":"ML-LOSS-{n % 5}","field":"ttl"}}\n'
        elif n % 50 == 0:
            yield (
                head
                + f'"event":"task.ended",{around}"task_id":"task-{n}","to":"failed","age_ms":{n % 9999}}}\n'
            )
        else:
            used = '["session","task param"]' if legacy else "[]"
            yield (
                head + f'"event":"request",{around}"outcome":"{"error" if n % 200 == 1 else "ok"}",'
                f'"method":"tools/call","tool":"tool-{n % 30}","http_status":200,"ms":{n % 9999 / 100},'
                f'"upstream_ms":{n % 999 / 100},"upstream_calls":1,"bytes_in":512,"bytes_out":768,'
                f'"rules":["ML-CREATE","OWN-LOOKUP"],"legacy":{"true" if legacy else "false"},'
                f'"legacy_features":{used}}}\n'
            )


def write(folder: Path, events: int) -> int:
    files = [(folder / f"audit-{n}.jsonl").open("w", encoding="utf-8") for n in range(_FILES)]
    for number, line in enumerate(lines(events)):
        files[number * _FILES // events].write(line)
    for file in files:
        file.close()
    return sum(path.stat().st_size for path in folder.iterdir())


def measured(arguments: list[str]) -> tuple[float, float, float]:
    """Run a command; give its seconds, its CPU seconds and its peak memory in MiB."""
    code = (
        "import resource,subprocess,sys;"
        "done=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL).returncode;"
        "used=resource.getrusage(resource.RUSAGE_CHILDREN);"
        "print(done,used.ru_utime+used.ru_stime,used.ru_maxrss)"
    )
    began = time.perf_counter()
    told = subprocess.run(
        [sys.executable, "-c", code, *arguments], check=True, capture_output=True, text=True
    )
    seconds = time.perf_counter() - began
    status, cpu, kib = told.stdout.split()
    if int(status) > 1:
        raise SystemExit(told.stderr)
    return seconds, float(cpu), int(kib) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--memory", default="512MB")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="taskshim-audit-bench-") as name:
        size = write(Path(name), given.events)
        print(f"{given.events:,} events, {size / 1e9:.2f} GB")
        base = [sys.executable, "-m", "shim.cli.main", "audit"]
        logs = [str(path) for path in sorted(Path(name).iterdir())]
        for command in ("report", "verify", "callers"):
            seconds, cpu, mib = measured([*base, command, *logs, "--memory", given.memory])
            print(f"{command:8} {seconds:7.1f} s  {cpu:7.1f} s CPU  {mib:7.0f} MiB")


if __name__ == "__main__":
    main()
