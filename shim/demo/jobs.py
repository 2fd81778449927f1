"""What the demo servers run: jobs, and the questions they ask."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from shim.clock import Clock

Json = dict[str, Any]
State = Literal["working", "input_required", "completed", "failed", "cancelled"]

ENDED: frozenset[State] = frozenset({"completed", "failed", "cancelled"})


class RpcError(Exception):
    """Answered as a JSON-RPC error."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.body: Json = {"code": code, "message": message, **({} if data is None else {"data": data})}


@dataclass(eq=False)
class Outbox:
    """Messages on their way to one open stream; None ends it."""

    queue: asyncio.Queue[Json | None] = field(default_factory=asyncio.Queue)

    def send(self, message: Json | None) -> None:
        """Put a message on the stream."""
        self.queue.put_nowait(message)


@dataclass(eq=False)
class Question:
    """A request to the client that a job waits for. `id` is its JSON-RPC id and its key."""

    id: str
    params: Json
    answer: asyncio.Future[Json]
    method: str = "elicitation/create"


@dataclass(eq=False)
class Job:
    """One run of a tool, as a task or for a plain call; the callbacks are told what happens to it."""

    task_id: str
    is_task: bool
    ttl_ms: int | None
    clock: Clock
    can_ask: bool
    on_change: Callable[["Job"], None]
    on_question: Callable[["Job", Question], None]
    state: State = "working"
    message: str | None = None
    created_ms: int = field(init=False)
    updated_ms: int = field(init=False)
    result: Json | None = None
    error: RpcError | None = None
    questions: dict[str, Question] = field(default_factory=dict)
    readers: list[Outbox] = field(default_factory=list)
    started: bool = False
    _asked: int = 0
    _runner: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        self.created_ms = self.updated_ms = self.clock.now_ms()

    @property
    def ended(self) -> bool:
        """Whether the job is in a state it never leaves."""
        return self.state in ENDED

    def start(self, work: Callable[["Job"], Awaitable[Json]]) -> None:
        """Run the work in the background."""
        self._runner = asyncio.create_task(self._run(work))

    @property
    def expired(self) -> bool:
        """Whether the ttl is over."""
        return self.ttl_ms is not None and self.clock.now_ms() > self.created_ms + self.ttl_ms

    async def pause(self, seconds: float) -> None:
        """Let time pass."""
        await self.clock.sleep_ms(seconds * 1000)

    async def wait(self) -> None:
        """Wait until the work is over, however it ends."""
        if self._runner is not None:
            await asyncio.wait([self._runner])

    def say(self, message: str) -> None:
        """Tell how far the work is."""
        self.move("working", message)

    async def ask(self, message: str, schema: Json) -> Json:
        """Ask the user; gives an ElicitResult. A client that cannot be asked has declined."""
        if not self.can_ask:
            return {"action": "decline"}
        self._asked += 1
        future: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        params = {"mode": "form", "message": message, "requestedSchema": schema}
        question = Question(f"{self.task_id}-{self._asked}", params, future)
        self.questions[question.id] = question
        self.move("input_required", message)
        self.on_question(self, question)
        try:
            answer = await future
        finally:
            del self.questions[question.id]
        self.move("working", "got an answer")
        return answer

    def cancel(self) -> None:
        """Stop the work; the job is cancelled from now on."""
        if not self.ended:
            self.move("cancelled", "The task was cancelled by request.")
        if self._runner is not None:
            self._runner.cancel()

    def move(self, state: State, message: str | None) -> None:
        """Change the state, unless the job has ended; readers are let go at the end."""
        if self.ended:
            return
        self.state, self.message, self.updated_ms = state, message, self.clock.now_ms()
        self.on_change(self)
        if state in ENDED:
            for reader in self.readers:
                reader.send(None)

    async def _run(self, work: Callable[["Job"], Awaitable[Json]]) -> None:
        self.started = True
        try:
            self.result = await work(self)
        except RpcError as exc:
            self.error = exc
            self.move("failed", str(exc))
            return
        if self.result.get("isError"):  # the 2025-11-25 text counts these as failed
            self.move("failed", self.result["content"][0]["text"])
        else:
            self.move("completed", None)
