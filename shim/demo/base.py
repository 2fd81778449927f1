"""What the two demo servers share: the tools, and the tasks made of them, which belong to sessions."""

import uuid
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from shim.demo.endpoint import Endpoint, Session, object_in
from shim.demo.jobs import Job, Json, Question, RpcError
from shim.demo.tools import TOOLS, Tool
from shim.wire.errors import INVALID_PARAMS

NOT_FOUND = "Failed to retrieve task: Task not found"


class DemoServer(Endpoint):
    """A legacy server with the demo's tools; a dialect adds its methods and says how a task looks."""

    def __init__(
        self, *, page_size: int = 10, poll_interval_ms: int | None = 500,
        tools: Mapping[str, Tool] = TOOLS, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(**options)
        self.tools = tools
        self.page_size, self.poll_interval_ms = page_size, poll_interval_ms
        self.methods |= {"ping": self._ping, "tools/list": self._tools_list, "tools/call": self.tools_call}

    # what a dialect says

    @abstractmethod
    def show(self, job: Job) -> Json:
        """Give the job as a task object of this dialect."""

    @abstractmethod
    def listing(self, tool: Tool) -> Json:
        """Give the tools/list entry."""

    async def tools_call(self, session: Session, params: Json) -> Json | Job:
        """Serve a plain tools/call: quick tools at once, the others on a stream of their own."""
        tool = self.find_tool(params)
        job = self.make_job(session, None, is_task=False)
        arguments = object_in(params, "arguments")
        job.start(lambda job: tool.run(job, arguments))
        if tool.support == "forbidden":
            await job.wait()
            return self.outcome(job)
        return job

    # jobs

    def create(self, session: Session, tool: Tool, arguments: Json, ttl_ms: int | None) -> Job:
        """Start a task that belongs to the session."""
        job = self.make_job(session, ttl_ms, is_task=True)
        session.jobs[job.task_id] = job
        job.start(lambda job: tool.run(job, arguments))
        return job

    def find(self, session: Session, params: Json) -> Job:
        """Give the session's own job that params.taskId names. Raises RpcError -32602."""
        task_id = params.get("taskId")
        if not isinstance(task_id, str):
            raise RpcError(INVALID_PARAMS, "taskId must be a string")
        job = session.jobs.get(task_id)
        if job is not None and job.expired:
            job.cancel()
            del session.jobs[task_id]
            job = None
        if job is None:
            raise RpcError(INVALID_PARAMS, NOT_FOUND)
        return job

    async def task_get(self, session: Session, params: Json) -> Json:
        """Show one task."""
        return self.show(self.find(session, params))

    async def task_result(self, session: Session, params: Json) -> Job:
        """Wait for a task's result."""
        return self.find(session, params)

    async def task_cancel(self, session: Session, params: Json) -> Json:
        """Cancel a task that has not ended. Raises RpcError -32602."""
        job = self.find(session, params)
        if job.ended:
            raise RpcError(INVALID_PARAMS, f"Cannot cancel a task that is already {job.state}")
        job.cancel()
        return self.show(job)

    async def task_list(self, session: Session, params: Json) -> Json:
        """List the session's tasks, newest first, in pages. Raises RpcError -32602 for a bad cursor."""
        ids = list(reversed(session.jobs))
        start = 0
        if (cursor := params.get("cursor")) is not None:
            if cursor not in session.jobs:
                raise RpcError(INVALID_PARAMS, "Unknown cursor")
            start = ids.index(cursor) + 1
        page = ids[start : start + self.page_size]
        more = {"nextCursor": page[-1]} if start + len(page) < len(ids) else {}
        return {"tasks": [self.show(session.jobs[task_id]) for task_id in page], **more}

    def find_tool(self, params: Json) -> Tool:
        """Give the tool that params.name says. Raises RpcError -32602."""
        tool = self.tools.get(str(params.get("name")))
        if tool is None:
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {params.get('name')}")
        return tool

    def make_job(self, session: Session, ttl_ms: int | None, *, is_task: bool) -> Job:
        """Make a job whose questions go to the session's client."""

        def ask(job: Job, question: Question) -> None:
            session.questions[question.id] = question
            question.answer.add_done_callback(lambda _: session.questions.pop(question.id, None))
            if self.sessions:
                self.send_question(session, job, question)

        return Job(
            task_id=str(uuid.uuid4()),
            is_task=is_task,
            ttl_ms=ttl_ms,
            clock=self.clock,
            can_ask=session.can_ask and (is_task or self.sessions),
            on_change=lambda job: self.changed(session, job),
            on_question=ask,
        )

    async def _ping(self, session: Session, params: Json) -> Json:
        del session, params
        return {}

    async def _tools_list(self, session: Session, params: Json) -> Json:
        del session, params
        return {"tools": [self.listing(tool) for tool in self.tools.values()]}


def read_ttl(holder: Json) -> int | None:
    """Give the ttl that was asked for, None for unlimited. Raises RpcError -32602."""
    value = holder.get("ttl")
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise RpcError(INVALID_PARAMS, "ttl must be a number")
    return None if value is None else int(value)
