"""A running shim leaves no core dump and has room for its connections, whoever starts it."""

import asyncio
import errno
import resource
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from shim.cli.own_process import bound_process, watch_descriptors
from tests.crash.serving import shim
from tests.ports import free_port
from tests.scripted import Scripted

UNLIMITED = resource.RLIM_INFINITY


def limits_of(pid: int) -> list[str]:
    """The bounds of a running process, a line for each."""
    return Path(f"/proc/{pid}/limits").read_text("ascii").splitlines()


@pytest.mark.rule("OWN-STORE")
@pytest.mark.skipif(sys.platform != "linux", reason="a process's limits are read in /proc")
async def test_a_served_shim_leaves_no_core_dump(upstream: Scripted, tmp_path: Path) -> None:
    """It would hold the tokens that are never written otherwise."""
    upstream.on("tools/list", {"tools": []})
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    try:
        async with shim(upstream.url, tmp_path, free_port()) as process:
            limits = limits_of(process.pid)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, before)
    [core] = [line for line in limits if line.startswith("Max core file size")]
    [files] = [line for line in limits if line.startswith("Max open files")]
    assert core.split()[4] == "0"
    assert int(files.split()[3]) == min(65_536, int(files.split()[4])) or int(files.split()[3]) > 65_536


@pytest.mark.parametrize(
    ("had", "has"),
    [
        ((1_024, 524_288), (65_536, 524_288)),
        ((1_024, 4_096), (4_096, 4_096)),
        ((1_024, UNLIMITED), (65_536, UNLIMITED)),
        ((100_000, 200_000), None),
        ((UNLIMITED, UNLIMITED), None),
    ],
)
def test_it_takes_the_descriptors_that_it_may_have(
    monkeypatch: pytest.MonkeyPatch, had: tuple[int, int], has: tuple[int, int] | None
) -> None:
    asked: dict[int, tuple[int, int]] = {}
    monkeypatch.setattr(resource, "getrlimit", lambda _: had)
    monkeypatch.setattr(resource, "setrlimit", asked.__setitem__)
    bound_process()
    assert asked.pop(resource.RLIMIT_CORE) == (0, had[1])
    assert asked == ({} if has is None else {resource.RLIMIT_NOFILE: has})


async def test_a_want_of_descriptors_is_one_line_and_every_other_fault_is_as_before(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """asyncio says it for each connection that it cannot take, thousands a second."""
    loop = asyncio.get_running_loop()
    watch_descriptors(loop)
    with capture_logs() as logs:
        for number in (errno.EMFILE, errno.ENFILE, errno.EMFILE):
            loop.call_exception_handler({"message": "accept", "exception": OSError(number, "no")})
        loop.call_exception_handler({"message": "something else", "exception": OSError(errno.EIO, "no")})
        loop.call_exception_handler({"message": "nothing at all"})
    [line] = logs
    assert line["event"] == "connections cannot be taken: raise LimitNOFILE of the service, or ulimit -n"
    assert (line["error"], line["log_level"]) == ("Too many open files", "warning")
    assert line["open_files"] == resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert [record.message.splitlines()[0] for record in caplog.records] == [
        "something else",
        "nothing at all",
    ]
