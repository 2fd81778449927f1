# ruff: noqa: E501 - garbage is long
"""Whole conversations in any order: two callers, both eras on both sides, over real sockets.

A machine holds what became of each task against what its owner is told, whatever came in between: foreign
callers, garbage, lost sessions, answers given twice, a shim that starts anew.
"""

import asyncio
import itertools
import json
import tempfile
from collections import Counter
from collections.abc import Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from shim.app import running
from tests.client import LegacyClient, ModernClient, Reply
from tests.corners.lm import ACK, BOB, DISCOVER, elicitation, made, seen_as
from tests.corners.lm import TOOLS as NEW_TOOLS
from tests.corners.ml import ALICE, TOOLS, HandClock, accept
from tests.scripted import Error, Raw, Scriptable, Scripted, Seen, scripted, task, text
from tests.shim import config_for

T = TypeVar("T")

_ANSWER_S = 30
_FRESH_MS = 1_001
_ENDED = {"completed", "failed", "cancelled"}
_OF_THE_NEW = {"resultType", "ttlMs", "pollIntervalMs", "inputRequests", "requestState", "cacheScope"}
_NOBODYS = "Failed to retrieve task: Task not found"

CALLERS = st.sampled_from(["alice", "bob"])
ERAS = st.sampled_from(["modern", "legacy"])
PLACES = st.integers(0, 30)
GARBAGE = st.binary(max_size=40) | st.sampled_from([
    b"[]", b"{}", b'{"jsonrpc":"2.0","id":1}', b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":7}}',
    b'{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x","taskID":"y"}}', b'{"a":' + b"[" * 3_000,
    b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plain","arguments":' + b"[" * 950 + b"]" * 950 + b"}}",
    b'{"jsonrpc":"2.0","id":"\\ud800","method":"ping"}', b'{"jsonrpc":"2.0","id":1,"method":"tasks/list","params":{"cursor":"x"}}',
])  # fmt: skip
NAMES = st.sampled_from(
    ["Mcp-Name", "Mcp-Method", "MCP-Protocol-Version", "Mcp-Session-Id", "Last-Event-ID", "traceparent"]
)
VALUES = st.sampled_from(
    ["", "x", "=?base64?\u00e9?=", "=?base64?/w==?=", "2026-07-28", "2025-11-25", "9" * 300, "\u00ff"]
)


