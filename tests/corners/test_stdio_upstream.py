"""A server that is a command: one process for each session, ended with it; a crash is a lost session."""

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from shim.app import running
from tests.client import LegacyClient, ModernClient, Reply
from tests.corners.ml import HandClock
from tests.shim import config_for, events

SERVER = str(Path(__file__).parents[1] / "stdio_server.py")
ANN, BOB = {"X-Api-Key": "a"}, {"X-Api-Key": "b"}
CALLERS = {"sources": ["api_key"], "api_key": {"keys": {"ann": "a", "bob": "b"}}}
NO_SPARES = {"spares": 0}
STUBBORN = (
    "import runpy, signal, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    f"\nsys.argv = [{SERVER!r}, 'legacy']\nrunpy.run_path({SERVER!r}, run_name='__main__')\nsignal.pause()"
)


@asynccontextmanager
async def shim(
    folder: Path, mode: str = "legacy", upstream: dict[str, Any] | None = None,
    clock: HandClock | None = None, **sections: Any,
) -> AsyncIterator[str]:  # fmt: skip
    command = [sys.executable, SERVER, mode]
    sections = {"identity": CALLERS, "sessions": NO_SPARES, **sections}
    config = config_for("", folder, upstream={"command": command, **(upstream or {})}, **sections)
    async with running(config, clock=clock) as app:
        yield app.url


@asynccontextmanager
async def legacy(url: str, headers: dict[str, str] = ANN) -> AsyncIterator[LegacyClient]:
    async with LegacyClient(url, headers=headers) as client:
        await client.initialize()
        yield client


def said(reply: Reply) -> str:
    return str(reply.result["content"][0]["text"])


def watch(pid: str) -> "asyncio.Future[None]":
    """Give what is done once a process is gone."""
    gone = asyncio.get_running_loop().create_future()
    fd = os.pidfd_open(int(pid))

    def ended() -> None:
        asyncio.get_running_loop().remove_reader(fd)
        os.close(fd)
        gone.set_result(None)

    asyncio.get_running_loop().add_reader(fd, ended)
    return gone


@pytest.mark.parametrize("mode", ["legacy", "modern"])
@pytest.mark.parametrize("client", [LegacyClient, ModernClient])
async def test_two_callers_never_share_a_process(
    tmp_path: Path, mode: str, client: type[LegacyClient | ModernClient]
) -> None:
    async with (
        shim(tmp_path, mode) as url,
        client(url, headers=ANN) as ann,
        client(url, headers=BOB) as bob,
    ):
        for one in (ann, bob):
            if isinstance(one, LegacyClient):
                await one.initialize()
        assert said(await ann.call("pid")) != said(await bob.call("pid"))


async def test_each_session_of_a_client_is_a_process_and_ends_with_it(tmp_path: Path) -> None:
    async with shim(tmp_path) as url, legacy(url) as one, legacy(url) as two:
        pids = [said(await client.call("pid")) for client in (one, two, one)]
        assert pids[0] == pids[2] != pids[1]
        gone = watch(pids[0])
        assert (await one.send(None, http_method="DELETE", headers=one.own_headers(None) | ANN)).status < 300
        await gone
        assert (await one.call("pid")).status == 404
        assert said(await two.call("pid")) == pids[1]


@pytest.mark.parametrize("mode", ["legacy", "modern"])
async def test_processes_end_with_the_shim(tmp_path: Path, mode: str) -> None:
    async with ModernClient("", headers=ANN) as client:
        async with shim(tmp_path, mode) as client.url:
            gone = watch(said(await client.call("pid")))
        await gone


async def test_a_process_that_will_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shim.upstreams.stdio.process._PATIENCE_S", 0.05)
    command = [sys.executable, "-c", STUBBORN]
    async with ModernClient("", headers=ANN) as client:
        async with shim(tmp_path, upstream={"command": command, "dialect": "experimental"}) as client.url:
            gone = watch(said(await client.call("pid")))
        await gone


async def test_what_nobody_uses_is_ended(tmp_path: Path) -> None:
    clock = HandClock()
    async with shim(tmp_path, clock=clock) as url, legacy(url) as client:
        gone = watch(said(await client.call("pid")))
        await clock.slept(30_000)
        clock.advance(700_000)
        await gone
        assert (await client.call("pid")).status == 404


