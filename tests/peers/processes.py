"""Running the peers' scripts in their own environments."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@asynccontextmanager
async def legacy_server(python: Path, *flags: str, log: Path | None = None) -> AsyncIterator[str]:
    """Run tests/peers/legacy_server.py and give its URL; `log` gets what it says on stderr."""
    process = await _start(python, "legacy_server.py", *flags, log=log)
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        assert line.startswith("listening on "), f"the legacy server did not start: {line!r}, see {log}"
        yield f"http://127.0.0.1:{int(line.split()[-1])}/mcp"
    finally:
        await _stop(process)


async def legacy_client(
    python: Path, url: str, *jobs: str, headers: dict[str, str] | None = None, log: Path | None = None
) -> dict[str, Any]:
    """Run tests/peers/legacy_client.py against a URL and give its transcript; no jobs: all of them."""
    flags = [f"--header={name}={value}" for name, value in (headers or {}).items()]
    process = await _start(python, "legacy_client.py", url, *jobs, *flags, log=log)
    try:
        out, _ = await process.communicate()
    finally:
        await _stop(process)
    assert process.returncode == 0, f"the legacy client failed, see {log}"
    transcript: dict[str, Any] = json.loads(out)
    return transcript


async def _start(python: Path, script: str, *args: str, log: Path | None) -> asyncio.subprocess.Process:
    with Path(log or os.devnull).open("ab") as stderr:  # noqa: ASYNC230 - a local file, opened once
        return await asyncio.create_subprocess_exec(
            str(python),
            str(HERE / script),
            *args,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=stderr,
            limit=64 * 1024 * 1024,
        )


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), 5)
        except TimeoutError:
            process.kill()
            await process.wait()
