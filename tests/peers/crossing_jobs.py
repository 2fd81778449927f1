"""What a client does beside tasks, in words of no SDK: each job uses one feature and tells what came of it.

`crossing_legacy.py`, `crossing_modern.py` and `crossing_fastmcp.py` each bring a client as a `Peer`:

    python crossing_*.py URL [JOB ...] [--mode=MODE] [--turns=FILE] [--header=NAME=VALUE ...]

which prints {job: outcome}. Messages are shown as they are on the wire, `_meta` left out. Where several
clients run at once, FILE is locked by the one that listens for changes: the others announce none meanwhile.
"""

import argparse
import asyncio
import contextlib
import fcntl
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

Json = dict[str, Any]
JOB_TIMEOUT_S = 240
CONTENT = {
    "name": "Ada", "context": "the sea", "color": "blue", "response": "yes", "email": "ada@example.com",
}  # fmt: skip
ROOT, MODEL_SAYS = "file:///project", "Bonjour"
WATCHED, PAGE = "test://watched-resource", "https://example.com/sign-in"
CHANGES = {
    "notifications/tools/list_changed", "notifications/prompts/list_changed",
    "notifications/resources/list_changed", "notifications/resources/updated",
}  # fmt: skip


class RefusedError(Exception):
    """A request was answered with a JSON-RPC error."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Heard:
    """What reaches a client beside the answers to its requests, and what it is to answer itself."""

    action: str = "accept"
    asked: list[Any] = field(default_factory=list)
    progress: list[Any] = field(default_factory=list)
    logged: list[Any] = field(default_factory=list)
    notices: set[tuple[str, str | None]] = field(default_factory=set)
    _news: asyncio.Event = field(default_factory=asyncio.Event)

    def question(self, method: str, params: Json | None = None) -> None:
        """Keep what the server asked; an elicitation's id is of the server's choice."""
        shown = {key: value for key, value in (params or {}).items() if key != "_meta"}
        if "elicitationId" in shown:
            shown["elicitationId"] = "<id>"
        self.asked.append([method, shown])
        self._news.set()

    def elicited(self, params: Json) -> Json:
        """Keep an elicitation and answer it."""
        self.question("elicitation/create", params)
        if self.action != "accept" or params.get("mode") == "url":
            return {"action": self.action}
        wanted = params["requestedSchema"]["properties"]
        return {"action": "accept", "content": {key: CONTENT[key] for key in wanted}}

    def came(self, method: str, params: Json) -> None:
        """Keep a notification of a change."""
        self.notices.add((method, params.get("uri")))
        self._news.set()

    def told(self, progress: float, total: float | None, message: str | None) -> None:
        """Keep a step."""
        self.progress.append([progress, total, message])
        self._news.set()

    def said(self, level: str, data: Any, logger: str | None) -> None:
        """Keep a log message."""
        self.logged.append([level, data, logger])
        self._news.set()

    async def until(self, good: Callable[[], bool]) -> None:
        """Wait for what is still on its way."""
        while not good():
            self._news.clear()
            await self._news.wait()


class Peer(Protocol):
    """A connected client. What it is told goes to its `Heard`; results are what stands on the wire."""

    async def tools(self) -> list[Json]: ...
    async def call(
        self, name: str, arguments: Json, *, progress: bool = False, level: str | None = None
    ) -> Json: ...
    async def abandon(self, name: str, arguments: Json, begun: Callable[[], Awaitable[None]]) -> None:
        """Call, and cancel the call when it has begun."""

    async def prompts(self) -> list[Json]: ...
    async def prompt(self, name: str, arguments: dict[str, str]) -> Json: ...
    async def resources(self) -> list[Json]: ...
    async def templates(self) -> list[Json]: ...
    async def read(self, uri: str) -> Json: ...
    async def complete(self, ref: Json, name: str, value: str, context: dict[str, str] | None) -> Json: ...
    def hearing(self, uri: str) -> contextlib.AbstractAsyncContextManager[None]:
        """Hear of every change of a list, and of one resource's."""


Open = Callable[[Heard], contextlib.AbstractAsyncContextManager[Peer]]


# jobs


