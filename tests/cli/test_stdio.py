"""`taskshim stdio`: nothing but the protocol on its output, in both eras, and a clean end."""

import asyncio
import itertools
import json
import signal
import sys
from asyncio.subprocess import PIPE
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shim.cli.stdio import for_one_client
from shim.config import Config
from tests import planted
from tests.client import ModernClient
from tests.scripted import Raw, text

SERVER = str(Path(__file__).parents[1] / "stdio_server.py")
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"elicitation": {}},
    "clientInfo": {"name": "c", "version": "1"},
}
META = ModernClient("").meta()


class Client:
    """Speaks with a running `taskshim stdio`."""

    def __init__(self, process):
        self.process = process
        self._ids = itertools.count(1)

    def say(self, method, params=None, **fields):
        message = {"jsonrpc": "2.0", "method": method, **fields}
        self.write({**message, "params": params} if params is not None else message)

    def write(self, message):
        self.process.stdin.write(json.dumps(message).encode() + b"\n")

    async def hear(self):
        """Give the next message; None at the end. What is no JSON fails here."""
        line = await self.process.stdout.readline()
        return json.loads(line) if line else None

    async def ask(self, method, params=None):
        request_id = next(self._ids)
        self.say(method, params, id=request_id)
        answer = await self.hear()
        assert answer["id"] == request_id
        return answer

    async def initialize(self):
        answer = await self.ask("initialize", INITIALIZE)
        self.say("notifications/initialized")
        return answer

    async def call(self, name, **fields):
        return await self.ask("tools/call", {"name": name, "arguments": planted.arguments(), **fields})

    async def end(self):
        """Close the input and give the exit code; nothing else may come."""
        self.process.stdin.close()
        assert await self.hear() is None
        return await self.process.wait()


@asynccontextmanager
async def stdio(folder, *arguments):
    with (folder / "stderr").open("wb") as stderr:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "shim.cli.main", "stdio", *arguments,
            stdin=PIPE, stdout=PIPE, stderr=stderr, cwd=Path(__file__).parents[2],
        )  # fmt: skip
    try:
        yield Client(process)
    finally:
        if process.returncode is None:
            process.kill()
        process.stdin.close()
        await process.wait()


@pytest.fixture
def command(tmp_path):
    """Give the arguments that put it in front of a scripted server of an era."""

    def arguments(mode, more=""):
        path = tmp_path / "config.toml"
        path.write_text(f"[[upstream]]\ncommand = {json.dumps([sys.executable, SERVER, mode])}\n{more}")
        return "--config", str(path)

    return arguments


def said(answer):
    return answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("mode", ["legacy", "modern"])
async def test_a_legacy_client_in_front_of_either_era(tmp_path, command, mode):
    async with stdio(tmp_path, *command(mode)) as client:
        assert (await client.initialize())["result"]["protocolVersion"] == "2025-11-25"
        assert said(await client.call("pid")) == said(await client.call("pid"))
        assert (await client.ask("tasks/get", {"taskId": "no"}))["error"]["code"] == -32602
        assert await client.end() == 0


@pytest.mark.parametrize("mode", ["legacy", "modern"])
async def test_a_modern_client_in_front_of_either_era(tmp_path, command, mode):
    async with stdio(tmp_path, *command(mode)) as client:
        discovered = await client.ask("server/discover", {"_meta": META})
        assert "2026-07-28" in discovered["result"]["supportedVersions"]
        assert said(await client.call("pid", _meta=META))
        assert await client.end() == 0


async def test_the_upstream_may_be_a_url(tmp_path, upstream):
    upstream.on("tools/call", text("hello"))
    async with stdio(tmp_path, "--upstream", upstream.url) as client:
        await client.initialize()
        assert said(await client.call("greet")) == "hello"
        assert await client.end() == 0
    assert upstream.seen("DELETE")


async def test_a_question_in_the_middle_of_a_call(tmp_path, command):
    async with stdio(tmp_path, *command("legacy")) as client:
        await client.initialize()
        client.say("tools/call", {"name": "ask", "arguments": {}}, id="c")
        asked = await client.hear()
        assert asked["method"] == "elicitation/create"
        answer = {"action": "accept", "content": {"name": "Ann"}}
        client.write({"jsonrpc": "2.0", "id": asked["id"], "result": answer})
        assert said(await client.hear()) == "Ann"


async def test_what_the_server_says_of_its_own_accord(tmp_path, upstream):
    async with stdio(tmp_path, "--upstream", upstream.url) as client:
        await client.initialize()
        stream = await upstream.get_stream()
        await stream.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        assert (await client.hear())["method"] == "notifications/tools/list_changed"


