"""A four-state server and a four-state client with the tools and jobs of the other peers; there is no SDK."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from shim.demo.four_state import start
from shim.demo.jobs import Job, Json, RpcError
from shim.demo.old_clients import FourStateClient
from shim.demo.tools import Tool, text

BROKEN = RpcError(-32603, "the job broke the protocol")


# the server


async def _greet(_: Job, arguments: Mapping[str, Any]) -> Json:
    return text(f"Hello, {arguments.get('name', 'world')}!")


async def _slow_compute(job: Job, arguments: Mapping[str, Any]) -> Json:
    seconds = arguments.get("seconds", 1)
    job.say("computing")
    await job.pause(seconds)
    said = f"computed {arguments.get('label', '')} in {seconds:g} s"
    return text(said, structuredContent={"seconds": seconds}, isError=False)


async def _failing_job(job: Job, _: Mapping[str, Any]) -> Json:
    await job.pause(0.2)
    return text("the job failed", isError=True)


async def _protocol_error_job(job: Job, _: Mapping[str, Any]) -> Json:
    await job.pause(0.2)
    raise BROKEN


async def _confirm_delete(job: Job, arguments: Mapping[str, Any]) -> Json:
    schema = {"type": "object", "properties": {"confirm": {"type": "boolean"}}, "required": ["confirm"]}
    answer = await job.ask(f"Delete {arguments.get('filename')}?", schema)
    if answer.get("action") != "accept":
        return text(f"kept {arguments.get('filename')} ({answer.get('action')})", isError=False)
    return text(f"deleted {arguments.get('filename')}", isError=False)


async def _echo(_: Job, arguments: Mapping[str, Any]) -> Json:
    value = arguments.get("value")
    return text(json.dumps(value, sort_keys=True), structuredContent=value, isError=False)


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("greet", "", "forbidden", {}, _greet),
        Tool("slow_compute", "", "optional", {}, _slow_compute),
        Tool("failing_job", "", "optional", {}, _failing_job),
        Tool("protocol_error_job", "", "optional", {}, _protocol_error_job),
        Tool("confirm_delete", "", "optional", {}, _confirm_delete),
        Tool("echo", "", "optional", {}, _echo),
    )
}


@asynccontextmanager
async def four_state_server(**options: Any) -> AsyncIterator[str]:
    """Serve the peers' tools in the four-state dialect; gives the URL."""
    runner, url = await start(tools=TOOLS, poll_interval_ms=100, **options)
    try:
        yield url
    finally:
        await runner.cleanup()


# the client


async def _ended(client: FourStateClient, task_id: str) -> Json:
    while (seen := await client.state(task_id))["status"] not in {"done", "error"}:  # noqa: ASYNC110 - a poll
        await asyncio.sleep(0.05)
    return seen


async def _result(client: FourStateClient, task_id: str) -> Any:
    try:
        result = await client.request("tasks/result", {"taskId": task_id})
    except RpcError as exc:
        return exc.body
    kept = {key: result[key] for key in ("structuredContent", "isError") if result.get(key)}
    return [result["content"][0]["text"], *([kept] if kept else [])]


async def poll_then_result(client: FourStateClient) -> Any:
    task_id = await client.start("slow_compute", seconds=0.4, label="a")
    return [(await _ended(client, task_id))["status"], await _result(client, task_id)]


async def wait_for_result(client: FourStateClient) -> Any:
    task_id = await client.start("slow_compute", seconds=0.4, label="b")
    return [await _result(client, task_id), (await client.state(task_id))["status"]]


async def give_input(client: FourStateClient) -> Any:
    task_id = await client.start("confirm_delete", filename="x.txt")
    return [await _result(client, task_id), (await client.state(task_id))["status"], client.asked]


async def cancel(client: FourStateClient) -> Any:
    task_id = await client.start("slow_compute", seconds=60)
    state = await client.cancel(task_id)
    seen = await client.state(task_id)
    again = await _error(client.request("tasks/cancel", {"taskId": task_id}))
    return [state, seen["status"], seen.get("statusMessage"), again]


async def tool_error(client: FourStateClient) -> Any:
    task_id = await client.start("failing_job")
    return [(await _ended(client, task_id))["status"], await _result(client, task_id)]


async def protocol_error(client: FourStateClient) -> Any:
    task_id = await client.start("protocol_error_job")
    return [(await _ended(client, task_id))["status"], await _result(client, task_id)]


async def immediate_answer(client: FourStateClient) -> Any:
    task_id = await client.start("greet", name="Ada")
    return [(await _ended(client, task_id))["status"], await _result(client, task_id)]


async def list_tasks(client: FourStateClient) -> Any:
    made = {await client.start("slow_compute", seconds=0, label=str(n)) for n in range(12)}
    for task_id in made:
        await _ended(client, task_id)
    listed = [task["taskId"] for task in await client.list_tasks()]
    return [len(listed) == len(set(listed)), made <= set(listed)]


async def unknown_id(client: FourStateClient) -> Any:
    methods = ("tasks/status", "tasks/result", "tasks/cancel")
    return [await _error(client.request(method, {"taskId": "nobody"})) for method in methods]


async def payload(client: FourStateClient) -> Any:
    """A payload with every key that the two eras have for themselves."""
    keys = (
        "task", "taskId", "status", "ttl", "ttlMs", "pollInterval", "pollIntervalMs", "resultType",
        "inputRequests", "inputResponses", "requestState", "execution", "_meta", "cacheScope",
    )  # fmt: skip
    value = {key: {"io.modelcontextprotocol/related-task": {"taskId": key}} for key in keys}
    task_id = await client.start("echo", value=value)
    await _ended(client, task_id)
    result = await client.request("tasks/result", {"taskId": task_id})
    return bool(result["structuredContent"] == value)


async def expiry(client: FourStateClient) -> Any:
    task_id = await client.start("slow_compute", seconds=0, ttl=500)
    while (code := await _error(client.state(task_id))) is None:  # noqa: ASYNC110 - a poll
        await asyncio.sleep(0.05)
    return code


async def _error(call: Awaitable[Any]) -> int | None:
    try:
        await call
    except RpcError as exc:
        return int(exc.body["code"])
    return None


JOBS: dict[str, Callable[[FourStateClient], Awaitable[Any]]] = {
    job.__name__: job
    for job in (
        poll_then_result, wait_for_result, give_input, cancel, tool_error, protocol_error, immediate_answer,
        list_tasks, unknown_id, payload, expiry,
    )
}  # fmt: skip


async def four_state_client(url: str, key: str, *jobs: str) -> dict[str, Any]:
    """Run jobs, each with a session of its own; gives {job: outcome}."""
    outcomes = {}
    for job in jobs or JOBS:
        async with Ttl("four-state", url, key) as client:
            outcomes[job] = await JOBS[job](client)
    return outcomes


class Ttl(FourStateClient):
    """A client that can ask for a ttl of its own."""

    async def start(self, tool: str, *, ttl: int = 60_000, **arguments: Any) -> str:
        """Start a task."""
        task = await self.request("tasks/create", {"name": tool, "arguments": arguments, "ttl": ttl})
        return self.begin("tasks/create", task)
