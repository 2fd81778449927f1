"""The fastmcp 4 client with its tasks extension running jobs against a URL; prints one JSON line a job.

    python fastmcp_client.py URL [JOB ...] [--header=NAME=VALUE ...]

A line is {"job": ..., "outcome": ..., "messages": [{"status", "sent", "got": [...]}, ...]}: what the job
came to, in words that do not depend on the server, and every HTTP exchange as it was. `expiry` runs only when
named: it waits until its task is gone.
"""

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import fastmcp_tasks
import httpx2
from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.logging import LogMessage
from fastmcp.client.transports import StreamableHttpTransport
from fastmcp.exceptions import ToolError
from fastmcp.utilities.tasks import TASKS_EXTENSION_ID
from fastmcp_tasks import ToolTask
from fastmcp_tasks.client import _send_cancel, _send_get, _send_update
from fastmcp_tasks.client_models import ClientGetTaskResult
from mcp.shared.exceptions import MCPError
from mcp_types import ElicitRequestParams, PromptReference

ANSWERS: dict[str, Any] = {"boolean": True, "string": "some text", "integer": 1, "number": 1.5}


class Recorder(httpx2.AsyncHTTPTransport):
    """An HTTP transport that keeps what went over it."""

    def __init__(self) -> None:
        super().__init__()
        self.exchanges: list[dict[str, Any]] = []

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        sent = json.loads(request.content) if request.content else request.method
        body = bytearray()
        self.exchanges.append({"status": response.status_code, "sent": sent, "body": body})
        response.stream = Tee(response.stream, body)
        return response

    def messages(self) -> list[dict[str, Any]]:
        """Every exchange, its body read as JSON or as an event stream."""
        return [
            {"status": one["status"], "sent": one["sent"], "got": _read(bytes(one["body"]))}
            for one in self.exchanges
        ]


class Tee(httpx2.AsyncByteStream):
    """A response stream whose bytes are also put aside."""

    def __init__(self, stream: Any, body: bytearray) -> None:
        self._stream, self._body = stream, body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._body += chunk
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


class Connection:
    """How a job gets its clients, and what they are to answer."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url, self.headers = url, headers
        self.recorder = Recorder()
        self.action = "accept"
        self.progress: list[float] = []
        self.logged: list[str] = []

    def client(self) -> Client[StreamableHttpTransport]:
        def http(**options: Any) -> httpx2.AsyncClient:
            return httpx2.AsyncClient(**{**options, "transport": self.recorder})

        transport = StreamableHttpTransport(self.url, headers=self.headers, httpx_client_factory=http)
        return Client(
            transport,
            elicitation_handler=self._elicit,
            progress_handler=self._progress,
            log_handler=self._log,
        )

    async def _elicit(self, _: str, __: Any, params: ElicitRequestParams, ___: Any) -> ElicitResult[Any]:
        if self.action != "accept":
            return ElicitResult(action=self.action)
        properties = params.requested_schema.get("properties", {})
        content = {key: ANSWERS[prop.get("type", "string")] for key, prop in properties.items()}
        return ElicitResult(action="accept", content=content)

    async def _progress(self, progress: float, _: float | None, __: str | None) -> None:
        self.progress.append(progress)

    async def _log(self, message: LogMessage) -> None:
        self.logged.append(message.level)


# jobs

Opened = Client[StreamableHttpTransport]


async def create(client: Opened, tool: str, **arguments: Any) -> ToolTask:
    return await fastmcp_tasks.call_tool_task(client, tool, arguments)


async def said(task: ToolTask) -> list[Any]:
    """The text and the structured content of a task's result; asks and answers on the way."""
    return shown(await task.result())


def shown(result: Any) -> list[Any]:
    return [result.content[0].text, result.structured_content]


async def discover(c: Connection) -> Any:
    async with c.client() as client:
        extensions = client.server_capabilities.model_extra or {}
        named = extensions.get("extensions") or client.server_capabilities.extensions
        return [client.protocol_version, named[TASKS_EXTENSION_ID]]


async def plain_call(c: Connection) -> Any:
    async with c.client() as client:
        return shown(await client.call_tool("greet", {"name": "Ada"}))


async def task_in_a_call(c: Connection) -> Any:
    """The application never learns that the call was a task."""
    async with c.client() as client:
        return shown(await client.call_tool("slow_compute", {"seconds": 0.3, "label": "a"}))


async def poll_then_result(c: Connection) -> Any:
    async with c.client() as client:
        task = await create(client, "slow_compute", seconds=0.4, label="b")
        ended = await task.wait()
        return [task.create_result.status, ended.status, ended.result, await said(task)]


async def status_message(c: Connection) -> Any:
    async with c.client() as client:
        task = await create(client, "slow_compute", seconds=60)
        now = await until(task, lambda now: now.status_message is not None)
        await task.cancel()
        return [now.status, now.status_message]


async def immediate_answer(c: Connection) -> Any:
    """A tool that never becomes a task answers at once, whatever the client declares."""
    async with c.client() as client:
        try:
            await create(client, "greet", name="Ada")
        except ToolError as exc:
            return "did not run as a task" in str(exc)
    return None