async def test_a_lost_session_is_opened_anew_for_the_client(tmp_path, command):
    async with stdio(tmp_path, *command("legacy")) as client:
        await client.initialize()
        before = said(await client.call("pid"))
        assert (await client.call("crash"))["error"]["code"] == -32603
        assert said(await client.call("pid")) != before


async def test_a_modern_client_calls_off_by_saying_so(tmp_path, command):
    async with stdio(tmp_path, *command("modern")) as client:
        client.say("tools/call", {"name": "hang", "arguments": {}, "_meta": META}, id="h")
        while not (heard := json.loads(said(await client.call("heard", _meta=META)))):
            pass
        client.say("notifications/cancelled", {"requestId": "h", "_meta": META})
        while len(heard) == 1:
            heard = json.loads(said(await client.call("heard", _meta=META)))
        assert heard[1]["method"] == "notifications/cancelled"


async def test_what_is_no_message_is_an_error_on_its_line(tmp_path, command):
    async with stdio(tmp_path, *command("legacy")) as client:
        client.process.stdin.write(b"hello\n\n")
        assert (await client.hear())["error"]["code"] == -32700
        await client.initialize()


async def test_an_upstream_that_cannot_be_reached_is_an_answer(tmp_path):
    async with stdio(tmp_path, "--upstream", "http://127.0.0.1:1/mcp") as client:
        assert (await client.ask("initialize", INITIALIZE))["error"]["code"] == -32603
        assert await client.end() == 0


async def test_an_answer_that_is_no_message_is_an_error(tmp_path, upstream):
    upstream.on("tools/call", Raw("<html>", 500))
    async with stdio(tmp_path, "--upstream", upstream.url) as client:
        await client.initialize()
        assert (await client.call("greet"))["error"]["code"] == -32603


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it(tmp_path, command, number):
    async with stdio(tmp_path, *command("legacy")) as client:
        await client.initialize()
        client.say("tools/call", {"name": "hang", "arguments": {}}, id="h")
        client.process.send_signal(number)
        assert await client.process.wait() == 0


async def test_the_log_is_on_standard_error(tmp_path, command):
    async with stdio(tmp_path, *command("legacy")) as client:
        await client.initialize()
        assert await client.end() == 0
    assert '"event": "serving"' in (tmp_path / "stderr").read_text()


async def test_what_cannot_be_done_is_said_on_standard_error(tmp_path):
    async with stdio(tmp_path, "--upstream", "ftp://x") as client:
        assert await client.hear() is None
        assert await client.process.wait() == 2
    assert (tmp_path / "stderr").read_text().startswith("taskshim: --upstream: upstream[0].url: must be")


def test_nothing_is_kept_but_where_it_is_said(tmp_path):
    config = Config.model_validate({"upstream": [{"url": "http://h/mcp"}]})
    fitted = for_one_client(config, tmp_path, "k")
    assert fitted.ledger.path == tmp_path / "ledger.db"
    assert fitted.identity.key_file == tmp_path / "taskshim.key"
    assert (fitted.upstream[0].credentials, fitted.admin.enabled) == ("none", False)
    kept = Config.model_validate({"upstream": [{"url": "http://h/mcp"}], "ledger": {"path": "a/b.db"}})
    fitted = for_one_client(kept, tmp_path, "k")
    assert (str(fitted.ledger.path), str(fitted.identity.key_file)) == ("a/b.db", "a/b.key")


async def test_a_task_is_found_again_by_the_next_run(tmp_path, upstream):
    stamp = "2026-01-01T00:00:00Z"
    task = {"taskId": "t-0123456789abcdef", "status": "working", "ttl": None, "createdAt": stamp,
            "lastUpdatedAt": stamp}  # fmt: skip
    upstream.on("tools/list", {"tools": [{"name": "run", "inputSchema": {"type": "object"},
                                          "execution": {"taskSupport": "required"}}]})  # fmt: skip
    upstream.on("tools/call", {"task": task})
    upstream.on("tasks/get", task)
    arguments = ("--upstream", upstream.url, "--ledger", str(tmp_path / "ledger.db"))
    async with stdio(tmp_path, *arguments) as client:
        assert (await client.call("run", _meta=META))["result"]["taskId"] == task["taskId"]
        assert await client.end() == 0
    async with stdio(tmp_path, *arguments) as client:
        found = await client.ask("tasks/get", {"taskId": task["taskId"], "_meta": META})
        assert found["result"]["status"] == "working"
