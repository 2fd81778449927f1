"""A server of the old API: tasks live in sessions, questions come on streams."""

import asyncio
from dataclasses import dataclass
from typing import Any

from tests.corners.ml import elicit
from tests.fuzz.conversation.model import Job, Question, World, hold
from tests.fuzz.conversation.peer import NOBODYS, TOOLS, Peer, content_of, credential, has_ended, said
from tests.scripted import Error, Raw, Scriptable, Scripted, Seen, Stream, task, text

_TAKEN = Raw(b"", 202, {})


@dataclass(eq=False)
class _Waiting:
    """An open tasks/result."""

    job: Job
    seen: Seen
    stream: Stream


class OldPeer(Peer):
    """Speaks `experimental`.

    `bound`: a task is known in its session only, and goes with it. `on_get`: it asks on the session's own
    stream where that is open, and on an open tasks/result else, once in either case.
    """

    dialect = "experimental"
    sessions = True
    names_tasks = True
    """Whether a question says which task it is of."""

    def __init__(self, world: World, server: Scripted, *, bound: bool, on_get: bool) -> None:
        self.bound = bound
        self.on_get = on_get
        self.credentials: dict[str | None, str | None] = {}
        """Of each session, the credential that it was opened with."""
        self._waiting: list[_Waiting] = []
        self._gets: dict[str, Stream] = {}
        self._calls: dict[str, asyncio.Event] = {}
        """Of each question of a plain call, what is set once the call goes on."""
        super().__init__(world, server)

    def script(self) -> None:
        """Let the scripted server answer off the model."""
        on = self.on
        on("initialize", self._initialize)
        on("tools/list", TOOLS)
        on("tools/call", self._call)
        on("tasks/get", self._get)
        on("tasks/result", self._result)
        on("tasks/cancel", self._cancel)
        on("notifications/cancelled", self._called_off)
        self.server.response_answer = self.noting(self._response)
        self.server.get_answer = self._open_get

    # -- what it does of itself ------------------------------------------------------------------

    def ask(self, job: Job) -> Question:
        """Ask something in a task; what nobody listens to waits for a tasks/result."""
        question = self.world.add_question(job.owner, job, session=job.session)
        self._announce(job)
        get = self._gets.get(job.session or "")
        if self.on_get and get is not None and get.is_open:
            self._put(question, get, job.session)
        else:
            self._put_all(job)
        return question

    def end(self, job: Job, status: str) -> None:
        """End a task, and whoever waits for it gets its payload."""
        super().end(job, status)
        self._announce(job)
        for one in [one for one in self._waiting if one.job is job]:
            self._waiting.remove(one)
            self.soon(self._settle(one))

    def forget(self, job: Job) -> None:
        """Know nothing of a task any more."""
        super().forget(job)
        for one in [one for one in self._waiting if one.job is job]:
            self._waiting.remove(one)
            self.soon(one.stream.error(NOBODYS.code, NOBODYS.message))

    def lose(self, *sessions: str) -> None:
        """Forget sessions: their streams break off, and their tasks go where they are bound to them."""
        for session in sessions:
            self.server.forget(session)
            if (get := self._gets.pop(session, None)) is not None and get.is_open:
                self.soon(get.abort())
            for one in [one for one in self._waiting if one.seen.session == session]:
                self._waiting.remove(one)
                self.soon(one.stream.abort())
            for question in self.world.questions:
                if question.job is None and question.session == session:
                    self._calls[question.name].set()
            if self.bound:
                for job in self.world.jobs:
                    job.gone = job.gone or job.session == session

    def _announce(self, job: Job) -> None:
        """Tell a task's session of its state, as some servers do."""
        get = self._gets.get(job.session or "")
        if self.on_get and get is not None and get.is_open:
            params = self._shown(job)
            self.soon(get.send({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params}))

    # -- what it answers -------------------------------------------------------------------------

    def named(self, seen: Seen) -> Job | None:
        """Give the task that a request is about, if its session knows it."""
        job = super().named(seen)
        return None if job is not None and self.bound and seen.session != job.session else job

    def _shown(self, job: Job) -> dict[str, Any]:
        return task(job.name, job.status, ttl=job.ttl_ms)

    def _initialize(self, seen: Seen) -> Scriptable:
        answer = self.server.initialize(seen)
        self.credentials[self.server.sessions[-1]] = credential(seen)
        return answer

    async def _call(self, seen: Seen) -> Scriptable:
        if "task" in seen.params:
            job = self.made(seen, seen.params)
            return {"task": self._shown(job)}
        if seen.params["name"] == "wonder":
            return self._wonder(seen)
        return text("plain")

    def _wonder(self, seen: Seen) -> Scriptable:
        """Ask in the middle of a plain call."""
        owner = seen.params["arguments"]["owner"]
        question = self.world.add_question(owner, session=seen.session)
        stream, answered = Stream(), asyncio.Event()
        self._calls[question.name] = answered
        question.key = f"call-{question.name}"

        async def talk() -> None:
            await stream.send(elicit(question.key, message=question.name))
            await answered.wait()
            if question.reached:
                await stream.result(text(question.name))
            else:
                await stream.abort()

        self.soon(talk())
        return stream

    def _get(self, seen: Seen) -> Scriptable:
        job = self.named(seen)
        return NOBODYS if job is None else self._shown(job)

    async def _result(self, seen: Seen) -> Scriptable:
        job = self.named(seen)
        if job is None:
            return NOBODYS
        if has_ended(job):
            return self.payload(job)
        waiting = _Waiting(job, seen, Stream())
        self._waiting.append(waiting)
        self._put_all(job)
        return waiting.stream

    def _put_all(self, job: Job) -> None:
        """Ask what was not asked yet, where someone waits for the task."""
        waiting = next((one for one in self._waiting if one.job is job and not one.stream.is_over), None)
        if waiting is not None:
            for question in job.questions:
                if question.key is None and question.is_open:
                    self._put(question, waiting.stream, waiting.seen.session)

    def _put(self, question: Question, stream: Stream, session: str | None) -> None:
        assert question.job is not None
        question.key = f"task-{question.name}"
        question.session = session
        about = question.job.name if self.names_tasks else None
        self.soon(stream.send(elicit(question.key, about, question.name)))

    async def _settle(self, waiting: _Waiting) -> None:
        payload = self.payload(waiting.job)
        if isinstance(payload, dict):
            await waiting.stream.result(payload)
        else:
            assert isinstance(payload, Error)
            await waiting.stream.error(payload.code, payload.message)

    def _called_off(self, seen: Seen) -> Scriptable:
        for one in [one for one in self._waiting if _is_of(one.seen, seen)]:
            self._waiting.remove(one)
            self.soon(one.stream.error(0, "Request cancelled"))
        return _TAKEN

    def _cancel(self, seen: Seen) -> Scriptable:
        job = self.named(seen)
        if job is None:
            return NOBODYS
        if has_ended(job):
            return Error(-32602, "Cannot cancel task")
        self.end(job, "cancelled")
        return self._shown(job)

    def _open_get(self, seen: Seen) -> Scriptable:
        stream = Stream()
        self._gets[seen.session or ""] = stream
        return stream

    def _response(self, seen: Seen) -> Scriptable:
        for question in self.world.questions:
            if question.key is not None and question.key == seen.id and question.session == seen.session:
                if question.job is None:
                    self._calls[question.name].set()
                self.world.answered(question, content_of(seen.message.get("result")))
        return _TAKEN

    def of_this_api(self, seen: Seen) -> None:
        """Hold that a request is of the server's API alone, and on a session of whose it is."""
        body = said(seen)
        for key in ("protocolVersion", "clientInfo", "clientCapabilities"):
            hold(
                f"io.modelcontextprotocol/{key}" not in body,
                "a key of the new API reaches the old server:",
                key,
            )
        hold("inputResponses" not in body, "answers of the new API reach the old server")
        hold(
            seen.method not in {"server/discover", "tasks/update", "subscriptions/listen"},
            "a method of the new API reaches the old server:", seen.method,
        )  # fmt: skip
        if seen.session in self.credentials:
            hold(
                self.credentials[seen.session] == credential(seen),
                "a session is used with a foreign credential:", seen.session, seen.method,
            )  # fmt: skip


def _is_of(asked: Seen, called_off: Seen) -> bool:
    return asked.session == called_off.session and asked.id == called_off.params.get("requestId")
