"""The mcp 1.30 client running jobs against a URL; prints a transcript in which only meaning is left.

    python legacy_client.py URL [JOB ...] [--header=NAME=VALUE ...]

Prints {job: {"exchanges": [...], "notifications": [...], "outcome": ...}}. An exchange is a request with its
answer, or a server's request with the client's. Task ids, JSON-RPC ids and times are replaced, and polls that
repeat are told once, so that the same run on two ways to one server can be compared message for message.
"""

import argparse
import asyncio
import contextlib
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import anyio
import httpx
import mcp.types as t
from mcp.client.session import ClientSession
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from mcp.shared.message import SessionMessage

TERMINAL = {"completed", "failed", "cancelled"}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)")
LAST_NOTICE_S = 20.0


class Transcript:
    """What one job sent and received."""

    def __init__(self) -> None:
        self.exchanges: list[dict[str, Any]] = []
        self.notifications: list[dict[str, Any]] = []
        self.task_ids: list[str] = []
        self.news = asyncio.Condition()
        self._open: dict[tuple[str, Any], dict[str, Any]] = {}

    def sent(self, message: dict[str, Any]) -> None:
        if "method" in message and "id" in message:
            self._ask("request", "out", message)
        elif "method" in message:
            self.exchanges.append({"notification": _without(message, "jsonrpc")})
        else:
            self._answer("in", message)

    def received(self, message: dict[str, Any]) -> None:
        if "method" in message and "id" in message:
            self._ask("server_request", "in", message)
        elif "method" in message:
            self.notifications.append(_without(message, "jsonrpc"))
        else:
            self._answer("out", message)
            task = (message.get("result") or {}).get("task")
            if isinstance(task, dict) and task["taskId"] not in self.task_ids:
                self.task_ids.append(task["taskId"])

    def _ask(self, kind: str, side: str, message: dict[str, Any]) -> None:
        entry = {kind: _without(message, "jsonrpc", "id"), "id_type": type(message["id"]).__name__}
        self.exchanges.append(entry)
        self._open[side, message["id"]] = entry

    def _answer(self, side: str, message: dict[str, Any]) -> None:
        entry = self._open.pop((side, message.get("id")), None)
        if entry is None:
            self.exchanges.append({"stray_answer": _without(message, "jsonrpc")})
        else:
            entry["answer"] = _without(message, "jsonrpc", "id")

    async def first_notice(self) -> None:
        """Wait for the first notification."""
        async with asyncio.timeout(120), self.news:
            await self.news.wait_for(lambda: self.notifications)

    async def last_notices(self) -> None:
        """Wait, within bounds, for the news that each task that ended by itself has ended."""
        ended = {
            entry["request"]["params"]["taskId"]
            for entry in self.exchanges
            if entry.get("request", {}).get("method") == "tasks/get"
            and entry.get("answer", {}).get("result", {}).get("status") in {"completed", "failed"}
        }

        def told() -> bool:
            notices = [n["params"] for n in self.notifications if n["method"] == "notifications/tasks/status"]
            return ended <= {n["taskId"] for n in notices if n["status"] in TERMINAL}

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_NOTICE_S), self.news:
                await self.news.wait_for(told)

    def show(self, outcome: Any) -> dict[str, Any]:
        """The transcript, normalised."""
        told: list[dict[str, Any]] = []
        for entry in self.exchanges:
            if not told or entry != told[-1] or entry.get("request", {}).get("method") != "tasks/get":
                told.append(entry)
        whole = json.dumps({"exchanges": told, "notifications": self.notifications, "outcome": outcome})
        for number, task_id in enumerate(self.task_ids, 1):
            whole = whole.replace(task_id, f"<task {number}>")
        shown: dict[str, Any] = json.loads(TIME.sub("<time>", whole))
        return shown


