"""One process of a server: lines in, lines out, what it logs, and its end within bounds."""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

log = structlog.get_logger("shim.upstreams")

_PASSED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "TZ", "USER")
"""What a process has of the shim's environment; the rest may hold secrets that are not its own."""
_PATIENCE_S = 2.0
"""How long a process may take to end by itself, and again after SIGTERM."""
_LOGGED_BYTES = 2_000
_LOGGED_LINES = 300
_WINDOW_S = 60


@dataclass(frozen=True, slots=True)
class Command:
    """How a server is started."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: Path | None = None

    def environment(self) -> dict[str, str]:
        """Give the whole environment of a process."""
        return {name: os.environ[name] for name in _PASSED if name in os.environ} | dict(self.env)


class Process:
    """A running server; `start` makes one, `end` ends it."""

    def __init__(self, child: asyncio.subprocess.Process, name: str) -> None:
        assert child.stdin is not None  # noqa: S101 - it was asked for, as the other two are
        assert child.stdout is not None  # noqa: S101
        assert child.stderr is not None  # noqa: S101
        self._child = child
        self._stdin, self._stdout, self._stderr = child.stdin, child.stdout, child.stderr
        self._told = OperatorLines(name, child.pid)
        self._logging = asyncio.create_task(self._log(), name=f"stderr {child.pid}")

    @classmethod
    async def start(cls, command: Command, name: str, frame_bytes: int) -> "Process":
        """Start one. Raises OSError where there is no such command, or no room for a process."""
        child = await asyncio.create_subprocess_exec(
            *command.argv, stdin=PIPE, stdout=PIPE, stderr=PIPE, limit=frame_bytes,
            env=command.environment(), cwd=command.cwd, start_new_session=True,
        )  # fmt: skip
        return cls(child, name)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._child.pid

    async def write(self, message: bytes) -> None:
        """Send a message. Raises ConnectionError where the process is gone."""
        # a line end in JSON can only be white space between its parts
        self._stdin.write(message.replace(b"\r", b" ").replace(b"\n", b" ") + b"\n")
        await self._stdin.drain()

    async def lines(self) -> AsyncIterator[bytes]:
        """Give what it writes, line by line, until it closes its output or a line is beyond the bound."""
        try:
            while True:
                yield await self._stdout.readuntil()
        except asyncio.LimitOverrunError:
            self.complain("a message is larger than limits.frame_bytes: the process is ended")
        except (asyncio.IncompleteReadError, OSError):
            return

    def complain(self, text: str) -> None:
        """Tell the operator of a fault of the process."""
        self._told.warn(text)

    async def end(self) -> None:
        """Close its input, then ask it to end, then end it; what it started and left goes with it."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        if not await self._ended():
            self._signal(signal.SIGTERM)
            await self._ended()
        self._signal(signal.SIGKILL)
        await self._child.wait()
        await asyncio.wait((self._logging,), timeout=_PATIENCE_S)
        self._logging.cancel()
        self._child._transport.close()  # type: ignore[attr-defined]  # noqa: SLF001 - its pipes may be held elsewhere

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._child.pid, number)

    async def _ended(self) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_S):
                await self._child.wait()
        return self._child.returncode is not None

    async def _log(self) -> None:
        rest = b""
        while chunk := await self._stderr.read(_LOGGED_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                self._told.info(line)
            if len(rest) > _LOGGED_BYTES:
                self._told.info(rest)
                rest = b""
        if rest:
            self._told.info(rest)


class OperatorLines:
    """What one process has in the operator's log: so many lines a minute, each of so many bytes."""

    def __init__(self, name: str, pid: int) -> None:
        self._log = log.bind(upstream=name, pid=pid)
        self._left = _LOGGED_LINES
        self._until = 0.0

    def info(self, line: bytes) -> None:
        """Tell what it wrote on standard error."""
        text = line[:_LOGGED_BYTES].decode("utf-8", "backslashreplace").strip()
        if text and self._room():
            self._log.info("the server says", text=text)

    def warn(self, text: str) -> None:
        """Tell of a fault."""
        if self._room():
            self._log.warning("a fault of the server's", text=text)

    def _room(self) -> bool:
        now = asyncio.get_running_loop().time()
        if now >= self._until:
            self._left, self._until = _LOGGED_LINES, now + _WINDOW_S
        self._left -= 1
        if self._left == 0:
            self._log.warning("the server says more than the log takes in a minute")
        return self._left > 0
