"""A disk that is full and a reader that does not read stop no request, and what is lost is told."""

import contextlib
import fcntl
import io
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from shim.app import App, running
from shim.audit.chain import PURPOSE
from shim.auditing.integrity import integrity
from shim.auditing.logs import reading
from shim.callers.keys import Keys
from tests.client import LegacyClient
from tests.scripted import Scripted, text
from tests.shim import config_for

FULL = Path("/dev/full")
QUEUE = 50
PIPE_BYTES = 4096
AT_MOST = 5_000
"""Requests after which the test gives up: far more than a pipe and a queue take."""


async def lost(app: App) -> int:
    """Give what the metrics say was lost."""
    async with aiohttp.ClientSession() as http, http.get(f"{app.admin_url}/metrics") as response:
        lines = (await response.text()).splitlines()
    return next(
        int(float(line.split()[1])) for line in lines if line.startswith("taskshim_audit_dropped_total ")
    )


async def call_until(client: LegacyClient, done: Callable[[], Any]) -> int:
    """Call until something is so, each call answered; give how many calls that took."""
    for number in range(AT_MOST):
        assert (await client.call("greet")).result == text("hi")
        if await done():
            return number + 1
    pytest.fail("it never came to that")


def names(logs: Any) -> list[str]:
    return [one["event"] for one in logs if "audit file" in one["event"]]


def events(raw: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in raw.splitlines()]


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def told_lost(found: list[dict[str, Any]]) -> int:
    """Give what was lost as the log tells it: in pieces, and in all with the last sign of life."""
    count = sum(one["count"] for one in found if one["event"] == "audit.dropped")
    assert [one["dropped"] for one in found if one["event"] == "instance.alive"][-1] == count
    return count


async def test_a_full_disk_stops_nothing_and_is_told_when_it_has_room_again(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tools/call", text("hi"))
    path, keys = tmp_path / "audit.jsonl", tmp_path / "audit.key"
    path.symlink_to(FULL)
    mode = mode_of(FULL)
    settings = {"path": path, "key_file": keys, "queue": QUEUE}
    with capture_logs() as logs:
        async with (
            running(config_for(upstream.url, tmp_path, audit=settings)) as app,
            LegacyClient(app.url) as client,
        ):
            await client.initialize()

            async def lost_more() -> bool:
                return await lost(app) > 2 * QUEUE

            await call_until(client, lost_more)
            path.unlink()  # from here on there is room

            async def told() -> bool:
                return path.exists() and b"audit.dropped" in path.read_bytes()

            await call_until(client, told)
            count = await lost(app)
    assert mode_of(FULL) == mode  # the device is not the shim's
    found = events(path.read_bytes())
    assert told_lost(found) >= count > 2 * QUEUE
    said = names(logs)
    assert "the audit file cannot be written: events are lost until it can" in said
    assert said[-1] == "the audit file is written again"
    with reading([str(path)], io.BytesIO(), keys=Keys.read(keys, "").derived(PURPOSE)) as read:
        assert read.span is not None
        read.look(read.span)
        whole = integrity(read)
    assert whole.dropped == told_lost(found)
    assert whole.chain is not None
    assert (whole.chain.signed, whole.chain.count) == (len(found), 0)


async def test_a_reader_that_does_not_read_stops_nothing_and_learns_what_it_missed(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tools/call", text("hi"))
    path = tmp_path / "audit.jsonl"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDWR | os.O_NONBLOCK)
    fcntl.fcntl(reader, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    raw = b""

    def read() -> bytes:
        nonlocal raw
        with contextlib.suppress(BlockingIOError):
            raw += os.read(reader, 1 << 20)
        return raw

    async with running(config_for(upstream.url, tmp_path, audit={"path": path, "queue": QUEUE})) as app:
        async with LegacyClient(app.url) as client:
            await client.initialize()

            async def lost_more() -> bool:
                return await lost(app) > 2 * QUEUE

            with capture_logs() as logs:
                calls = await call_until(client, lost_more)
            # what is not lost is in the pipe, in the queue or in the writer's hands
            assert await lost(app) > calls - 4 * QUEUE
            assert names(logs) == ["events are lost: the audit file takes them too slowly, or not at all"]

            async def told() -> bool:
                return b"audit.dropped" in read()

            await call_until(client, told)
        count = await lost(app)
    found = events(read().rpartition(b"\n")[0])
    assert told_lost(found) >= count > 2 * QUEUE
    assert mode_of(path) != 0o600  # it is not the shim's
    os.close(reader)