class Connection:
    """A client with one session, its messages recorded."""

    def __init__(self, url: str, headers: dict[str, str], transcript: Transcript) -> None:
        self.url, self.headers, self.transcript = url, headers, transcript
        self.session_id: str | None = None
        self.answer: dict[str, Any] = {"action": "accept"}
        self._listening = asyncio.Event()

    @contextlib.asynccontextmanager
    async def open(self, *, resume: bool = False, end: bool = True) -> AsyncIterator[ClientSession]:
        """Connect; `resume` goes on in the session there was, `end` says DELETE when done."""
        headers = dict(self.headers)
        if resume:
            assert self.session_id is not None
            headers |= {"mcp-session-id": self.session_id, "mcp-protocol-version": "2025-11-25"}
        client = httpx.AsyncClient(
            headers=headers, timeout=httpx.Timeout(120), event_hooks={"response": [self._note]}
        )
        async with (
            client,
            streamable_http_client(self.url, http_client=client, terminate_on_close=end) as (read, write, _),
            self._recorded(read, write) as (recorded_read, recorded_write),
            ClientSession(
                recorded_read,
                recorded_write,
                elicitation_callback=self._elicit,
                sampling_callback=self._sample,
                logging_callback=self._ignore,
            ) as session,
        ):
            if not resume:
                await session.initialize()
                await asyncio.wait_for(self._listening.wait(), 120)
            yield session
            await self.transcript.last_notices()

    async def _note(self, response: httpx.Response) -> None:
        self.session_id = response.headers.get("mcp-session-id", self.session_id)
        if response.request.method == "GET":
            self._listening.set()

    async def _elicit(self, _: Any, params: t.ElicitRequestParams) -> t.ElicitResult:
        values: dict[str, Any] = {"boolean": True, "string": "some text", "integer": 1, "number": 1.5}
        schema = getattr(params, "requestedSchema", {})
        content = {
            key: values.get(prop.get("type", "string"), "some text")
            for key, prop in schema.get("properties", {}).items()
        }
        if self.answer["action"] != "accept":
            return t.ElicitResult(action=self.answer["action"])
        return t.ElicitResult(action="accept", content=content)

    async def _sample(self, _: Any, __: t.CreateMessageRequestParams) -> t.CreateMessageResult:
        said = t.TextContent(type="text", text="sampled")
        return t.CreateMessageResult(role="assistant", content=said, model="a-model")

    async def _ignore(self, _: t.LoggingMessageNotificationParams) -> None:
        return

    @contextlib.asynccontextmanager
    async def _recorded(self, read: Any, write: Any) -> AsyncIterator[tuple[Any, Any]]:
        """Put the transcript between the transport and the session."""
        in_send, in_receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        out_send, out_receive = anyio.create_memory_object_stream[SessionMessage](0)

        async def pump(source: Any, target: Any, note: Callable[[dict[str, Any]], None]) -> None:
            async with source, target:
                async for item in source:
                    if isinstance(item, SessionMessage):
                        note(item.message.model_dump(by_alias=True, mode="json", exclude_none=True))
                        async with self.transcript.news:
                            self.transcript.news.notify_all()
                    with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                        await target.send(item)

        async with anyio.create_task_group() as group:
            group.start_soon(pump, read, in_send, self.transcript.received)
            group.start_soon(pump, out_receive, write, self.transcript.sent)
            try:
                yield in_receive, out_send
            finally:
                group.cancel_scope.cancel()


# jobs


async def create(session: ClientSession, tool: str, **arguments: Any) -> str:
    made = await session.experimental.call_tool_as_task(tool, arguments)
    return made.task.taskId


async def poll(session: ClientSession, task_id: str, *until: str) -> str:
    while True:
        status = (await session.experimental.get_task(task_id)).status
        if status in TERMINAL or status in until:
            return status
        await anyio.sleep(0.05)


async def result(session: ClientSession, task_id: str) -> Any:
    got = await session.experimental.get_task_result(task_id, t.GetTaskPayloadResult)
    return got.model_dump(by_alias=True, mode="json", exclude_none=True)


async def plain_call(c: Connection) -> Any:
    async with c.open() as session:
        return (await session.call_tool("greet", {"name": "Ada"})).content[0].model_dump(mode="json")


async def poll_then_result(c: Connection) -> Any:
    async with c.open() as session:
        task_id = await create(session, "slow_compute", seconds=0.4, label="a")
        status = await poll(session, task_id)
        return [status, await result(session, task_id)]


async def wait_for_result(c: Connection) -> Any:
    async with c.open() as session:
        task_id = await create(session, "slow_compute", seconds=0.4, label="b")
        return [await result(session, task_id), await poll(session, task_id)]


