"""`taskshim serve` as a process of its own, to be killed or told to stop."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any


@asynccontextmanager
async def shim(
    upstream: str, folder: Path, port: int, *, dialect: str = "experimental", **tasks: Any
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the shim until the block ends, by kill -9 if it still runs then; `tasks` go into the config."""
    config = folder / "shim.toml"
    options = "".join(f"{name} = {json.dumps(value)}\n" for name, value in tasks.items())
    config.write_text(
        f'[[upstream]]\nurl = "{upstream}"\ndialect = "{dialect}"\n[listen]\nport = {port}\n'
        f'[admin]\nenabled = false\n[ledger]\npath = "{folder / "ledger.db"}"\n'
        f'[identity]\nkey_file = "{folder / "shim.key"}"\n[audit]\npath = "{audit_of(folder)}"\n'
        f"[tasks]\n{options}[legacy]\nredeliver_after_ms = 1\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "shim.cli.main", "serve", "--config", str(config),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    assert process.stdout is not None
    said = b""
    while b"serving" not in (line := await process.stdout.readline()):
        said += line
        assert line, f"the shim did not start: {said.decode()}"
    drain = asyncio.create_task(process.stdout.read())
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
        with (folder / "shim.log").open("ab") as log:
            log.write(said + await drain)


def audit_of(folder: Path) -> Path:
    """Give the audit log of a shim that runs in a folder."""
    return folder / "audit.jsonl"


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    """Give the audit events of one name; a line that a kill cut in two counts for nothing."""
    found = []
    for line in audit_of(folder).read_text().splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event["event"] == name:
            found.append(event)
    return found
