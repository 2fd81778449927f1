"""The servers behind the soaked shims: the demo's, with two more tools."""

import argparse
import asyncio
import signal
from collections.abc import Mapping
from typing import Any

from benchmarks.serving import HOST, raise_file_limit
from shim.demo import experimental, modern
from shim.demo.jobs import Job, Json
from shim.demo.tools import TOOLS, Tool, text

BIG_BYTES = 2_000_000
_SCHEMA: Json = {"type": "object", "properties": {"confirm": {"type": "boolean"}}}


async def _confirm(job: Job, _: Mapping[str, Any]) -> Json:
    answer = await job.ask("Go on?", _SCHEMA)
    return text(f"The answer was {answer.get('action')}.")


async def _big(_: Job, __: Mapping[str, Any]) -> Json:
    return text("x" * BIG_BYTES)


SOAK_TOOLS: dict[str, Tool] = {
    **TOOLS,
    "confirm": Tool("confirm", "Ask in the middle of a call.", "optional", {}, _confirm),
    "big": Tool("big", "Say much.", "forbidden", {}, _big),
}


async def _run(api: str, port: int) -> None:
    raise_file_limit()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    start = experimental.start if api == "legacy" else modern.start
    runner, _ = await start(HOST, port, tools=SOAK_TOOLS, poll_interval_ms=300)
    await stopped.wait()
    await runner.cleanup()


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("api", choices=("legacy", "modern"))
    parser.add_argument("--port", type=int, required=True)
    options = parser.parse_args()
    asyncio.run(_run(options.api, options.port))


if __name__ == "__main__":
    main()