async def give_input(c: Connection) -> Any:
    async with c.client() as client:
        task = await create(client, "confirm_delete", filename="x.txt")
        asked = questions(await task.wait(state="input_required"))
        return [asked, await said(task), (await task.status()).status]


async def decline_input(c: Connection) -> Any:
    c.action = "decline"
    return await give_input(c)


async def two_inputs(c: Connection) -> Any:
    """Two questions at once, answered one by one by hand."""
    async with c.client() as client:
        task = await create(client, "multi_input")
        both = await until(task, lambda now: len(now.input_requests or {}) == 2)
        first, second = sorted(both.input_requests or {}, key=lambda key: text_of(both, key))
        await answer(client, task, {first: "colour"})
        left = await until(task, lambda now: list(now.input_requests or {}) == [second])
        await answer(client, task, {second: "name"})
        ended = await task.wait()
        return [questions(both), questions(left), ended.status, await said(task)]


async def one_after_the_other(c: Connection) -> Any:
    async with c.client() as client:
        return await said(await create(client, "two_rounds_job"))


async def stray_answers(c: Connection) -> Any:
    """Keys that nobody asked, and one that was answered, are acknowledged and change nothing."""
    async with c.client() as client:
        task = await create(client, "confirm_delete", filename="x.txt")
        asked = await task.wait(state="input_required")
        await answer(client, task, {"nobody": "confirm"})
        still = questions(await task.wait(state="input_required"))
        result = await said(task)
        await answer(client, task, dict.fromkeys(asked.input_requests or {}, "confirm"))
        return [still, result, (await task.status()).status]


async def input_in_a_call(c: Connection) -> Any:
    async with c.client() as client:
        return shown(await client.call_tool("test_elicitation", {"message": "Well?"}))


async def input_before_the_task(c: Connection) -> Any:
    async with c.client() as client:
        return shown(await client.call_tool("test_tool_with_task", {}))


async def cancel(c: Connection) -> Any:
    async with c.client() as client:
        task = await create(client, "slow_compute", seconds=60)
        await task.cancel()
        ended = await task.wait()
        await task.cancel()
        again = await task.status()
        return [ended.status, again.status, await tool_error_of(task.result(), task)]


async def cancel_while_asked(c: Connection) -> Any:
    async with c.client() as client:
        task = await create(client, "confirm_delete", filename="x.txt")
        asked = await task.wait(state="input_required")
        await task.cancel()
        ended = await task.wait()
        await answer(client, task, dict.fromkeys(asked.input_requests or {}, "confirm"))
        return [ended.status, (await task.status()).status, ended.input_requests]


async def tool_error(c: Connection) -> Any:
    async with c.client() as client:
        task = await create(client, "failing_job")
        ended = await task.wait()
        return [ended.status, ended.result, ended.error, await tool_error_of(task.result(), task)]


async def protocol_error(c: Connection) -> Any:
    async with c.client() as client:
        task = await create(client, "protocol_error_job")
        ended = await task.wait()
        return [ended.status, ended.result, ended.error, await tool_error_of(task.result(), task)]


async def unknown_id(c: Connection) -> Any:
    async with c.client() as client:
        session = client.session
        calls = (
            _send_get(session, "nobody"),
            _send_update(session, "nobody", {}),
            _send_cancel(session, "nobody"),
        )
        return [await error_code(call) for call in calls]


async def progress_in_a_call(c: Connection) -> Any:
    async with c.client() as client:
        await client.call_tool("test_tool_with_progress", {})
        return c.progress


async def logs_in_a_call(c: Connection) -> Any:
    async with c.client() as client:
        await client.call_tool("test_tool_with_logging", {})
        return c.logged


async def contents(c: Connection) -> Any:
    """Every kind of block, as it came."""
    async with c.client() as client:
        result = await client.call_tool("test_multiple_content_types", {})
        return [block.model_dump(mode="json", exclude_none=True) for block in result.content]


async def complete(c: Connection) -> Any:
    async with c.client() as client:
        ref = PromptReference(name="test_prompt_with_arguments")
        return (await client.complete(ref, {"name": "arg1", "value": "par"})).values


async def payload(c: Connection) -> Any:
    """A payload with every key that the two eras have for themselves."""
    keys = (
        "task", "taskId", "status", "ttl", "ttlMs", "pollInterval", "pollIntervalMs", "resultType",
        "inputRequests", "inputResponses", "requestState", "execution", "_meta", "cacheScope",
    )  # fmt: skip
    value = {key: {"io.modelcontextprotocol/related-task": {"taskId": key}} for key in keys}
    async with c.client() as client:
        text, structured = await said(await create(client, "echo", value=value))
        return [json.loads(text) == value, structured == value]


async def many(c: Connection) -> Any:
    async with c.client() as client:
        made = [await create(client, "slow_compute", seconds=0.1, label=str(n)) for n in range(12)]
        return [(await said(task))[0] for task in made]