@dataclass
class Job:
    """A task as the server has it, and as its owner was last told."""

    owner: str
    era: str
    upstream_id: str
    task_id: str = ""
    status: str = "working"
    told: str = "working"
    asked: list[str] = field(default_factory=list)
    """Questions that are open at the server."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Conversation(RuleBasedStateMachine):
    """What both servers have in common."""

    dialect: ClassVar[str]
    sessions: ClassVar[bool]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.folder = tempfile.TemporaryDirectory()
        self.jobs: list[Job] = []
        self.count = itertools.count(1)
        self.answers: Counter[str] = Counter()
        self.clock = HandClock()
        self.stack = AsyncExitStack()
        self.run(self._begin())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        async def bounded() -> T:
            async with asyncio.timeout(_ANSWER_S):
                return await work

        return self.runner.run(bounded())

    async def _begin(self) -> None:
        self.server = await self.stack.enter_async_context(scripted(sessions=self.sessions))
        self.script(self.server)
        self.inner = AsyncExitStack()
        await self._start()

    async def _start(self) -> None:
        """Start the shim and seat its clients."""
        config = config_for(self.server.url, Path(self.folder.name), upstream={"dialect": self.dialect})
        app = await self.inner.enter_async_context(running(config, clock=self.clock))
        self.clients: dict[tuple[str, str], ModernClient | LegacyClient] = {}
        for name, headers in (("alice", ALICE), ("bob", BOB)):
            modern = ModernClient(app.url, headers=headers)
            legacy = LegacyClient(app.url, headers=headers)
            self.clients[name, "modern"] = await self.inner.enter_async_context(modern)
            self.clients[name, "legacy"] = await self.inner.enter_async_context(legacy)
            await self._seat(legacy)

    async def _seat(self, client: LegacyClient) -> None:
        client.session, client.initialized = None, False
        self.sound(await client.initialize(), "legacy")

    def teardown(self) -> None:
        try:
            for job in self.jobs:
                job.ended.set()
            self.run(self._end())
        finally:
            self.runner.close()
            self.folder.cleanup()

    async def _end(self) -> None:
        await self.inner.aclose()
        await self.stack.aclose()

    # what a server does

    def script(self, server: Scripted) -> None:
        """Make the server live off `jobs`."""
        raise NotImplementedError

    def made(self, seen: Seen) -> Job:
        """Take in a new task; whose it is the call's arguments say."""
        said = seen.params["arguments"]
        job = Job(said["owner"], said["era"], f"up-{next(self.count)}")
        self.jobs.append(job)
        return job

    def named(self, seen: Seen) -> Job | None:
        return next((job for job in self.jobs if job.upstream_id == seen.params.get("taskId")), None)

    def answered(self, question: str) -> None:
        """Note an answer that reached the server."""
        self.answers[question] += 1
        for job in self.jobs:
            if question in job.asked:
                job.asked.remove(question)
                job.status = "working" if job.status == "input_required" and not job.asked else job.status

    # what clients do

    @initialize()
    def both_begin(self) -> None:
        self.create("alice", "modern")
        self.create("bob", "legacy")

    @rule(caller=CALLERS, era=ERAS)
    def create(self, caller: str, era: str) -> None:
        client = self.clients[caller, era]
        options = {"task": {}} if era == "legacy" else {}
        before = len(self.jobs)
        reply = self.run(client.call("run", {"owner": caller, "era": era}, **options))
        self.sound(reply, era)
        job = self.jobs[before]
        job.task_id = (reply.result["task"] if era == "legacy" else reply.result)["taskId"]

    @precondition(lambda self: self.jobs)
    @rule(place=PLACES)
    def look(self, place: int) -> None:
        job = self.jobs[place % len(self.jobs)]
        self.clock.advance(_FRESH_MS)
        reply = self.run(self.clients[job.owner, job.era].tasks("get", job.task_id))
        self.sound(reply, job.era)
        shown = reply.result
        assert shown["taskId"] == job.task_id
        assert job.told not in _ENDED or shown["status"] == job.told, "an end has changed"
        assert shown["status"] in {*_ENDED, "working", "input_required"}
        assert shown["status"] not in _ENDED or job.status == shown["status"], (
            "an end is told that never came"
        )
        job.told = shown["status"]

    @precondition(lambda self: self.jobs)
    @rule(place=PLACES, era=ERAS, verb=st.sampled_from(["get", "cancel", "update", "result"]))
    def take(self, place: int, era: str, verb: str) -> None:
        job = self.jobs[place % len(self.jobs)]
        other = self.clients["bob" if job.owner == "alice" else "alice", era]
        if (verb == "update") != (era == "modern") and verb in {"update", "result"}:
            return
        extra = {"inputResponses": {"elicitation-1": accept(stolen=True)}} if verb == "update" else {}
        asked = [self.run(other.tasks(verb, one, id=7, **extra)) for one in (job.task_id, "nobody-has-it")]
        assert asked[0].body == asked[1].body, "that it is there is told"
        assert asked[0].status == asked[1].status
        assert asked[0].json["error"]["message"] == _NOBODYS
        assert asked[0].json["error"]["code"] == -32602

    @rule(caller=CALLERS)
    def list(self, caller: str) -> None:
        self.clock.advance(_FRESH_MS)
        reply = self.run(self.clients[caller, "legacy"].request("tasks/list", {}))
        self.sound(reply, "legacy")
        own = {job.task_id for job in self.jobs if job.owner == caller}
        assert {one["taskId"] for one in reply.result["tasks"]} <= own, "a foreign task is shown"

    @precondition(lambda self: self.jobs)
    @rule(place=PLACES)
    def cancel(self, place: int) -> None:
        job = self.jobs[place % len(self.jobs)]
        reply = self.run(self.clients[job.owner, job.era].tasks("cancel", job.task_id))
        self.sound(reply, job.era, may_fail=job.status in _ENDED)

    @precondition(lambda self: any(job.era == "modern" and job.asked for job in self.jobs))
    @rule(twice=st.booleans())
    def answer(self, twice: bool) -> None:  # noqa: FBT001 - hypothesis names its arguments
        job = next(job for job in self.jobs if job.era == "modern" and job.asked)
        client = self.clients[job.owner, "modern"]
        self.clock.advance(_FRESH_MS)
        shown = self.run(client.tasks("get", job.task_id))
        self.sound(shown, "modern")
        responses = {key: accept(ok=True) for key in shown.result.get("inputRequests", {})}
        for _ in range(1 + twice):
            if responses:
                self.sound(self.run(client.tasks("update", job.task_id, inputResponses=responses)), "modern")

    @rule(caller=CALLERS, era=ERAS, body=GARBAGE)
    def garbage(self, caller: str, era: str, body: bytes) -> None:
        client = self.clients[caller, era]
        reply = self.run(client.send(body, headers={**client.own_headers(None), **client.headers}))
        self.sound(reply, era, may_fail=True)

    @rule(caller=CALLERS, era=ERAS, name=NAMES, value=VALUES)
    def odd_header(self, caller: str, era: str, name: str, value: str) -> None:
        reply = self.run(self.clients[caller, era].call("plain", {}, headers={name: value}))
        self.sound(reply, era, may_fail=True)

    # what befalls them

    @precondition(lambda self: any(job.status == "working" for job in self.jobs))
    @rule(place=PLACES, status=st.sampled_from(["completed", "failed", "cancelled"]))
    def end(self, place: int, status: str) -> None:
        open_jobs = [job for job in self.jobs if job.status == "working"]
        job = open_jobs[place % len(open_jobs)]
        job.status = status
        job.ended.set()

    @rule()
    def restart(self) -> None:
        self.run(self._restart())

    async def _restart(self) -> None:
        await self.inner.aclose()
        self.inner = AsyncExitStack()
        await self._start()

    @rule(ms=st.sampled_from([10, 1_000, 20_000]))
    def wait(self, ms: int) -> None:
        self.clock.advance(ms)

    @rule(caller=CALLERS)
    def reconnect(self, caller: str) -> None:
        client = self.clients[caller, "legacy"]
        assert isinstance(client, LegacyClient)
        self.run(self._seat(client))

    # what always holds

    @invariant()
    def nothing_is_answered_twice(self) -> None:
        assert all(count == 1 for count in self.answers.values()), "an answer reached the server twice"

    @invariant()
    def no_key_crosses(self) -> None:
        for seen in self.server.requests:
            self.own_era(seen)
        self.server.requests.clear()

    def own_era(self, seen: Seen) -> None:
        """Hold that a request to the server is of its era alone."""
        raise NotImplementedError

    def sound(self, reply: Reply, era: str, *, may_fail: bool = False) -> None:
        """Hold that an answer is one, of its client's era, and no internal error."""
        assert b"internal error of the shim" not in reply.body, reply.body
        assert reply.status not in {500, 502, 504}, (reply.status, reply.body)
        if may_fail and (not reply.body or reply.status >= 400 or "error" in reply.json):
            return
        assert reply.status in {200, 202}, (reply.status, reply.body)
        if not reply.body:
            return
        result = reply.json["result"]
        meta = result.get("_meta") or {}
        if era == "modern":
            assert "resultType" in result
            assert not {"ttl", "pollInterval", "task"} & set(result), "a key of the old era is told"
            assert "io.modelcontextprotocol/related-task" not in meta
        else:
            assert not _OF_THE_NEW & set(result), "a key of the new era is told"
            assert not any("protocolVersion" in key or "serverInfo" in key for key in meta)


