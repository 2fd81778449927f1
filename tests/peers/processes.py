"""Running the peers' scripts in their own environments."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests import planted

HERE = Path(__file__).parent


@asynccontextmanager
async def legacy_server(python: Path, *flags: str, log: Path | None = None) -> AsyncIterator[str]:
    """Run tests/peers/legacy_server.py and give its URL; `log` gets what it says on stderr."""
    async with _serving(python, "legacy_server.py", *flags, log=log) as url:
        yield url


@asynccontextmanager
async def modern_server(python: Path, *flags: str, log: Path | None = None) -> AsyncIterator[str]:
    """Run tests/peers/modern_server.py and give its URL; `log` gets what it says on stderr."""
    async with _serving(python, "modern_server.py", *flags, log=log) as url:
        yield url


@asynccontextmanager
async def fastmcp_server(python: Path, *flags: str, log: Path | None = None) -> AsyncIterator[str]:
    """Run tests/peers/fastmcp_server.py and give its URL; `log` gets what it says on stderr."""
    async with _serving(python, "fastmcp_server.py", *flags, log=log) as url:
        yield url


async def legacy_client(
    python: Path, url: str, *jobs: str, headers: dict[str, str] | None = None, log: Path | None = None
) -> dict[str, Any]:
    """Run tests/peers/legacy_client.py against a URL and give its transcript; no jobs: all of them."""
    transcript: dict[str, Any] = json.loads(
        await _said(python, "legacy_client.py", url, *jobs, *_flags(headers), log=log)
    )
    return transcript


async def fastmcp_client(
    python: Path, url: str, *jobs: str, headers: dict[str, str] | None = None, log: Path | None = None
) -> dict[str, Any]:
    """Run tests/peers/fastmcp_client.py against a URL; gives {job: {outcome, messages}}; no jobs: all."""
    lines = await _said(python, "fastmcp_client.py", url, *jobs, *_flags(headers), log=log)
    told = [json.loads(line) for line in lines.splitlines()]
    return {one["job"]: one for one in told}


async def crossing_client(
    python: Path,
    script: str,
    url: str,
    *jobs: str,
    mode: str,
    turns: Path,
    headers: dict[str, str],
    log: Path,
) -> dict[str, Any]:
    """Run one of tests/peers/crossing_*.py against a URL; gives {job: outcome}; no jobs: all of them."""
    flags = [f"--mode={mode}", f"--turns={turns}", *_flags(headers)]
    outcomes: dict[str, Any] = json.loads(await _said(python, script, url, *jobs, *flags, log=log))
    return outcomes


async def visit(
    python: Path, script: str, url: str, *step: str, headers: dict[str, str], log: Path
) -> dict[str, Any]:
    """Run one of tests/peers/visit_*.py: a client's process that takes one step of a task and leaves."""
    told: dict[str, Any] = json.loads(await _said(python, script, url, *step, *_flags(headers), log=log))
    return told


@asynccontextmanager
async def oauth_authority(python: Path, *, log: Path | None = None) -> AsyncIterator[str]:
    """Run tests/peers/oauth_authority.py; gives its issuer."""
    async with _serving(python, "oauth_authority.py", log=log) as url:
        yield url.removesuffix("/mcp")


@asynccontextmanager
async def oauth_server(
    python: Path, issuer: str, resource: str | None, *, log: Path | None = None
) -> AsyncIterator[str]:
    """Run tests/peers/oauth_server.py; gives its URL."""
    flags = [] if resource is None else [f"--resource={resource}"]
    async with _serving(python, "oauth_server.py", f"--issuer={issuer}", *flags, log=log) as url:
        yield url


async def oauth_client(python: Path, url: str, authority: str, *, log: Path | None = None) -> list[str]:
    """Run tests/peers/oauth_client.py; gives what the tools said to it."""
    said: list[str] = json.loads(await _said(python, "oauth_client.py", url, authority, log=log))
    return said


@asynccontextmanager
async def _serving(python: Path, script: str, *flags: str, log: Path | None) -> AsyncIterator[str]:
    process = await _start(python, script, *flags, log=log)
    try:
        assert process.stdout is not None
        line = (await process.stdout.readline()).decode()
        assert line.startswith("listening on "), f"{script} did not start: {line!r}, see {log}"
        yield f"http://127.0.0.1:{int(line.split()[-1])}/mcp"
    finally:
        await _stop(process)


async def _said(python: Path, script: str, *args: str, log: Path | None) -> str:
    process = await _start(python, script, *args, log=log)
    try:
        out, _ = await process.communicate()
    finally:
        await _stop(process)
    assert process.returncode == 0, f"{script} failed, see {log}"
    return out.decode()


def _flags(headers: dict[str, str] | None) -> list[str]:
    planted.sending(headers or {})
    return [f"--header={name}={value}" for name, value in {**planted.HEADERS, **(headers or {})}.items()]


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
            await asyncio.wait_for(process.wait(), 60)
        except TimeoutError:
            process.kill()
            await process.wait()
