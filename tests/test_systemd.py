"""What the service manager is told, by the parts and by a running shim."""

import asyncio
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from shim.systemd import ServiceManager
from tests.corners.ml import HandClock
from tests.crash.serving import shim
from tests.ports import free_port
from tests.scripted import Scripted


@pytest.fixture
def told(tmp_path) -> Iterator[socket.socket]:
    """A service manager's end of the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(0)
        yield manager


def lines(told: socket.socket) -> list[list[str]]:
    """Give what has been said by now."""
    said = []
    while True:
        try:
            said.append(told.recv(4096).decode().split("\n"))
        except BlockingIOError:
            return said


def of(told: socket.socket, clock: HandClock | None = None, **env: str) -> ServiceManager:
    env = {"NOTIFY_SOCKET": told.getsockname()} | env
    return ServiceManager.of(env, 7, clock or HandClock())


def test_says_each_state_in_the_managers_words(told):
    manager = of(told, HandClock(1_234))
    manager.ready("serving\nREADY=0")
    manager.reloading()
    manager.stopping()
    assert lines(told) == [
        ["READY=1", "STATUS=serving READY=0"],
        ["RELOADING=1", "MONOTONIC_USEC=1234000"],
        ["STOPPING=1", "STATUS=stopping"],
    ]


async def test_gives_two_signs_of_life_within_the_limit(told):
    clock = HandClock()
    watch = asyncio.create_task(of(told, clock, WATCHDOG_USEC="30000000", WATCHDOG_PID="7").watch())
    for _ in range(3):
        await clock.slept(15_000)
        assert lines(told) == [["WATCHDOG=1"]]
        clock.advance(15_000)
    watch.cancel()


@pytest.mark.parametrize(
    "env", [{}, {"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "8"}, {"WATCHDOG_USEC": "0"}]
)
async def test_gives_none_where_none_is_waited_for(told, env):
    await of(told, **env).watch()
    assert lines(told) == []


async def test_says_nothing_to_nobody():
    manager = ServiceManager.of({"WATCHDOG_USEC": "1"}, 7, HandClock())
    manager.ready("serving")
    await manager.watch()


def test_reaches_an_abstract_socket():
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0taskshim-test-{os.getpid()}")
        ServiceManager.of({"NOTIFY_SOCKET": f"@taskshim-test-{os.getpid()}"}, 7, HandClock()).stopping()
        assert manager.recv(100).startswith(b"STOPPING=1")


@pytest.mark.parametrize("address", ["gone", "@", "x" * 300, "vsock:2:1", "/dev/null"])
def test_a_manager_that_is_gone_stops_nothing_and_is_told_of_once(address, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    manager = ServiceManager.of({"NOTIFY_SOCKET": address}, 7, HandClock())
    for _ in range(3):
        manager.ready("serving")
    said = capsys.readouterr()  # where the log goes is for the command to say
    assert (said.out + said.err).count("could not be told") == 1


@pytest.mark.parametrize(
    ("limit_us", "limit_ms"), [("1", 100), ("9" * 5_000, None), ("²", None), ("-1", None)]
)
def test_a_limit_that_cannot_be_meant_is_no_reason_not_to_start(limit_us, limit_ms):
    env = {"NOTIFY_SOCKET": "@x", "WATCHDOG_USEC": limit_us}
    assert ServiceManager.of(env, 7, HandClock()).watchdog_ms == limit_ms


async def test_a_running_shim_tells_its_manager(
    upstream: Scripted, tmp_path: Path, told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", told.getsockname())
    port = free_port()

    async def next_told() -> list[str]:
        return (await asyncio.get_running_loop().sock_recv(told, 4096)).decode().split("\n")

    serving = f"STATUS=serving http://127.0.0.1:{port}/mcp"
    async with shim(upstream.url, tmp_path, port) as process:
        assert await next_told() == ["READY=1", serving]
        process.send_signal(signal.SIGHUP)
        assert (await next_told())[0] == "RELOADING=1"
        assert await next_told() == ["READY=1", serving]
        (tmp_path / "shim.toml").write_text("[nothing]\n")
        process.send_signal(signal.SIGHUP)
        assert (await next_told())[0] == "RELOADING=1"
        [ready, status] = await next_told()
        assert ready == "READY=1"
        assert status.startswith(f"{serving}; the config was not reloaded: ")
        assert "nothing: unknown key" in status
        process.send_signal(signal.SIGTERM)
        assert await next_told() == ["STOPPING=1", "STATUS=stopping"]
        assert await process.wait() == 0
