"""A shim that can be looked into: `taskshim serve`, and beside it what its process holds, as JSON."""

import argparse
import asyncio
import ctypes
import gc
import os
import re
import signal
import sqlite3
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from aiohttp import web

from benchmarks.processes import rss_kib
from benchmarks.serving import HOST, raise_file_limit
from shim.app import running
from shim.audit.log import set_up
from shim.config import Config, load_config

TABLES = ("task", "session", "input", "keyed", "ask", "call")
_INTERNED = 100_000
_SHOWN_TYPES, _SHOWN_PLACES = 400, 40


def held(config: Config) -> dict[str, Any]:
    """Count what the process holds: memory, descriptors, tasks, objects by type, and the ledger's rows."""
    gc.collect()
    objects = gc.get_objects()
    types = Counter(f"{type(one).__module__}.{type(one).__qualname__}" for one in objects)
    ledger = config.ledger.path
    files = [Path(f"{ledger}{end}") for end in ("", "-wal")]
    return {
        "rss_kib": rss_kib(os.getpid()),
        "in_use_kib": in_use_kib(),
        "blocks": sys.getallocatedblocks(),
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "tasks": len(asyncio.all_tasks()),
        "objects": len(objects),
        "ledger_rows": _rows(ledger),
        "ledger_kib": sum(file.stat().st_size for file in files if file.exists()) // 1024,
        "waits": dict(Counter(_place(task) for task in asyncio.all_tasks()).most_common(_SHOWN_PLACES)),
        "types": dict(types.most_common(_SHOWN_TYPES)),
    }


class _MallInfo(ctypes.Structure):
    """What glibc's `mallinfo2` gives."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
            "keepcost",
        )
    )  # fmt: skip


def in_use_kib() -> int:
    """Give what was asked of malloc and not given back, in KiB: not what the allocator keeps for later."""
    mallinfo = ctypes.CDLL(None).mallinfo2
    mallinfo.restype = _MallInfo
    info: _MallInfo = mallinfo()
    used: int = info.uordblks + info.hblkhd
    return used // 1024


def _place(task: asyncio.Task[Any]) -> str:
    """Say what a task is, and where it waits."""
    frames = task.get_stack(limit=1)
    where = f"{Path(frames[0].f_code.co_filename).stem}.{frames[0].f_code.co_qualname}" if frames else "-"
    return f"{re.sub(r'[0-9a-f-]*[0-9][0-9a-f-]*', '#', task.get_name())} in {where}"


def _rows(ledger: Path) -> int:
    with sqlite3.connect(f"file:{ledger}?mode=ro", uri=True) as db:
        count: int = sum(db.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES)
    db.close()
    return count


def _intern_once() -> None:
    """Let Python's table of interned strings grow now.

    It grows once in a process's life, by a megabyte, when as many strings have come and gone as it has free
    places: half an hour into a soak that would pass for a leak.
    """
    for number in range(_INTERNED):
        sys.intern(f"soaked {number}")


async def _run(config_file: Path, port: int) -> None:
    raise_file_limit()
    _intern_once()
    config = load_config(config_file, os.environ, {})
    set_up(config.log.level, config.log.format)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with running(config):
        gc.collect()
        gc.freeze()

        async def tell(_: web.BaseRequest) -> web.StreamResponse:
            return web.json_response(held(config))

        runner = web.ServerRunner(web.Server(tell, access_log=None), shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, HOST, port).start()
        await stopped.wait()
        await runner.cleanup()


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    asyncio.run(_run(options.config, options.port))


if __name__ == "__main__":
    main()