async def test_a_process_with_an_open_task_or_a_listener_is_in_use(tmp_path: Path) -> None:
    clock = HandClock()
    async with shim(tmp_path, clock=clock) as url, legacy(url) as worker, legacy(url) as listener:
        pids = [said(await one.call("pid")) for one in (worker, listener)]
        await worker.call("job", task={})
        async with listener.get(), legacy(url) as idle:
            gone = watch(said(await idle.call("pid")))
            await clock.slept(30_000)
            clock.advance(700_000)
            await gone
            assert [said(await one.call("pid")) for one in (worker, listener)] == pids


async def test_the_number_of_processes_is_bounded(tmp_path: Path) -> None:
    async with (
        shim(tmp_path, sessions={"total": 1, "spares": 0}) as url,
        legacy(url) as first,
        LegacyClient(url, headers=BOB) as second,
    ):
        assert (await second.initialize()).status == 503
        await first.send(None, http_method="DELETE", headers=first.own_headers(None) | ANN)
        assert (await second.initialize()).status == 200


# -- what goes wrong ----------------------------------------------------------------------------


async def test_a_crash_under_a_legacy_client_is_the_end_of_its_session_only(tmp_path: Path) -> None:
    async with shim(tmp_path) as url, legacy(url) as client, legacy(url) as other:
        reply = await client.call("crash")
        assert (reply.status, reply.error["code"]) == (502, -32603)
        assert (await client.call("pid")).status == 404
        assert said(await other.call("pid"))
        await client.initialize()
        assert said(await client.call("pid"))


@pytest.mark.parametrize("mode", ["legacy", "modern"])
@pytest.mark.parametrize("end", ["crash", "close"])
async def test_a_crash_under_a_modern_client_is_an_error_and_no_more(
    tmp_path: Path, mode: str, end: str
) -> None:
    async with shim(tmp_path, mode) as url, ModernClient(url, headers=ANN) as client:
        assert (await client.call(end)).error["code"] == -32603
        assert said(await client.call("pid"))


@pytest.mark.rule("ML-SESSION-LOST")
async def test_a_task_whose_process_crashed_is_lost(tmp_path: Path) -> None:
    async with (
        shim(tmp_path, tasks={"lost_confirm_ms": 0}) as url,
        ModernClient(url, headers=ANN) as client,
    ):
        created = (await client.call("job")).result
        pid = created["taskId"].split("-")[2]
        gone = watch(pid)
        os.kill(int(pid), signal.SIGKILL)
        await gone
        while (await client.tasks("get", created["taskId"])).result["status"] != "failed":
            pass
    assert events(tmp_path, "session.lost")
    assert events(tmp_path, "task.lost")


async def test_what_is_no_message_is_passed_over(tmp_path: Path) -> None:
    async with shim(tmp_path) as url, legacy(url) as client:
        with capture_logs() as logs:
            assert said(await client.call("garbage")) == "still here"
    faults = [one["text"] for one in logs if one["event"] == "a fault of the server's"]
    assert faults[:2] == [
        f"no message on standard output: {line!r}" for line in (b"Starting up...", b"[1, 2]")
    ]


async def test_a_message_beyond_the_bound_ends_the_process(tmp_path: Path) -> None:
    async with shim(tmp_path, limits={"frame_bytes": 100_000}) as url, legacy(url) as client:
        assert len(said(await client.call("large", {"bytes": 90_000}))) == 90_000
        assert (await client.call("large", {"bytes": 200_000})).status == 502
        assert (await client.call("pid")).status == 404


async def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    upstream = {"command": [str(tmp_path / "nothing")], "dialect": "experimental"}
    async with shim(tmp_path, upstream=upstream) as url, LegacyClient(url, headers=ANN) as client:
        reply = await client.initialize()
        assert reply.status == 502
        assert reply.error["message"] == "the server cannot be started: No such file or directory"


async def test_sessions_of_an_earlier_run_are_unknown(tmp_path: Path) -> None:
    async with LegacyClient("", headers=ANN) as client:
        async with shim(tmp_path) as client.url:
            await client.initialize()
        async with shim(tmp_path) as client.url:
            assert (await client.call("pid")).status == 404
            await client.initialize()
            assert said(await client.call("pid"))


# -- what is said -------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["legacy", "modern"])
async def test_a_slow_answer_holds_up_no_other(tmp_path: Path, mode: str) -> None:
    client_of = LegacyClient if mode == "legacy" else ModernClient
    async with shim(tmp_path, mode) as url, client_of(url, headers=ANN) as client:
        if isinstance(client, LegacyClient):
            await client.initialize()
        async with asyncio.TaskGroup() as group:
            slow = group.create_task(client.call("slow"))
            while not slow.done():
                assert said(await client.call("pid"))
        assert said(slow.result()) == "at last"


