"""The demo's old clients: one for the experimental tasks of 2025-11-25, one for the four-state API."""

from typing import Any

import aiohttp

from shim.demo.clients import ENDED, YES, Client, Outcome, result_of
from shim.demo.jobs import Json, RpcError
from shim.wire.errors import INTERNAL

OLD = "2025-11-25"


class OldClient(Client):
    """2025-11-25 with its experimental tasks."""

    api = f"{OLD}, experimental tasks"

    async def connect(self) -> None:
        """Initialize."""
        params = {
            "protocolVersion": OLD,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "demo-old-client", "version": "1"},
        }
        await self.request("initialize", params)
        self._headers["MCP-Protocol-Version"] = OLD
        async for _ in self.exchange({"jsonrpc": "2.0", "method": "notifications/initialized"}, {}):
            pass

    def heard(self, response: aiohttp.ClientResponse) -> None:
        """Keep the session id."""
        if "Mcp-Session-Id" in response.headers:
            self._headers["Mcp-Session-Id"] = response.headers["Mcp-Session-Id"]

    async def request(self, method: str, params: Json) -> Json:
        """Send a request, answer what is asked meanwhile, give the result. Raises RpcError."""
        request_id = next(self._ids)
        message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        async for got in self.exchange(message, {}):
            if got.get("method") == "elicitation/create":
                await self._answer(method, got)
            elif got.get("id") == request_id:
                return result_of(got)
        raise RpcError(INTERNAL, f"the answer to {method} never came")

    async def _answer(self, method: str, question: Json) -> None:
        self.asked += 1
        self.tell(method, f"the server asks {question['params']['message']!r}; answered yes")
        async for _ in self.exchange({"jsonrpc": "2.0", "id": question["id"], "result": YES}, {}):
            pass

    async def run(self, tool: str, *, task: bool = True, **arguments: Any) -> Outcome:
        """Call a tool; a task is polled, and its result asked for when it ended or has a question."""
        if not task:
            return await self._outcome("tools/call", {"name": tool, "arguments": arguments})
        task_id = await self.start(tool, **arguments)
        while True:
            seen = await self.state(task_id)
            if seen["status"] in ENDED or self.needs_input(seen):
                return await self._outcome("tasks/result", {"taskId": task_id})
            await self.pause(seen.get("pollInterval"))

    async def start(self, tool: str, **arguments: Any) -> str:
        """Start a task by params.task."""
        params = {"name": tool, "arguments": arguments, "task": {"ttl": 60_000}}
        task = (await self.request("tools/call", params))["task"]
        return self.begin("tools/call with task", task)

    async def state(self, task_id: str) -> Json:
        """Read a task once."""
        return await self._task(self.get_method, task_id)

    async def cancel(self, task_id: str) -> str:
        """Cancel a task."""
        return str((await self._task("tasks/cancel", task_id))["status"])

    async def list_tasks(self) -> list[Json]:
        """Give all the client's tasks."""
        found: list[Json] = []
        params: Json = {}
        while True:
            page = await self.request("tasks/list", params)
            found += page["tasks"]
            if "nextCursor" not in page:
                return found
            params = {"cursor": page["nextCursor"]}

    def needs_input(self, task: Json) -> bool:
        """Tell whether the task waits for an answer, which is asked for on its tasks/result."""
        return bool(task["status"] == "input_required")

    async def _task(self, method: str, task_id: str) -> Json:
        task = await self.request(method, {"taskId": task_id})
        self.note(method, task)
        return task

    async def _outcome(self, method: str, params: Json) -> Outcome:
        try:
            outcome = Outcome.of(await self.request(method, params))
        except RpcError as exc:
            outcome = Outcome.failed(exc.body)
        self.tell(method, outcome)
        return outcome


class FourStateClient(OldClient):
    """The four-state API: tasks/create, tasks/status; pending, running, done, error."""

    api = "the four-state API"
    get_method = "tasks/status"
    cancelled = "error"

    async def start(self, tool: str, **arguments: Any) -> str:
        """Start a task by a method of its own."""
        task = await self.request("tasks/create", {"name": tool, "arguments": arguments, "ttl": 60_000})
        return self.begin("tasks/create", task)

    def needs_input(self, task: Json) -> bool:
        """Tell by the message: there is no state for it."""
        return task.get("statusMessage") == "input required"
