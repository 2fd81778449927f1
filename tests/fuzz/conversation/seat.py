"""The places that a caller speaks from: one way to ask, whatever API the client there speaks."""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar

from tests.client import RELATED_TASK, LegacyClient, ModernClient, OpenStream, Reply
from tests.fuzz.conversation.model import ENDED, hold

FOUR_STATES = {"pending": "working", "running": "working", "done": "completed"}
_OF_THE_NEW = {"resultType", "ttlMs", "pollIntervalMs", "inputRequests", "requestState", "cacheScope"}


class Stream:
    """A stream that a client reads beside what else it does."""

    def __init__(
        self, seat: "Seat", kind: str, about: str, opening: AbstractAsyncContextManager[OpenStream]
    ) -> None:
        self.seat = seat
        self.kind = kind
        self.about = about
        """The handle it is about, if it is about one."""
        self.frames: list[bytes] = []
        """What came and was not looked at yet."""
        self.ids: list[str] = []
        """The ids of its events."""
        self.named: set[str] | None = None
        """The handles that it was opened for, where it was for some."""
        self.said: dict[str, str] = {}
        """What it last said of each task, by handle."""
        self.excused = False
        """Whether something happened that may have broken it."""
        self.status: int | None = None
        self.is_over = False
        """Whether the shim has ended it."""
        self.began = asyncio.Event()
        self._reading = asyncio.create_task(self._read(opening))

    async def _read(self, opening: AbstractAsyncContextManager[OpenStream]) -> None:
        try:
            async with opening as stream:
                self.status = stream.status
                self.began.set()
                if not stream.headers.get("Content-Type", "").startswith("text/event-stream"):
                    body = await stream.body()
                    self.frames += [body] if body else []
                    return
                while True:
                    try:
                        frame = await stream.next_raw()
                    except StopAsyncIteration:
                        return
                    if frame.id:
                        self.ids.append(frame.id)
                    if frame.data:
                        self.frames.append(frame.data)
        except OSError:
            pass  # broken off, as a client may see it
        finally:
            self.is_over = True
            self.began.set()

    @property
    def last_id(self) -> str | None:
        """The id of the last event that came."""
        return self.ids[-1] if self.ids else None

    async def leave(self) -> None:
        """Cut the connection."""
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)


class Seat:
    """A client of one caller. `era` is "modern" or "legacy", `verbs` what its API calls the verbs."""

    name: ClassVar[str]
    era: ClassVar[str]
    verbs: ClassVar[Mapping[str, str]] = {}

    def __init__(self, caller: str, client: Any) -> None:
        self.caller = caller
        self.client = client
        self.streams: list[Stream] = []
        self.event_ids: set[str] = set()
        """The ids of all events that streams of the session were left with."""

    async def begin(self) -> Reply | None:
        """Begin to speak, with a session where the API has them."""

    async def create(self, ttl_ms: int | None) -> Reply:
        """Call a tool that runs as a task."""
        raise NotImplementedError

    def handle(self, reply: Reply) -> str:
        """Give the handle that a create was answered with."""
        raise NotImplementedError

    async def ask(self, verb: str, handle: str, **options: Any) -> Reply:
        """Ask for a task by a verb: get, cancel, result, update."""
        reply: Reply = await self.client.tasks(self.verbs.get(verb, verb), handle, **options)
        return reply

    def statuses(self, task: Mapping[str, Any]) -> set[str]:
        """Give the states of the hub that a task is shown in: those that this API does not tell apart."""
        return {str(task["status"])}

    def arguments(self, ttl_ms: int | None = None) -> dict[str, Any]:
        """Give the arguments of a call, which say whose it is."""
        return {"owner": self.caller, "seat": self.name, "ttl": ttl_ms}

    async def open(
        self, kind: str, opening: AbstractAsyncContextManager[OpenStream], about: str = ""
    ) -> Stream:
        """Read a stream from now on."""
        stream = Stream(self, kind, about, opening)
        self.streams.append(stream)
        if kind != "result":  # that one may have nothing to say for long
            await stream.began.wait()
        return stream

    async def leave(self, stream: Stream) -> None:
        """Cut a stream's connection."""
        if stream in self.streams:
            self.streams.remove(stream)
        await stream.leave()

    async def close(self) -> None:
        """Leave everything."""
        for stream in list(self.streams):
            await self.leave(stream)

    def speaks(self, result: Mapping[str, Any]) -> None:
        """Hold that a result has no key of another API."""
        raise NotImplementedError