async def another_client(c: Connection) -> Any:
    """A client that did not create the task, with the same credentials, goes on with it."""
    async with c.client() as client:
        task = await create(client, "slow_compute", seconds=0.3, label="c")
    async with c.client() as client:
        theirs = ToolTask(client, "slow_compute", task.create_result)
        return [(await theirs.wait()).status, await said(theirs)]


async def come_back(c: Connection) -> Any:
    """Make a task and leave; come back for its question and leave; come back for its result."""
    async with c.client() as client:
        made = (await create(client, "report", seconds=0.2)).create_result
    async with c.client() as client:
        asked = await ToolTask(client, "report", made).wait(state="input_required")
    async with c.client() as client:
        task = ToolTask(client, "report", made)
        return [questions(asked), (await said(task))[0], (await task.status()).status]


async def other_methods(c: Connection) -> Any:
    async with c.client() as client:
        tools = {tool.name for tool in await client.list_tools()}
        resources = {str(one.uri) for one in await client.list_resources()}
        prompts = {one.name for one in await client.list_prompts()}
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        read = await client.read_resource("test://static-text")
        return [
            {"greet", "slow_compute", "confirm_delete"} <= tools,
            "test://static-text" in resources,
            "test_simple_prompt" in prompts,
            prompt.messages[0].content.text,
            read[0].text,
            await error_code(client.get_prompt("no such prompt")),
        ]


async def expiry(c: Connection) -> Any:
    async with c.client() as client:
        task = await create(client, "slow_compute", seconds=0)
        while True:
            try:
                await task.status()
            except MCPError as exc:
                return exc.error.code
            await asyncio.sleep(0.05)


async def until(task: ToolTask, good: Callable[[ClientGetTaskResult], bool]) -> ClientGetTaskResult:
    while True:
        if good(now := await task.status()):
            return now
        await asyncio.sleep(0.02)


def questions(now: ClientGetTaskResult) -> list[Any]:
    """What is asked, apart from the keys it is asked under."""
    requests = [dict(one) for one in (now.input_requests or {}).values()]
    return sorted(
        ([one["method"], one["params"]["message"], one["params"]["requestedSchema"]] for one in requests),
        key=json.dumps,
    )


def text_of(now: ClientGetTaskResult, key: str) -> str:
    return str((now.input_requests or {})[key]["params"]["message"])


async def answer(client: Opened, task: ToolTask, fields: dict[str, str]) -> None:
    """Answer each key with its field accepted."""
    accepted = {
        key: {"action": "accept", "content": {field: True if field == "confirm" else f"my {field}"}}
        for key, field in fields.items()
    }
    await _send_update(client.session, task.task_id, accepted)


async def tool_error_of(call: Awaitable[Any], task: ToolTask) -> str | None:
    """The ToolError a call ends with, the task's id replaced."""
    try:
        await call
    except ToolError as exc:
        return str(exc).replace(task.task_id, "<task>")
    return None


async def error_code(call: Awaitable[Any]) -> int | None:
    """The code of the JSON-RPC error a call ends with."""
    try:
        await call
    except MCPError as exc:
        return exc.error.code
    return None


def _read(body: bytes) -> list[Any]:
    if body.startswith(b"{"):
        return [json.loads(body)]
    lines = body.decode().splitlines()
    return [json.loads(line.removeprefix("data:")) for line in lines if line.startswith("data:")]


JOBS: dict[str, Callable[[Connection], Awaitable[Any]]] = {
    job.__name__: job
    for job in (
        discover, plain_call, task_in_a_call, poll_then_result, status_message, immediate_answer,
        give_input, decline_input, two_inputs, one_after_the_other, stray_answers, input_in_a_call,
        input_before_the_task, cancel, cancel_while_asked, tool_error, protocol_error, unknown_id,
        progress_in_a_call, logs_in_a_call, contents, complete, payload, many, another_client,
        other_methods, expiry, come_back,
    )
}  # fmt: skip
ONLY_WHEN_NAMED = {"expiry", "come_back"}


async def run(url: str, names: list[str], headers: dict[str, str]) -> None:
    """Run the jobs one after the other, each with clients of its own."""
    for name in names:
        connection = Connection(url, headers)
        try:
            outcome = await asyncio.wait_for(JOBS[name](connection), 240)
        except BaseException:
            with contextlib.suppress(ValueError):
                print(f"{name} broke after {json.dumps(connection.recorder.messages())}", file=sys.stderr)  # noqa: T201 - its log
            raise
        line = {"job": name, "outcome": outcome, "messages": connection.recorder.messages()}
        print(json.dumps(line), flush=True)  # noqa: T201 - its output


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--header", action="append", default=[], help="NAME=VALUE")
    args = parser.parse_args()
    headers = dict(pair.split("=", 1) for pair in args.header)
    names = args.jobs or [name for name in JOBS if name not in ONLY_WHEN_NAMED]
    asyncio.run(run(args.url, names, headers))


if __name__ == "__main__":
    main()
