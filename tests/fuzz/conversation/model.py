"""What a conversation is held against: each task as its server has it, and what its owner may be told of it.

Every name in it is one of its kind in the whole conversation, `up-1`, `q-2`, so that a message which shows a
foreign one is known by its bytes alone.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from tests.corners.ml import HandClock

ENDED = frozenset(("completed", "failed", "cancelled"))
CALLERS = ("alice", "bob")
_NAMES = re.compile(rb'"((?:up|q)-[0-9]+)"')


class Wrong(AssertionError):
    """The shim broke a rule of the conversation."""

    found: ClassVar[list["Wrong"]] = []
    """All of them, in order: what asks again how it came about may not see it again."""

    def __init__(self, fault: str) -> None:
        super().__init__(fault)
        self.found.append(self)


def hold(holds: object, fault: str, *about: object) -> None:
    """Raise Wrong with what it is about, unless something holds."""
    if not holds:
        raise wrong(fault, *about)


def wrong(fault: str, *about: object) -> Wrong:
    """Give what is wrong, with what it is about."""
    return Wrong(" ".join([fault, *map(str, about)]))


@dataclass(eq=False)
class Question:
    """One question of a task, or of a plain call (`job` is None)."""

    name: str
    owner: str
    job: "Job | None" = None
    key: Any = None
    """Its id or key at the server; None until it was written to somebody."""
    session: str | None = None
    """The server's session that it was asked on."""
    ways: dict[tuple[str, str], Any] = field(default_factory=dict)
    """The ways to answer it that were shown: a key by "update", or a request's id by seat and session."""
    given: bool = False
    """Whether a client was told that its answer is taken."""
    reached: int = 0
    """How often an answer reached the server."""
    reached_at: int = 0
    """How often the shim had been killed when one did last."""

    @property
    def is_open(self) -> bool:
        """Whether the server still waits for the answer."""
        return not self.reached and (self.job is None or self.job.is_open)


@dataclass(eq=False)
class Job:
    """A task as its server has it, and what its owner was told."""

    owner: str
    seat: str
    name: str
    """The id that its server knows it by."""
    made_ms: int
    ttl_ms: int | None = None
    session: str | None = None
    credential: str | None = None
    handle: str = ""
    """The id its owner has; empty until the handle was given."""
    status: str = "working"
    is_error: bool = False
    """Whether it ends with a tool's error for a result."""
    gone: bool = False
    """Whether its server has forgotten it."""
    cancel_asked: bool = False
    questions: list[Question] = field(default_factory=list)
    had: set[str] = field(default_factory=lambda: {"working"})
    """Every status it has had."""
    end: str | None = None
    """The end that its owner was told: it never changes."""
    is_passed: bool = False
    """Whether that was the server's own answer, which passed: an end is written down with its payload."""
    expired: bool = False
    """Whether its owner was told that its time is over."""

    @property
    def is_open(self) -> bool:
        """Whether the server has it and works on it."""
        return self.status not in ENDED and not self.gone

    def is_over(self, now_ms: int) -> bool:
        """Whether its ttl has passed."""
        return self.ttl_ms is not None and now_ms > self.made_ms + self.ttl_ms

    def becomes(self, status: str) -> None:
        """Let the server go on with it."""
        self.status = status
        self.had.add(status)

    def told(self, status: str, where: str, *, passed: bool = False) -> None:
        """Take it that its owner was told a status; `passed` as the server's own answer."""
        if self.is_passed and self.gone and not passed and status in ENDED:
            self.end = status  # its payload went with the server
        if status in ENDED:
            self.is_passed = passed and (self.end is None or self.is_passed)
        if self.end is not None:
            hold(status == self.end, "an end has changed:", self.handle, self.end, "->", status, where)
        if status in ENDED:
            came = status in self.may_end()
            hold(came, "an end is told that never came:", self.handle, status, where)
            self.end = status
        else:
            hold(status in self.had, "a state is told that never was:", self.handle, status, where)

    def may_end(self) -> set[str]:
        """Give the ends that may be told of it."""
        ends = {self.status} & ENDED
        if self.cancel_asked:
            ends.add("cancelled")
        if self.gone:
            ends.add("failed")
        return ends


class World:
    """All that there is in one conversation."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.jobs: list[Job] = []
        self.questions: list[Question] = []
        self.kills = 0
        """How often the shim was killed."""
        self._count = itertools.count(1)

    def new_name(self, kind: str) -> str:
        """Make a name that nothing else has."""
        return f"{kind}-{next(self._count)}"

    def add_job(self, owner: str, seat: str, ttl_ms: int | None, **fields: Any) -> Job:
        """Let the server make a task."""
        job = Job(owner, seat, self.new_name("up"), self.clock.now_ms(), ttl_ms, **fields)
        self.jobs.append(job)
        return job

    def add_question(self, owner: str, job: Job | None = None, **fields: Any) -> Question:
        """Let the server ask something."""
        question = Question(self.new_name("q"), owner, job, **fields)
        self.questions.append(question)
        if job is not None:
            job.questions.append(question)
            job.becomes("input_required")
        return question

    def at_server(self, name: object) -> Job | None:
        """Give the task that the server knows by an id; one whose time is over it forgets."""
        job = next((one for one in self.jobs if one.name == name), None)
        if job is not None and job.is_over(self.clock.now_ms()):
            job.gone = True
        return None if job is None or job.gone else job

    def handed_out(self, owner: str | None = None) -> list[Job]:
        """Give the tasks whose handle was given, of one owner or of all, oldest first."""
        return [one for one in self.jobs if one.handle and owner in {None, one.owner}]

    def by_handle(self, handle: object) -> Job:
        """Give the task a handle stands for."""
        job = next((one for one in self.jobs if handle and one.handle == handle), None)
        hold(job, "a handle that nobody was given:", handle)
        assert job is not None
        return job

    def question(self, name: object) -> Question:
        """Give a question by its name."""
        found = next((one for one in self.questions if one.name == name), None)
        hold(found, "a question that nobody asked:", name)
        assert found is not None
        return found

    def answered(self, question: Question, content: Any) -> None:
        """Take it that an answer reached the server where the question was asked."""
        question.reached += 1
        again = self.kills > question.reached_at  # a shim that was killed cannot know that it had arrived
        question.reached_at = self.kills
        hold(question.reached == 1 or again, "an answer reached the server twice:", question.name)
        quoted = content.get("to") if isinstance(content, dict) else None
        hold(quoted in {None, question.name}, "an answer to", quoted, "reached", question.name)
        job = question.job
        if job is not None and job.is_open and not any(one.is_open for one in job.questions):
            job.becomes("working")

    def foreign_names(self, body: bytes, caller: str) -> Iterator[str]:
        """Give what stands in a message that is another caller's."""
        named: list[Job | Question] = [*self.jobs, *self.questions]
        for name in {found.decode() for found in _NAMES.findall(body)}:
            for one in named:
                if one.owner != caller and name == one.name:
                    yield name
        for job in self.jobs:
            if job.owner != caller and job.handle and f'"{job.handle}"'.encode() in body:
                yield job.handle
