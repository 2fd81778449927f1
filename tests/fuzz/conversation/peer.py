"""What the servers of a conversation have in common: they live off the model, whatever API they speak."""

import asyncio
import inspect
import json
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar

from tests.fuzz.conversation.model import ENDED, Job, Question, World, Wrong, hold
from tests.scripted import Error, Scriptable, Scripted, Seen, text, tool

NOBODYS = Error(-32602, "Failed to retrieve task: Task not found")
_SUPPORT = {"run": "optional", "must": "required", "plain": "forbidden", "wonder": "forbidden"}
TOOLS = {"tools": [tool(name, support) for name, support in _SUPPORT.items()]}


class Peer:
    """A server, scripted."""

    dialect: ClassVar[str]
    sessions: ClassVar[bool]
    tool_support: ClassVar[dict[str, str]] = {}
    """What the operator has to say of its tools."""

    def __init__(self, world: World, server: Scripted) -> None:
        self.world = world
        self.server = server
        self._work: set[asyncio.Task[None]] = set()
        self._wrong: list[Wrong] = []
        """What was found while a request was answered, where nobody hears of it."""
        self.script()

    def script(self) -> None:
        """Let the scripted server answer off the model."""
        raise NotImplementedError

    def on(self, method: str, answer: Scriptable) -> None:
        """Answer a method; what is found wrong meanwhile is kept for `check`."""
        self.server.on(method, self.noting(answer) if callable(answer) else answer)

    def noting(self, answer: Callable[[Seen], Any]) -> Callable[[Seen], Any]:
        """Give what answers as another does, and keeps what that finds wrong."""

        async def noted(seen: Seen) -> Any:
            try:
                answered = answer(seen)
                return await answered if inspect.isawaitable(answered) else answered
            except Wrong as wrong:
                self._wrong.append(wrong)
                return NOBODYS

        return noted

    def soon(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside what is asked."""
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)

    async def close(self) -> None:
        """Leave all that is under way."""
        for task in list(self._work):
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)

    # -- what becomes of tasks -------------------------------------------------------------------

    def named(self, seen: Seen) -> Job | None:
        """Give the task that a request is about, which is of the credential that it carries."""
        job = self.world.at_server(seen.params.get("taskId"))
        if job is not None:
            hold(
                job.credential == credential(seen),
                "a task was asked for with a foreign credential:",
                job.handle,
            )
        return job

    def made(self, seen: Seen, params: dict[str, Any]) -> Job:
        """Take in a new task; whose it is the call's arguments say."""
        said = params["arguments"]
        return self.world.add_job(
            said["owner"], said["seat"], said["ttl"], session=seen.session, credential=credential(seen)
        )

    def ask(self, job: Job) -> Question:
        """Ask something in a task."""
        raise NotImplementedError

    def end(self, job: Job, status: str) -> None:
        """End a task."""
        job.becomes(status)

    def payload(self, job: Job) -> Scriptable:
        """Give what an ended task brings."""
        if job.status == "completed":
            return text(job.name, **({"isError": True} if job.is_error else {}))
        return Error(-32000, f"{job.status}: {job.name}")

    def forget(self, job: Job) -> None:
        """Know nothing of a task any more."""
        job.gone = True

    def of_this_api(self, seen: Seen) -> None:
        """Hold that a request is of the server's API alone."""
        raise NotImplementedError

    def check(self) -> None:
        """Hold what came since the last check against the API, and against whose it is."""
        if self._wrong:
            raise self._wrong[0]
        for seen in self.server.requests:
            if seen.http_method == "OPTIONS":  # whether it is there is asked for nobody
                continue
            hold(
                credential(seen) is not None,
                "a request without a credential:",
                seen.method or seen.http_method,
            )
            self.of_this_api(seen)
        self.server.requests.clear()


def credential(seen: Seen) -> str | None:
    """Give the credential that a request carries."""
    return seen.headers.get("Authorization")


def content_of(answer: Any) -> Any:
    """Give what an answer to a question says."""
    return answer.get("content") if isinstance(answer, dict) else None


def said(seen: Seen) -> str:
    """Give a request's body as it is written."""
    return json.dumps(seen.message) if seen.message else ""


def has_ended(job: Job) -> bool:
    """Whether a task has come to its end."""
    return job.status in ENDED
