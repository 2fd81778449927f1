"""Measures the shim beside a bare byte pass-through on one canned upstream, and says what was reached.

    python -m benchmarks.run [--cells call,poll,...] [--quick] [--json FILE]

Ways through take turns round by round and each figure is the median of its rounds, so that a busy machine
disturbs all alike. p50 and p99 of `call` are of one client, its requests/s and CPU of 32. CPU is the
proxy's own, per request: the steadiest figure on a shared machine.
"""

import argparse
import os
import sys
import tempfile
from pathlib import Path

import msgspec

from benchmarks.bench import Bench
from benchmarks.cells import CELLS
from benchmarks.processes import ROOT
from benchmarks.seed import SIZES
from benchmarks.serving import raise_file_limit


def peer_python() -> Path | None:
    """Give the python of the peers' legacy environment, where the tests keep it, if it is there."""
    peers = Path(os.environ.get("TASKSHIM_PEERS") or ROOT / ".peers")
    python = peers / "legacy" / "bin" / "python"
    return python if python.exists() else None


def main() -> None:
    """Run from the command line; exit code 1 if something was not reached."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cells", default=",".join(CELLS), help="names with commas between (default: all)")
    parser.add_argument("--quick", action="store_true", help="one short round, 100,000 ledger rows")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=3, help="length of each measurement")
    parser.add_argument("--sse", action="store_true", help="the upstream answers calls as event streams")
    parser.add_argument("--peer-python", type=Path, default=peer_python(), help="one that has mcp 1.30")
    parser.add_argument("--dir", type=Path, help="where ledgers lie; must be on a real disk")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    options = parser.parse_args()
    names = options.cells.split(",")
    if unknown := set(names) - set(CELLS):
        parser.error(f"no such cell: {', '.join(sorted(unknown))}; there are {', '.join(CELLS)}")
    raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="taskshim-bench-", dir=options.dir) as directory:
        bench = Bench(
            Path(directory),
            rounds=1 if options.quick else options.rounds,
            seconds=1 if options.quick else options.seconds,
            sse=options.sse,
            peer_python=options.peer_python,
            list_rows=100_000 if options.quick else SIZES[1],
        )
        for name in names:
            print(f"{name} ...", flush=True)
            CELLS[name](bench)
    print("\n" + bench.report.text())
    if options.json:
        options.json.write_bytes(msgspec.json.format(msgspec.json.encode(bench.report)) + b"\n")
    sys.exit(not all(target.reached for target in bench.report.targets))


if __name__ == "__main__":
    main()
