"""Environments for the real peers, made once and kept: `TASKSHIM_PEERS`, or `.peers/` beside the tests.

Each has a marker file with what was asked for; another request, or none that finished, makes it anew. A file
lock keeps two test runs from making the same one. `PeerUnavailableError` says why one cannot be had.
"""

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

LEGACY = ("mcp==1.30.0",)
MODERN = ("mcp==2.3.0",)
FASTMCP = (
    "fastmcp==4.1.4",
    "fastmcp-tasks==4.1.4",
    "mcp==2.3.0",
    "pydocket==0.27.0",  # runs the tasks
    "burner-redis==0.1.7",  # pydocket's store in memory
)
NODE = ("node@22", "@modelcontextprotocol/conformance@0.2.0-alpha.12")
INSTALL_TIMEOUT_S = 400


class PeerUnavailableError(Exception):
    """A peer's environment cannot be made here."""


def peers_dir() -> Path:
    """The directory that holds the environments."""
    return Path(os.environ.get("TASKSHIM_PEERS") or Path(__file__).parents[2] / ".peers")


@cache
def legacy_python() -> Path:
    """The interpreter of an environment with the last SDK that has experimental tasks."""
    return _python("legacy", LEGACY)


@cache
def modern_python() -> Path:
    """The interpreter of an environment with an SDK of the modern era, which has no tasks."""
    return _python("modern", MODERN)


@cache
def fastmcp_python() -> Path:
    """The interpreter of an environment with the one genuine SEP-2663 server and client."""
    return _python("fastmcp", FASTMCP)


@cache
def node_bin() -> Path:
    """The directory with `node` 22 and the `conformance` command."""

    def make(directory: Path) -> None:
        npm = shutil.which("npm")
        if npm is None:
            raise PeerUnavailableError("npm is not installed")
        directory.mkdir(parents=True)
        (directory / "package.json").write_text('{"private": true}')
        _run([npm, "install", "--no-audit", "--no-fund", "--prefix", str(directory), *NODE])

    return _environment("node", NODE, make) / "node_modules" / ".bin"


def _python(name: str, wants: tuple[str, ...]) -> Path:
    def make(directory: Path) -> None:
        _run([sys.executable, "-m", "venv", str(directory)])
        pip = [str(directory / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check", "-q"]
        _run([*pip, *wants])

    return _environment(name, wants, make) / "bin" / "python"


def _environment(name: str, wants: tuple[str, ...], make: Callable[[Path], None]) -> Path:
    directory, marker = peers_dir() / name, "\n".join(wants)
    ready = directory / ".ready"
    peers_dir().mkdir(parents=True, exist_ok=True)
    with _locked(peers_dir() / f"{name}.lock"):
        if not ready.is_file() or ready.read_text() != marker:
            shutil.rmtree(directory, ignore_errors=True)
            make(directory)
            ready.write_text(marker)
    return directory


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise PeerUnavailableError(f"{command[0]}: {exc}") from exc
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise PeerUnavailableError(f"{' '.join(command[:4])}: {said[-1] if said else done.returncode}")