async def tools(open_: Open) -> Any:
    async with open_(Heard()) as peer:
        names = {tool["name"] for tool in await peer.tools()}
        return [{"greet", "touch"} <= names, text_of(await peer.call("greet", {"name": "Ada"}))]


async def prompts(open_: Open) -> Any:
    async with open_(Heard()) as peer:
        listed = {
            prompt["name"]: [one["name"] for one in prompt.get("arguments", [])]
            for prompt in await peer.prompts()
        }
        got = await peer.prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        unknown = await code_of(peer.prompt("no such prompt", {}))
        return [listed["test_prompt_with_arguments"], got["messages"], unknown]


async def resources(open_: Open) -> Any:
    async with open_(Heard()) as peer:
        listed = {one["uri"]: one["name"] for one in await peer.resources()}
        read = await peer.read("test://static-text")
        return [listed["test://static-text"], read["contents"], await code_of(peer.read("test://nothing"))]


async def templates(open_: Open) -> Any:
    async with open_(Heard()) as peer:
        listed = {one["uriTemplate"] for one in await peer.templates()}
        (read,) = (await peer.read("test://template/17/data"))["contents"]
        return ["test://template/{id}/data" in listed, read["mimeType"], json.loads(read["text"])]


async def completion(open_: Open) -> Any:
    async with open_(Heard()) as peer:
        of_prompt = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
        of_template = {"type": "ref/resource", "uri": "test://template/{id}/data"}
        return [
            await peer.complete(of_prompt, "arg1", "par", None),
            await peer.complete(of_prompt, "arg1", "pari", {"arg2": "!"}),
            (await peer.complete(of_template, "id", "17", None))["values"],
        ]


async def form(open_: Open) -> Any:
    return await asked_in_a_call(open_, Heard(), "test_elicitation", {"message": "Well?"})


async def form_declined(open_: Open) -> Any:
    return await asked_in_a_call(open_, Heard("decline"), "test_elicitation", {"message": "Well?"})


async def url(open_: Open) -> Any:
    return await asked_in_a_call(open_, Heard(), "test_elicitation_url", {"url": PAGE})


async def url_required(open_: Open) -> Any:
    """A call that is refused until a page was opened; the old era's clients call again by themselves."""
    heard, label = Heard(), uuid.uuid4().hex
    async with open_(heard) as peer:
        name, refused = "test_url_elicitation_required", None
        try:
            said = await peer.call(name, {"label": label})
        except RefusedError as error:
            refused = error.code
            said = await peer.call(name, {"label": label})
        return [heard.asked, refused, text_of(said)]


async def sampling(open_: Open) -> Any:
    return await asked_in_a_call(open_, Heard(), "test_sampling", {"prompt": "Well?"})


async def roots(open_: Open) -> Any:
    return await asked_in_a_call(open_, Heard(), "test_input_required_result_list_roots", {})


async def all_at_once(open_: Open) -> Any:
    heard, told = await asked_in_a_call(open_, Heard(), "test_input_required_result_multiple_inputs", {})
    return [sorted(method for method, _ in heard), json.loads(told)]


async def two_rounds(open_: Open) -> Any:
    heard, told = await asked_in_a_call(open_, Heard(), "test_input_required_result_multi_round", {})
    return [[params["message"] for _, params in heard], told]


async def asking_prompt(open_: Open) -> Any:
    heard = Heard()
    async with open_(heard) as peer:
        (message,) = (await peer.prompt("test_input_required_result_prompt", {}))["messages"]
        return [len(heard.asked), message["content"]["text"]]


async def asking_resource(open_: Open) -> Any:
    heard = Heard()
    async with open_(heard) as peer:
        (read,) = (await peer.read("test://asks-first"))["contents"]
        return [len(heard.asked), read["text"]]


async def progress(open_: Open) -> Any:
    heard = Heard()
    async with open_(heard) as peer:
        await peer.call("test_tool_with_progress", {}, progress=True)
        await heard.until(lambda: bool(heard.progress) and heard.progress[-1][0] == 100)
        return heard.progress


async def logging(open_: Open) -> Any:
    """Only what is a warning or worse."""
    heard = Heard()
    async with open_(heard) as peer:
        await peer.call("test_log_levels", {}, level="warning")
        await heard.until(lambda: "error" in {level for level, *_ in heard.logged})
        return heard.logged


