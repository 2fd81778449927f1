"""Processes under measurement: started, waited for, asked for their processor time and memory, ended."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parent.parent
START_LIMIT_S = 30
STOP_LIMIT_S = 20
_TICKS = os.sysconf("SC_CLK_TCK")


def cpu_s(pid: int) -> float:
    """Give a process's own processor time, user and system, all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def rss_kib(pid: int) -> int:
    """Give a process's resident memory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise RuntimeError(f"process {pid} has no VmRSS")


def free_port() -> int:
    """Give a port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass
class Service:
    """A server process that listens on a port; a context manager that ends it."""

    name: str
    command: Sequence[str]
    port: int
    log: Path
    path: str = "/mcp"
    environment: Mapping[str, str] = field(default_factory=dict)
    """What it is given beyond this process's own."""
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its MCP endpoint."""
        return f"http://127.0.0.1:{self.port}{self.path}"

    @property
    def pid(self) -> int:
        """Its process id. Raises RuntimeError if it does not run."""
        if self.process is None:
            raise RuntimeError(f"{self.name} is not running")
        return self.process.pid

    def __enter__(self) -> Self:
        with self.log.open("wb") as log:
            env = {**os.environ, **self.environment}
            self.process = subprocess.Popen(self.command, cwd=ROOT, env=env, stdout=log, stderr=log)
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                raise RuntimeError(f"{self.name} did not start:\n{self.log.read_text()[-2000:]}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
            except OSError:
                time.sleep(0.05)
            else:
                return self

    def __exit__(
        self, kind: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """End it, by force if it does not go."""
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(STOP_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process = None


def module(name: str, *flags: str) -> list[str]:
    """Give the command that runs a module of this repository with this Python."""
    return [sys.executable, "-m", name, *flags]