async def give_input(c: Connection) -> Any:
    async with c.open() as session:
        task_id = await create(session, "confirm_delete", filename="x.txt")
        await poll(session, task_id, "input_required")
        return [await result(session, task_id), await poll(session, task_id)]


async def decline_input(c: Connection) -> Any:
    c.answer = {"action": "decline"}
    return await give_input(c)


async def two_inputs(c: Connection) -> Any:
    async with c.open() as session:
        task_id = await create(session, "multi_input")
        await poll(session, task_id, "input_required")
        return [await result(session, task_id), await poll(session, task_id)]


async def come_back(c: Connection) -> Any:
    """Make a task and leave; come back for its question and leave; come back for its result."""
    async with c.open(end=False) as session:
        task_id = await create(session, "report", seconds=0.2)
    async with c.open(resume=True, end=False) as session:
        asked = await poll(session, task_id, "input_required")
    async with c.open(resume=True) as session:
        return [asked, (await result(session, task_id))["content"][0]["text"], await poll(session, task_id)]


async def input_in_a_call(c: Connection) -> Any:
    async with c.open() as session:
        return (await session.call_tool("test_elicitation", {"message": "Well?"})).model_dump(mode="json")


async def sampling_in_a_call(c: Connection) -> Any:
    async with c.open() as session:
        return (await session.call_tool("test_sampling", {"prompt": "Well?"})).model_dump(mode="json")


async def input_before_the_task(c: Connection) -> Any:
    async with c.open() as session:
        task_id = await create(session, "test_tool_with_task")
        return [await poll(session, task_id), await result(session, task_id)]


async def cancel(c: Connection) -> Any:
    async with c.open() as session:
        task_id = await create(session, "slow_compute", seconds=60)
        await session.experimental.cancel_task(task_id)
        status = await poll(session, task_id)
        return [
            status,
            await result(session, task_id),
            await error(session.experimental.cancel_task(task_id)),
        ]


async def cancelled(c: Connection) -> Any:
    """A cancelled task is cancelled, and stays so."""
    async with c.open() as session:
        task_id = await create(session, "slow_compute", seconds=60)
        said = (await session.experimental.cancel_task(task_id)).status
        again = await error(session.experimental.cancel_task(task_id))
        return [said, await poll(session, task_id), again["code"]]


async def immediate_answer(c: Connection) -> Any:
    """A tool that answers at once, asked for as a task: the answer, or a task that has it."""
    async with c.open() as session:
        params = t.CallToolRequestParams(name="greet", arguments={"name": "Ada"}, task=t.TaskMetadata())
        call = t.ClientRequest(t.CallToolRequest(params=params))
        made = (await session.send_request(call, t.GetTaskPayloadResult)).model_dump(mode="json")
        if "task" in made:
            task_id = made["task"]["taskId"]
            c.transcript.task_ids.append(task_id)
            await poll(session, task_id)
            made = await result(session, task_id)
        return made["content"][0]["text"]


async def payload(c: Connection) -> Any:
    """A payload with every key that the two eras have for themselves."""
    keys = (
        "task", "taskId", "status", "ttl", "ttlMs", "pollInterval", "pollIntervalMs", "resultType",
        "inputRequests", "inputResponses", "requestState", "execution", "_meta", "cacheScope",
    )  # fmt: skip
    value = {key: {"io.modelcontextprotocol/related-task": {"taskId": key}} for key in keys}
    async with c.open() as session:
        task_id = await create(session, "echo", value=value)
        await poll(session, task_id)
        return (await result(session, task_id))["structuredContent"] == value


async def expiry(c: Connection) -> Any:
    """A task is asked for until its time is over."""
    async with c.open() as session:
        made = await session.experimental.call_tool_as_task("slow_compute", {"seconds": 0}, ttl=500)
        while (fault := await error(session.experimental.get_task(made.task.taskId))) is None:  # noqa: ASYNC110
            await anyio.sleep(0.05)
        return fault["code"]