async def test_clients_of_one_caller_may_choose_the_same_ids(tmp_path: Path) -> None:
    async with (
        shim(tmp_path, "modern") as url,
        ModernClient(url, headers=ANN) as one,
        ModernClient(url, headers=ANN) as two,
    ):
        meta = {"progressToken": "same"}
        replies = await asyncio.gather(
            *(client.call("progress", id=7, meta=meta) for client in (one, two) for _ in range(5))
        )
    for reply in replies:
        assert [message.get("id") for message in reply.messages] == [None, 7]
        assert reply.messages[0]["params"]["progressToken"] == "same"


async def test_a_legacy_client_is_asked_in_the_middle_of_a_call(tmp_path: Path) -> None:
    async with shim(tmp_path) as url, legacy(url) as client:
        params = {"name": "ask", "arguments": {}}
        async with client.get(), client.stream("tools/call", params) as stream:
            asked = await stream.message()
            assert asked["method"] == "elicitation/create"
            await client.respond(asked["id"], {"action": "accept", "content": {"name": "Ann"}})
            assert (await stream.message())["result"]["content"][0]["text"] == "Ann"


@pytest.mark.rule("ML-INPUT")
async def test_a_task_asks_a_modern_client(tmp_path: Path) -> None:
    async with shim(tmp_path) as url, ModernClient(url, headers=ANN) as client:
        task_id = (await client.call("job")).result["taskId"]
        while not (seen := (await client.tasks("get", task_id)).result).get("inputRequests"):
            pass
        answer = {"action": "accept", "content": {"name": "Ann"}}
        await client.tasks("update", task_id, inputResponses=dict.fromkeys(seen["inputRequests"], answer))
        while (seen := (await client.tasks("get", task_id)).result)["status"] != "completed":
            pass
        assert seen["result"]["content"][0]["text"] == "Ann"


async def test_a_subscription_carries_its_clients_id(tmp_path: Path) -> None:
    async with shim(tmp_path, "modern") as url, ModernClient(url, headers=ANN) as client:
        await client.call("pid")
        wanted = {"notifications": {"toolsListChanged": True}}
        async with client.stream("subscriptions/listen", wanted, id="mine") as stream:
            heard = [await stream.message(), await stream.message()]
    key = "io.modelcontextprotocol/subscriptionId"
    assert [one["params"]["_meta"][key] for one in heard] == ["mine", "mine"]


async def test_a_modern_client_that_leaves_calls_its_request_off(tmp_path: Path) -> None:
    async with shim(tmp_path, "modern") as url, ModernClient(url, headers=ANN) as client:
        call = asyncio.create_task(client.call("hang", id="mine"))
        while not (heard := json.loads(said(await client.call("heard")))):
            pass
        call.cancel()
        while len(heard) == 1:
            heard = json.loads(said(await client.call("heard")))
    assert heard[1]["method"] == "notifications/cancelled"
    assert heard[1]["params"]["requestId"] == heard[0]["id"] != "mine"


@pytest.mark.rule("ERA-PROBE")
async def test_silence_to_a_probe_is_a_legacy_servers(tmp_path: Path) -> None:
    upstream = {"answer_timeout_ms": 8_000}
    async with shim(tmp_path, "silent", upstream) as url, LegacyClient(url, headers=ANN) as client:
        await client.initialize()
        assert said(await client.call("pid"))


# -- the process's surroundings -----------------------------------------------------------------


async def test_a_process_has_its_own_environment_and_nothing_of_the_shims(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_SHIM", "x")
    upstream = {"env": {"GIVEN": "for it"}, "cwd": str(tmp_path)}
    async with shim(tmp_path, upstream=upstream) as url, legacy(url) as client:
        names = ("GIVEN", "SECRET_OF_THE_SHIM", "PATH")
        seen = [said(await client.call("env", {"name": name})) for name in names]
        assert seen == ["for it", "None", os.environ["PATH"]]
        assert said(await client.call("cwd")) == str(tmp_path)


async def test_what_it_says_on_standard_error_is_in_the_operators_log(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with shim(tmp_path) as url, legacy(url) as client:
            for line in ("loading", "y" * 5_000):
                await client.call("log", {"line": line})
    told = [one["text"] for one in logs if one["event"] == "the server says"]
    assert told[0] == "loading"
    assert all(len(text) <= 2_000 for text in told)
    assert sum(map(len, told[1:])) <= 5_000