class Modern(Seat):
    """A client of the new API."""

    name = "modern"
    era = "modern"
    client: ModernClient

    async def create(self, ttl_ms: int | None) -> Reply:
        """Call a tool that runs as a task."""
        return await self.client.call("run", self.arguments(ttl_ms))

    def handle(self, reply: Reply) -> str:
        """Give the handle that a create was answered with."""
        return str(reply.result["taskId"])

    def speaks(self, result: Mapping[str, Any]) -> None:
        """Hold that a result has no key of another API."""
        hold("resultType" in result, "a result without its type:", result)
        hold(not {"ttl", "pollInterval", "task", "execution"} & set(result), "a key of the old API:", result)
        hold(RELATED_TASK not in (result.get("_meta") or {}), "a key of the old API:", result)


class Legacy(Seat):
    """A client of the old API, with a session."""

    name = "legacy"
    era = "legacy"
    client: LegacyClient

    async def begin(self) -> Reply | None:
        """Open a session."""
        self.client.session, self.client.initialized = None, False
        return await self.client.initialize()

    async def create(self, ttl_ms: int | None) -> Reply:
        """Call a tool that runs as a task."""
        asked = {} if ttl_ms is None else {"ttl": ttl_ms}
        return await self.client.call("run", self.arguments(ttl_ms), task=asked)

    def handle(self, reply: Reply) -> str:
        """Give the handle that a create was answered with."""
        task = reply.result["task"]
        return str(task["taskId"])

    def statuses(self, task: Mapping[str, Any]) -> set[str]:
        """Give the states of the hub that a task is shown in: those that this API does not tell apart.

        A task that a client of the four-state API made is shown in that API where a method's name is
        both's, and so is what the session asks next (CS-DETECT).
        """
        if task["status"] == "error":
            return {"cancelled"} if task.get("statusMessage") == "cancelled" else {"failed"}
        if task["status"] not in FOUR_STATES:
            return super().statuses(task)
        status = FOUR_STATES[task["status"]]
        return {status} if status in ENDED else {"working", "input_required"}

    async def page_through(self) -> list[Reply]:
        """List all tasks, page by page."""
        pages: list[Reply] = []
        cursor: dict[str, Any] = {}
        while not pages or "nextCursor" in pages[-1].json.get("result", {}):
            pages.append(await self.client.request("tasks/list", cursor))
            cursor = {"cursor": pages[-1].json.get("result", {}).get("nextCursor")}
        return pages

    def speaks(self, result: Mapping[str, Any]) -> None:
        """Hold that a result has no key of another API."""
        hold(not _OF_THE_NEW & set(result), "a key of the new API:", result)
        meta = result.get("_meta") or {}
        hold(
            not any("protocolVersion" in key or "serverInfo" in key for key in meta),
            "a key of the new API:",
            meta,
        )


class Second(Legacy):
    """Another session of the same caller."""

    name = "second"


class Four(Legacy):
    """A client of the four-state API."""

    name = "four"
    verbs: ClassVar[Mapping[str, str]] = {"get": "status"}

    async def create(self, ttl_ms: int | None) -> Reply:
        """Call a tool that runs as a task."""
        asked = {} if ttl_ms is None else {"ttl": ttl_ms}
        call = {"name": "run", "arguments": self.arguments(ttl_ms), **asked}
        return await self.client.request("tasks/create", call)

    def handle(self, reply: Reply) -> str:
        """Give the handle that a create was answered with."""
        return str(reply.result["taskId"])


SEATS: Mapping[str, type[Seat]] = {one.name: one for one in (Modern, Legacy, Second, Four)}