class OldServer(Conversation):
    """In front of a server of the old API, whose questions come on streams."""

    dialect = "experimental"
    sessions = True

    def script(self, server: Scripted) -> None:
        server.on("tools/list", TOOLS)
        server.on("tools/call", self._call)
        server.on("tasks/get", self._get)
        server.on("tasks/result", self._result)
        server.on("tasks/cancel", self._cancel)
        server.on("tasks/list", {"tasks": []})
        server.response_answer = self._response

    def _call(self, seen: Seen) -> Scriptable:
        if "task" not in seen.params:
            return text("plain")
        return {"task": task(self.made(seen).upstream_id)}

    def _get(self, seen: Seen) -> Scriptable:
        job = self.named(seen)
        return Error(-32602, _NOBODYS) if job is None else task(job.upstream_id, job.status)

    async def _result(self, seen: Seen) -> Scriptable:
        job = self.named(seen)
        if job is None:
            return Error(-32602, _NOBODYS)
        await job.ended.wait()
        return text(job.upstream_id) if job.status == "completed" else Error(-32000, job.status)

    def _cancel(self, seen: Seen) -> Scriptable:
        job = self.named(seen)
        if job is None or job.status in _ENDED:
            return Error(-32602, "Cannot cancel task")
        job.status = "cancelled"
        job.ended.set()
        return task(job.upstream_id, "cancelled")

    def _response(self, seen: Seen) -> Scriptable:
        self.answered(str(seen.id))
        return Raw(b"", 202, {})

    def own_era(self, seen: Seen) -> None:
        said = json.dumps(seen.message) if seen.message else ""
        for key in ("protocolVersion", "clientInfo", "clientCapabilities"):
            assert f"io.modelcontextprotocol/{key}" not in said, "a key of the new era reaches the old server"
        assert "inputResponses" not in said
        assert seen.method not in {"server/discover", "tasks/update", "subscriptions/listen"}


