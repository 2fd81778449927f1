"""What a connection says over and over: one class a workload, chosen by name."""

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from benchmarks.connection import Answer, Connection
from benchmarks.messages import FIRST_ID, Speaker, Template

NEVER_S = 86_400
_ids = itertools.count(FIRST_ID)


class Workload(Protocol):
    """One connection's endless conversation."""

    @property
    def counts(self) -> bool:
        """False while the request to come is not what the cell measures."""

    async def start(self, connection: Connection) -> None:
        """Do what comes before: sessions, tasks."""

    def next(self) -> bytes:
        """Give the next request."""

    def accept(self, answer: Answer) -> bool:
        """Take its answer; False if it is not the one expected."""


@dataclass(slots=True)
class Setting:
    """What every workload of a run shares."""

    url: str
    key: str
    modern: bool
    tool: str = "job"
    arguments: str = ""
    """JSON of the task tool's arguments; empty for a job that outlasts the run."""
    session: str | None = None
    task_id: str | None = None

    def task_call(self, *, ends: bool) -> dict[str, Any]:
        """Give the params of a call that creates a task."""
        arguments = json.loads(self.arguments) if self.arguments else {} if ends else {"seconds": NEVER_S}
        return {"name": self.tool, "arguments": arguments, **({} if self.modern else {"task": {}})}


async def speaker(setting: Setting, connection: Connection, *, shared: bool = False) -> Speaker:
    """Make a client; a legacy one opens its session, or the run's one session if `shared`."""
    client = Speaker(setting.url, setting.key, setting.modern)
    if setting.modern:
        return client
    if shared and setting.session is not None:
        client.session = setting.session
        return client
    hello = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "load", "version": "1"},
    }
    answer = await connection.exchange(client.request("initialize", hello).fill(next(_ids)))
    client.session = answer.header("Mcp-Session-Id")
    if answer.status != 200 or client.session is None:
        raise RuntimeError(f"initialize: HTTP {answer.status} {answer.body[:300]!r}")
    await connection.exchange(client.notification("notifications/initialized"))
    if shared:
        setting.session = client.session
    return client


async def create(setting: Setting, client: Speaker, connection: Connection) -> str:
    """Create a task that outlasts the run; gives its id."""
    template = client.request("tools/call", setting.task_call(ends=False))
    answer = await connection.exchange(template.fill(next(_ids)))
    return task_id_in(answer)


def result_in(answer: Answer) -> dict[str, Any]:
    """Give the result of a JSON or one-event SSE answer. Raises RuntimeError if there is none."""
    start, end = answer.body.find(b"{"), answer.body.rfind(b"}")
    try:
        result: dict[str, Any] = json.loads(answer.body[start : end + 1])["result"]
    except (ValueError, KeyError) as exc:
        raise RuntimeError(f"HTTP {answer.status} {answer.body[:300]!r}") from exc
    return result


def task_id_in(answer: Answer) -> str:
    """Give the id in a create answer of either era."""
    result = result_in(answer)
    return str(result.get("task", result)["taskId"])


class Repeat:
    """The same request for ever; `marker` stands in every good answer."""

    template: Template

    def __init__(self, setting: Setting, marker: bytes) -> None:
        self.setting = setting
        self.marker = marker

    @property
    def counts(self) -> bool:
        return True

    def next(self) -> bytes:
        return self.template.fill(next(_ids))

    def accept(self, answer: Answer) -> bool:
        return answer.status == 200 and self.marker in answer.body


class Call(Repeat):
    """tools/call of the plain tool, a session for each legacy client."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, b"pong")

    async def start(self, connection: Connection) -> None:
        client = await speaker(self.setting, connection)
        self.template = client.request("tools/call", {"name": "echo", "arguments": {"text": "ping"}})


class Poll(Repeat):
    """tasks/get of one working task that all connections wait for."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, b'"working"')

    async def start(self, connection: Connection) -> None:
        client = await speaker(self.setting, connection, shared=True)
        if self.setting.task_id is None:
            self.setting.task_id = await create(self.setting, client, connection)
        self.template = client.request("tasks/get", {"taskId": self.setting.task_id})


class Create(Repeat):
    """Tasks that stay open, one after the other."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, b'"taskId"')

    async def start(self, connection: Connection) -> None:
        client = await speaker(self.setting, connection)
        self.template = client.request("tools/call", self.setting.task_call(ends=False))


class Job(Create):
    """A task that ends at once, polled until it is seen to have ended, then the next; the creates count."""

    polling: bytes | None = None

    async def start(self, connection: Connection) -> None:
        self.client = await speaker(self.setting, connection)
        self.template = self.client.request("tools/call", self.setting.task_call(ends=True))

    @property
    def counts(self) -> bool:
        return self.polling is None

    def next(self) -> bytes:
        return super().next() if self.polling is None else self.polling

    def accept(self, answer: Answer) -> bool:
        if self.polling is None:
            if not super().accept(answer):
                return False
            poll = self.client.request("tasks/get", {"taskId": task_id_in(answer)})
            self.polling = poll.fill(next(_ids))
            return True
        if b'"completed"' in answer.body:
            self.polling = None
            return True
        return answer.status == 200 and b'"working"' in answer.body


class Pages(Repeat):
    """tasks/list, page after page, from the start again after the last."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting, b'"tasks"')

    async def start(self, connection: Connection) -> None:
        self.client = await speaker(self.setting, connection)
        self.template = self.client.request("tasks/list", {})

    def accept(self, answer: Answer) -> bool:
        if not super().accept(answer):
            return False
        cursor = result_in(answer).get("nextCursor")
        self.template = self.client.request("tasks/list", {"cursor": cursor} if cursor else {})
        return True


WORKLOADS: dict[str, Callable[[Setting], Workload]] = {
    "call": Call,
    "poll": Poll,
    "create": Create,
    "job": Job,
    "list": Pages,
}
