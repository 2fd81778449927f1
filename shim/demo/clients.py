"""What the demo's clients share. Each writes down what it sent and what it saw.

They are small on purpose and know nothing of the shim: what they do is what their protocol version says.
"""

import asyncio
import itertools
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Self

import aiohttp

from shim.demo.jobs import Json, RpcError

ACCEPT = "application/json, text/event-stream"
ENDED = frozenset({"completed", "failed", "cancelled", "done", "error"})
YES: Json = {"action": "accept", "content": {"confirm": True}}


@dataclass(frozen=True, slots=True)
class Line:
    """One exchange, as people read it."""

    sent: str
    saw: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job came to: a text, a tool's error or a JSON-RPC error."""

    text: str
    kind: str = "result"

    @classmethod
    def of(cls, result: Json) -> "Outcome":
        """Read a CallToolResult."""
        text = " ".join(one.get("text", "") for one in result.get("content", ()))
        return cls(text, "tool error" if result.get("isError") else "result")

    @classmethod
    def failed(cls, error: Mapping[str, Any]) -> "Outcome":
        """Read a JSON-RPC error."""
        return cls(f"{error.get('code')} {error.get('message')}", "error")

    def __str__(self) -> str:
        return f'"{self.text}"' if self.kind == "result" else f'{self.kind}: "{self.text}"'


class Client(ABC):
    """A client of one API. `run` does a job to its end, in the way of that API."""

    api: str
    get_method = "tasks/get"
    cancelled = "cancelled"
    """The state of a task that was cancelled."""

    def __init__(self, label: str, url: str, key: str) -> None:
        self.label = label
        self.lines: list[Line] = []
        self.started: list[str] = []
        """The ids of its tasks, in the order it got them."""
        self.asked = 0
        """How many questions it was asked."""
        self.said: list[str] = []
        """Every statusMessage seen while a task was at work."""
        self._url = url
        self._headers = {"Accept": ACCEPT, "X-Api-Key": key}
        self._ids = itertools.count(1)

    async def __aenter__(self) -> Self:
        self._http = aiohttp.ClientSession()
        try:
            await self.connect()
        except BaseException:
            await self._http.close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.close()

    @abstractmethod
    async def connect(self) -> None:
        """Do what comes before the first request."""

    @abstractmethod
    async def run(self, tool: str, *, task: bool = True, **arguments: Any) -> Outcome:
        """Call a tool, as a task where the API lets the client say so, and give what it came to."""

    @abstractmethod
    async def start(self, tool: str, **arguments: Any) -> str:
        """Start a task and give its id."""

    @abstractmethod
    async def state(self, task_id: str) -> Json:
        """Read a task once."""

    @abstractmethod
    async def cancel(self, task_id: str) -> str:
        """Cancel a task and give the state it is in then."""

    def tell(self, sent: str, saw: object) -> None:
        """Write down an exchange."""
        self.lines.append(Line(sent, str(saw)))

    def take_lines(self) -> list[Line]:
        """Give what was written down since the last time."""
        lines, self.lines = self.lines, []
        return lines

    def begin(self, method: str, task: Json) -> str:
        """Write down a task's handle and give its id."""
        self.note(method, task)
        self.started.append(task["taskId"])
        return self.started[-1]

    def note(self, method: str, task: Json) -> None:
        """Write down a task's state, unless it is what the last poll saw."""
        message = task.get("statusMessage")
        if message and task["status"] not in ENDED:
            self.said.append(message)
        line = Line(method, f"{task['status']}{f', {message!r}' if message else ''}")
        if not self.lines or self.lines[-1] != line:
            self.lines.append(line)

    async def pause(self, interval_ms: Any) -> None:
        """Wait as long as the server asks for between two polls."""
        await asyncio.sleep(min(float(interval_ms or 200), 1000) / 1000)

    async def exchange(self, message: Json, headers: Mapping[str, str]) -> AsyncIterator[Json]:
        """Post a message and give the messages of the answer as they come."""
        sent = {**self._headers, **headers}
        async with self._http.post(self._url, json=message, headers=sent) as response:
            self.heard(response)
            if response.content_type == "text/event-stream":
                async for line in response.content:
                    if line.startswith(b"data:") and line[5:].strip():
                        yield json.loads(line[5:])
            elif response.content_type == "application/json":
                yield await response.json()

    @abstractmethod
    def heard(self, response: aiohttp.ClientResponse) -> None:
        """Take what is in the headers of an answer."""


def result_of(message: Json) -> Json:
    """Give the result of a response. Raises RpcError."""
    if "error" in message:
        error = message["error"]
        raise RpcError(error.get("code", 0), error.get("message", ""), error.get("data"))
    result: Json = message["result"]
    return result