async def list_tasks(c: Connection) -> Any:
    async with c.open() as session:
        made = [await create(session, "slow_compute", seconds=0, label=str(n)) for n in range(12)]
        for task_id in made:
            await poll(session, task_id)
        listed, cursor = [], None
        while True:
            page = await session.experimental.list_tasks(cursor)
            listed += [task.taskId for task in page.tasks]
            if (cursor := page.nextCursor) is None:
                return sorted(listed) == sorted(made)


async def tool_error(c: Connection) -> Any:
    async with c.open() as session:
        task_id = await create(session, "failing_job")
        return [await poll(session, task_id), await result(session, task_id)]


async def protocol_error(c: Connection) -> Any:
    async with c.open() as session:
        task_id = await create(session, "protocol_error_job")
        return [await poll(session, task_id), await error(result(session, task_id))]


async def unknown_id(c: Connection) -> Any:
    async with c.open() as session:
        tasks = session.experimental
        return [
            await error(tasks.get_task("nobody")),
            await error(result(session, "nobody")),
            await error(tasks.cancel_task("nobody")),
        ]


async def unsuited_tools(c: Connection) -> Any:
    async with c.open() as session:
        plain_required = await session.call_tool("failing_job", {})
        params = t.CallToolRequestParams(name="greet", arguments={}, task=t.TaskMetadata(ttl=1000))
        call = t.ClientRequest(t.CallToolRequest(params=params))
        as_forbidden = await session.send_request(call, t.CallToolResult)
        return [plain_required.model_dump(mode="json"), as_forbidden.model_dump(mode="json")]


async def reconnect(c: Connection) -> Any:
    """The server drops the stream in the middle of a call; the client comes back with Last-Event-ID."""
    async with c.open() as session:
        return (await session.call_tool("test_reconnection", {})).content[0].model_dump(mode="json")


async def resume(c: Connection) -> Any:
    """The client goes away while a task runs, and comes back to its session."""
    async with c.open(end=False) as session:
        task_id = await create(session, "slow_compute", seconds=0.5, label="c")
        await c.transcript.first_notice()
    async with c.open(resume=True) as session:
        return [await poll(session, task_id), await result(session, task_id)]


async def other_methods(c: Connection) -> Any:
    async with c.open() as session:
        await session.send_ping()
        await session.list_tools()
        await session.list_resources()
        await session.list_prompts()
        await session.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        return await error(session.get_prompt("no such prompt"))


def _without(message: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key not in keys}


async def error(call: Awaitable[Any]) -> Any:
    """The JSON-RPC error a call ends with, None if it does not."""
    try:
        await call
    except McpError as exc:
        return exc.error.model_dump(mode="json", exclude_none=True)
    return None


JOBS: dict[str, Callable[[Connection], Awaitable[Any]]] = {
    job.__name__: job
    for job in (
        plain_call,
        poll_then_result,
        wait_for_result,
        give_input,
        decline_input,
        two_inputs,
        input_in_a_call,
        sampling_in_a_call,
        input_before_the_task,
        cancel,
        cancelled,
        immediate_answer,
        payload,
        expiry,
        list_tasks,
        tool_error,
        protocol_error,
        unknown_id,
        unsuited_tools,
        reconnect,
        resume,
        other_methods,
        come_back,
    )
}

ONLY_WHEN_NAMED = {"cancelled", "immediate_answer", "payload", "expiry", "come_back"}


async def run(url: str, names: list[str], headers: dict[str, str]) -> dict[str, Any]:
    """Run the jobs one after the other, each in sessions of its own."""
    found = {}
    for name in names:
        transcript = Transcript()
        connection = Connection(url, headers, transcript)
        try:
            outcome = await asyncio.wait_for(JOBS[name](connection), 240)
        except BaseException:
            print(f"{name} broke after {json.dumps(transcript.show(None))}", file=sys.stderr)  # noqa: T201 - its log
            raise
        found[name] = transcript.show(outcome)
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--header", action="append", default=[], help="NAME=VALUE")
    args = parser.parse_args()
    headers = dict(pair.split("=", 1) for pair in args.header)
    jobs = args.jobs or [job for job in JOBS if job not in ONLY_WHEN_NAMED]
    print(json.dumps(asyncio.run(run(args.url, jobs, headers)), indent=1))  # noqa: T201 - its output


if __name__ == "__main__":
    main()
