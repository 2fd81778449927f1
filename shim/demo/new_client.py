"""The demo's new client: 2026-07-28 with the tasks extension (SEP-2663)."""

from typing import Any

import aiohttp

from shim.demo.clients import ENDED, YES, Client, Outcome, result_of
from shim.demo.jobs import Json, RpcError
from shim.wire.errors import INTERNAL

NEW = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"


class NewClient(Client):
    """2026-07-28 with the tasks extension (SEP-2663)."""

    api = f"{NEW}, {TASKS}"

    async def connect(self) -> None:
        """Do nothing: each request stands alone."""

    def heard(self, response: aiohttp.ClientResponse) -> None:
        """Take nothing: there are no sessions."""

    async def request(self, method: str, params: Json) -> Json:
        """Send a request and give the result. Raises RpcError."""
        request_id = next(self._ids)
        message, headers = modern_request(request_id, method, params)
        async for got in self.exchange(message, headers):
            if got.get("id") == request_id:
                return result_of(got)
        raise RpcError(INTERNAL, f"the answer to {method} never came")

    async def run(self, tool: str, *, task: bool = True, **arguments: Any) -> Outcome:
        """Call a tool; the server decides whether that is a task."""
        del task
        try:
            result = await self.request("tools/call", {"name": tool, "arguments": arguments})
        except RpcError as exc:
            return self._ended("tools/call", Outcome.failed(exc.body))
        if result["resultType"] != "task":
            return self._ended("tools/call", Outcome.of(result))
        task_id, answered = self.begin("tools/call", result), set[str]()
        while True:
            seen = await self.state(task_id)
            if seen["status"] in ENDED:
                break
            await self._answer(seen, answered)
            await self.pause(seen.get("pollIntervalMs"))
        if "result" in seen:
            return self._ended("  its result", Outcome.of(seen["result"]))
        return self._ended("  its error", Outcome.failed(seen.get("error", {"message": seen["status"]})))

    async def start(self, tool: str, **arguments: Any) -> str:
        """Start a task. Raises RpcError where the server answers at once."""
        result = await self.request("tools/call", {"name": tool, "arguments": arguments})
        if result["resultType"] != "task":
            raise RpcError(INTERNAL, "the server made no task")
        return self.begin("tools/call", result)

    async def state(self, task_id: str) -> Json:
        """Read a task once."""
        task = await self.request("tasks/get", {"taskId": task_id})
        self.note("tasks/get", task)
        return task

    async def cancel(self, task_id: str) -> str:
        """Cancel a task, which is only acknowledged, and look at it."""
        await self.request("tasks/cancel", {"taskId": task_id})
        self.tell("tasks/cancel", "acknowledged")
        return str((await self.state(task_id))["status"])

    async def _answer(self, task: Json, answered: set[str]) -> None:
        asked = {key: one for key, one in task.get("inputRequests", {}).items() if key not in answered}
        if not asked:
            return
        for question in asked.values():
            self.asked += 1
            self.tell("  its question", f"{question['params']['message']!r}; answered yes")
        await self.request(
            "tasks/update", {"taskId": task["taskId"], "inputResponses": dict.fromkeys(asked, YES)}
        )
        self.tell("tasks/update", "acknowledged")
        answered.update(asked)

    def _ended(self, sent: str, outcome: Outcome) -> Outcome:
        self.tell(sent, outcome)
        return outcome


def modern_request(request_id: int, method: str, params: Json) -> tuple[Json, dict[str, str]]:
    """Build a request of 2026-07-28: the message with its `_meta`, and the headers that mirror it."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": NEW,
        "io.modelcontextprotocol/clientInfo": {"name": "demo-new-client", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}, "extensions": {TASKS: {}}},
    }
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {**params, "_meta": meta}}
    headers = {"MCP-Protocol-Version": NEW, "Mcp-Method": method}
    name = params.get("taskId") or params.get("name")
    return message, {**headers, "Mcp-Name": name} if name else headers