async def logging_unasked(open_: Open) -> Any:
    """What is heard by who named no level."""
    heard = Heard()
    async with open_(heard) as peer:
        await peer.call("test_log_levels", {})
        return [level for level, *_ in heard.logged]


async def cancelling(open_: Open) -> Any:
    """The server is told, and the client's connection is good for more."""
    label = uuid.uuid4().hex
    async with open_(Heard()) as peer:

        async def shown(what: str) -> None:
            while label not in json.loads(text_of(await peer.call("calls", {})))[what]:  # noqa: ASYNC110 - elsewhere
                await asyncio.sleep(0.02)

        await peer.abandon("wait_for_cancel", {"label": label}, lambda: shown("begun"))
        await shown("cancelled")
        return "cancelled"


async def changes(open_: Open) -> Any:
    heard = Heard()
    async with open_(heard) as peer, peer.hearing(WATCHED):
        await peer.call("touch", {"uri": WATCHED})
        await heard.until(lambda: {method for method, _ in heard.notices} >= CHANGES)
        return sorted(heard.notices)


async def asked_in_a_call(open_: Open, heard: Heard, name: str, arguments: Json) -> Any:
    """What a call asked, and what it came to."""
    async with open_(heard) as peer:
        return [heard.asked, text_of(await peer.call(name, arguments))]


def text_of(result: Json) -> str:
    """The one text of a call's result."""
    (block,) = result["content"]
    return str(block["text"])


async def code_of(call: Awaitable[Any]) -> int | None:
    """The code a request is refused with."""
    try:
        await call
    except RefusedError as error:
        return error.code
    return None


JOBS: dict[str, Callable[[Open], Awaitable[Any]]] = {
    job.__name__: job
    for job in (
        tools, prompts, resources, templates, completion, form, form_declined, url, url_required, sampling,
        roots, all_at_once, two_rounds, asking_prompt, asking_resource, progress, logging, logging_unasked,
        cancelling, changes,
    )
}  # fmt: skip


ALONE = {"changes"}
"""What no other client may do at the same time: each would hear of the other's."""


@contextlib.asynccontextmanager
async def turn(file: Path) -> AsyncIterator[None]:
    """Wait until no other client has its turn."""
    with file.open("w") as lock:
        await asyncio.to_thread(fcntl.flock, lock, fcntl.LOCK_EX)
        yield


async def outcome_of(job: Callable[[Open], Awaitable[Any]], open_: Open) -> Any:
    """What a job came to, also if that is an error or nothing."""
    heard: list[Heard] = []

    def kept(one: Heard) -> contextlib.AbstractAsyncContextManager[Peer]:
        heard.append(one)
        return open_(one)

    try:
        return await asyncio.wait_for(job(kept), JOB_TIMEOUT_S)
    except RefusedError as error:
        return f"refused with {error.code}"
    except TimeoutError:
        return f"nothing came after {heard}"
    except Exception as error:  # noqa: BLE001 - the other jobs go on
        return f"broke with {error!r} after {heard}"


def main(
    connect: Callable[[str, dict[str, str], str, Heard], contextlib.AbstractAsyncContextManager[Peer]],
) -> None:
    """Run the jobs one after the other, each in a connection of its own."""
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("jobs", nargs="*", metavar="JOB", help=", ".join(JOBS))
    parser.add_argument("--mode", default="auto")
    parser.add_argument("--turns", type=Path)
    parser.add_argument("--header", action="append", default=[], help="NAME=VALUE")
    args = parser.parse_args()
    headers = dict(pair.split("=", 1) for pair in args.header)

    async def run() -> Json:
        def open_(heard: Heard) -> contextlib.AbstractAsyncContextManager[Peer]:
            return connect(args.url, headers, args.mode, heard)

        found = {}
        for name in args.jobs or JOBS:
            alone = turn(args.turns) if args.turns and name in ALONE else contextlib.nullcontext()
            async with alone:
                found[name] = await outcome_of(JOBS[name], open_)
        return found

    print(json.dumps(asyncio.run(run())))  # noqa: T201 - its output