class NewServer(Conversation):
    """In front of a server of the new API, which shows its questions in the task."""

    dialect = "sep-2663"
    sessions = False

    def script(self, server: Scripted) -> None:
        server.on("server/discover", DISCOVER)
        server.on("tools/list", NEW_TOOLS)
        server.on("tools/call", self._call)
        server.on("tasks/get", self._get)
        server.on("tasks/cancel", self._cancel)
        server.on("tasks/update", self._update)

    def _call(self, seen: Seen) -> Scriptable:
        if seen.params["name"] != "run":
            return {"resultType": "complete", **text("plain")}
        return made(self.made(seen).upstream_id)

    def _get(self, seen: Seen) -> Scriptable:
        job = self.named(seen)
        if job is None:
            return Error(-32602, _NOBODYS)
        brings: dict[str, Any] = {}
        if job.status == "completed":
            brings = {"result": text(job.upstream_id)}
        elif job.status == "failed":
            brings = {"error": {"code": -32000, "message": "failed"}}
        elif job.status == "input_required":
            brings = {"inputRequests": {key: elicitation(key) for key in job.asked}}
        return seen_as(job.upstream_id, job.status, **brings)

    def _cancel(self, seen: Seen) -> Scriptable:
        job = self.named(seen)
        if job is not None and job.status not in _ENDED:
            job.status = "cancelled"
        return ACK

    def _update(self, seen: Seen) -> Scriptable:
        for key in seen.params["inputResponses"]:
            self.answered(key)
        return ACK

    @precondition(lambda self: any(job.status in {"working", "input_required"} for job in self.jobs))
    @rule(place=PLACES)
    def ask(self, place: int) -> None:
        open_jobs = [job for job in self.jobs if job.status in {"working", "input_required"}]
        job = open_jobs[place % len(open_jobs)]
        job.asked.append(f"q-{next(self.count)}")
        job.status = "input_required"

    def own_era(self, seen: Seen) -> None:
        assert seen.session is None, "a session reaches the new server"
        assert seen.method not in {"initialize", "tasks/result", "tasks/list", "notifications/initialized"}
        if isinstance(seen.message, dict) and isinstance(seen.params, dict):
            assert "task" not in seen.params, "a key of the old era reaches the new server"
