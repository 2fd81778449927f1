"""Clients of both eras at work on one server, what they were told, and whether it still holds."""

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.client import LegacyClient, ModernClient

ANN = {"Authorization": "Bearer ann"}
ENDED = {"completed", "failed", "cancelled"}
YES = {"action": "accept", "content": {"confirm": True}}
DEPLOYED = {"deployed": True}
KEY = "elicitation-1"
"""What the one question of a deployment is shown under."""


@dataclass
class Job:
    """What a client knows of one of its tasks."""

    session: str | None
    """The session of the legacy client that made it; None for a modern one's."""
    asked: str | None = None
    """The question that was seen: its key, or for a legacy client its request id."""
    sent: Literal["answer", "cancel"] | None = None
    """What the client sent last."""
    acknowledged: bool = False
    """Whether the shim took that."""

    @property
    def settled(self) -> str | None:
        """The end that the client was promised."""
        if not self.acknowledged:
            return None
        return "completed" if self.sent == "answer" else "cancelled"


@dataclass
class Told:
    """All that the clients of one ledger were told; `enough` is set after `kill_after` more answers."""

    dice: random.Random
    jobs: dict[str, Job] = field(default_factory=dict)
    sessions: dict[int, str] = field(default_factory=dict)
    enough: asyncio.Event = field(default_factory=asyncio.Event)
    kill_after: int = 0

    def heard(self) -> None:
        """Count an answer."""
        self.kill_after -= 1
        if self.kill_after <= 0:
            self.enough.set()


async def work_modern(url: str, told: Told) -> None:
    """Make tasks, look at them, then answer, cancel or leave them, until the shim is gone."""
    async with ModernClient(url, headers=ANN) as client:
        while True:
            task_id = (await client.call("deploy", {"seconds": 0})).result["taskId"]
            job = told.jobs[task_id] = Job(session=None)
            told.heard()
            while not (asked := (await client.tasks("get", task_id)).result.get("inputRequests")):
                told.heard()
            (job.asked,) = asked
            told.heard()
            job.sent = told.dice.choice(("answer", "cancel", None))
            if job.sent == "answer":
                reply = await client.tasks("update", task_id, inputResponses={KEY: YES})
            elif job.sent == "cancel":
                reply = await client.tasks("cancel", task_id)
            else:
                continue
            assert reply.result == {"resultType": "complete"}
            job.acknowledged = True
            told.heard()


async def work_legacy(url: str, told: Told, number: int) -> None:
    """Do the same over a session, the one of the last run if there was one."""
    async with session(url, told.sessions.get(number)) as client:
        if number not in told.sessions:
            reply = await client.initialize()
            told.sessions[number] = reply.headers["Mcp-Session-Id"]
        while True:
            created = await client.call("deploy", {"seconds": 0}, task={})
            task_id = created.result["task"]["taskId"]
            job = told.jobs[task_id] = Job(client.session)
            told.heard()
            async with client.stream("tasks/result", {"taskId": task_id}) as stream:
                job.asked = (await stream.message())["id"]
                told.heard()
                job.sent = told.dice.choice(("answer", "cancel", None))
                if job.sent == "answer":
                    assert (await client.respond(job.asked, YES)).status == 202
                    job.acknowledged = True
                    told.heard()
                    assert (await stream.message())["result"]["structuredContent"] == DEPLOYED
                elif job.sent == "cancel":
                    assert (await client.tasks("cancel", task_id)).result["status"] == "cancelled"
                    job.acknowledged = True
                told.heard()


def session(url: str, session_id: str | None) -> LegacyClient:
    """Give a legacy client, on a session that it has already or on none."""
    client = LegacyClient(url, headers=ANN)
    client.session, client.initialized = session_id, session_id is not None
    return client


async def hold(url: str, told: Told) -> None:
    """See that all of it still holds, in both eras; then end most of what is open."""
    async with ModernClient(url, headers=ANN) as modern:
        for task_id, job in list(told.jobs.items()):
            await _hold_modern(modern, task_id, job)
            if job.session is not None:
                async with session(url, job.session) as legacy:
                    await _hold_legacy(legacy, task_id, job)
                    if job.settled is None and told.dice.random() < 0.8:
                        await _end_legacy(legacy, task_id, job)
            elif job.settled is None and told.dice.random() < 0.8:
                await _end_modern(modern, task_id, job)
        if told.sessions:
            async with session(url, next(iter(told.sessions.values()))) as legacy:
                assert told.jobs.keys() <= await _listed(legacy)


async def _hold_modern(client: ModernClient, task_id: str, job: Job) -> None:
    seen = (await client.tasks("get", task_id)).result
    if job.settled is not None:
        while seen["status"] not in ENDED:
            seen = (await client.tasks("get", task_id)).result
        assert seen["status"] == job.settled
        assert job.settled != "completed" or seen["result"]["structuredContent"] == DEPLOYED
    elif job.asked is not None:
        while seen["status"] == "working":  # an answer that was sent may have got through, or not
            seen = (await client.tasks("get", task_id)).result
        if seen["status"] == "input_required":
            assert list(seen["inputRequests"]) == [KEY]
        else:
            assert (job.sent, seen["status"]) in {("answer", "completed"), ("cancel", "cancelled")}


async def _hold_legacy(client: LegacyClient, task_id: str, job: Job) -> None:
    seen = (await client.tasks("get", task_id)).result
    assert seen["taskId"] == task_id
    if job.settled is not None:
        assert seen["status"] == job.settled
    if job.settled == "completed":
        assert (await client.tasks("result", task_id)).result["structuredContent"] == DEPLOYED


async def _end_modern(client: ModernClient, task_id: str, job: Job) -> None:
    while not (seen := (await client.tasks("get", task_id)).result).get("inputRequests"):
        if seen["status"] in ENDED:
            break
    await client.tasks("update", task_id, inputResponses={KEY: YES})
    while (seen := (await client.tasks("get", task_id)).result)["status"] not in ENDED:
        pass
    _took(job, seen)


async def _end_legacy(client: LegacyClient, task_id: str, job: Job) -> None:
    if job.asked is not None:
        await client.respond(job.asked, YES)
    else:
        await client.tasks("cancel", task_id)
    while (seen := (await client.tasks("get", task_id)).result)["status"] not in ENDED:
        pass
    _took(job, seen)


def _took(job: Job, seen: dict[str, Any]) -> None:
    """Note how a task ended that nothing had been promised for."""
    assert seen["status"] in {"completed", "cancelled"}
    job.sent, job.acknowledged = ("answer" if seen["status"] == "completed" else "cancel"), True


async def _listed(client: LegacyClient) -> set[str]:
    found: set[str] = set()
    cursor: dict[str, Any] = {}
    while True:
        page = (await client.request("tasks/list", cursor)).result
        found |= {task["taskId"] for task in page["tasks"]}
        if "nextCursor" not in page:
            return found
        cursor = {"cursor": page["nextCursor"]}
