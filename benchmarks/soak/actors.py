"""What the clients of a soak do, over and over: a round is one client, mostly of a caller never seen before.

A round that does not come to what it must raises; what a round provokes on purpose it takes for granted.
"""

import asyncio
import contextlib
import io
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any, TypeVar
from urllib.parse import urlsplit

import aiohttp

from shim.demo.clients import ENDED, YES, Client, Outcome
from shim.demo.jobs import Json, RpcError
from shim.demo.new_client import NewClient, modern_request
from shim.demo.old_clients import FourStateClient, OldClient

CALLER = "X-Api-Key"
"""The header that the demo's clients send; the soaked shims take the caller's name from it."""
STABLE_CALLERS = 20
_QUICK: Mapping[str, Any] = {"seconds": 0.6}
_LONG: Mapping[str, Any] = {"seconds": 600}
_STREAM_S = 4.0

C = TypeVar("C", bound=Client)


class Soaked:
    """One shim under load: where it is, and who comes next."""

    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        self.dice = random.Random(seed)
        self._count = 0

    def at(self, path: str) -> str:
        """Give the address of another endpoint of it."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}{path}"

    def caller(self) -> str:
        """Give a caller: a new one, or now and then one who was there before."""
        self._count += 1
        new = self.dice.random() < 0.7
        return f"new-{self._count}" if new else f"known-{self.dice.randrange(STABLE_CALLERS)}"

    @contextlib.asynccontextmanager
    async def client(self, kind: type[C], path: str = "/mcp") -> AsyncIterator[C]:
        """Be a client; one of the old API ends its session in half of the rounds only."""
        async with kind("soak", self.at(path), self.caller()) as one:
            try:
                yield one
            finally:
                if isinstance(one, OldClient) and self.dice.random() < 0.5:
                    await _post(one, "DELETE")


Actor = Callable[[Soaked], Awaitable[None]]


class Waits(FourStateClient):
    """A four-state client that waits by `tasks/result` instead of polling.

    So it need not know how a server says that it has a question.
    """

    def needs_input(self, task: Json) -> bool:
        """Wait at once."""
        return task["status"] not in ENDED


async def jobs(soaked: Soaked, kind: type[Client], path: str = "/mcp") -> None:
    """Run every kind of job to its end, a question among them."""
    async with soaked.client(kind, path) as one:
        _is(await one.run("greet", task=False, name="you"), Outcome("Hello, you!"))
        _is(await one.run("resize_images", count=2, **_QUICK), Outcome("Resized 2 images."))
        _is(await one.run("deploy", environment="x", **_QUICK), Outcome("Deployed to x."))
        _is(await one.run("fails", **_QUICK), Outcome("The disk is full.", "tool error"))
        _is(await one.run("crashes", **_QUICK), Outcome("-32000 The worker crashed.", "error"))
        if isinstance(one, OldClient) and len(await one.list_tasks()) < 4:
            raise AssertionError("tasks/list misses tasks")


async def cancels(soaked: Soaked, kind: type[Client]) -> None:
    """Start long tasks and cancel them."""
    async with soaked.client(kind) as one:
        for _ in range(2):
            task_id = await one.start("resize_images", count=2, **_LONG)
            if await one.cancel(task_id) != "cancelled":
                raise AssertionError("a cancelled task is not cancelled")


async def leaves_in_the_middle(soaked: Soaked, kind: type[Client]) -> None:
    """Vanish while a task is waited for, or while a call runs; then cancel from elsewhere."""
    async with soaked.client(kind) as one:
        task_id = await one.start("resize_images", count=2, **_LONG)
        waits = asyncio.ensure_future(_waits(one, task_id))
        await asyncio.sleep(0.5)
        waits.cancel()
        await asyncio.wait([waits])
        await one.cancel(task_id)
        plain = asyncio.ensure_future(one.run("resize_images", task=False, count=2, seconds=3))
        await asyncio.sleep(0.3)
        plain.cancel()
        await asyncio.wait([plain])


async def _waits(one: Client, task_id: str) -> None:
    if isinstance(one, OldClient):
        await one.request("tasks/result", {"taskId": task_id})
    else:
        await _reads(one, {"taskIds": [task_id]}, 600)


async def streams(soaked: Soaked, kind: type[Client]) -> None:
    """Keep a stream of one's own open while a task runs on it."""
    async with soaked.client(kind) as one:
        if isinstance(one, OldClient):
            listening = asyncio.ensure_future(_post(one, "GET", read_s=_STREAM_S))
            await one.run("resize_images", count=2, seconds=1)
        else:
            task_id = await one.start("resize_images", count=2, seconds=1)
            listening = asyncio.ensure_future(_reads(one, {"taskIds": [task_id]}, _STREAM_S))
        await listening


async def _reads(one: Client, wanted: Mapping[str, Any], seconds: float) -> None:
    """Read a subscription for so long, then go."""
    message, headers = modern_request(1, "subscriptions/listen", {"notifications": dict(wanted)})
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            async for _ in one.exchange(message, headers):
                pass


async def is_asked_in_a_call(soaked: Soaked, kind: type[NewClient]) -> None:
    """Be asked in the middle of a call, which is parked: come back with the answer, or do not."""
    async with soaked.client(kind) as one:
        call = {"name": "confirm", "arguments": {}}
        result = await one.request("tools/call", call)
        if result["resultType"] != "input_required" or soaked.dice.random() < 0.3:
            return
        answers = dict.fromkeys(result["inputRequests"], YES)
        again = {**call, "requestState": result["requestState"], "inputResponses": answers}
        _is(Outcome.of(await one.request("tools/call", again)), Outcome("The answer was accept."))


async def errs(soaked: Soaked) -> None:
    """Do what is refused, in both eras: each time the answer must be a refusal, and never a 500."""
    message, modern = modern_request(1, "tasks/get", {"taskId": "0" * 32})
    old = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": {"taskId": "0" * 32}}
    known = {**old, "method": "no/such"}
    lines: tuple[tuple[bytes | io.BytesIO, Mapping[str, str]], ...] = (
        (b"{", {}),
        (b"[]", {}),
        (json.dumps(message).encode(), modern),
        (json.dumps(message).encode(), {**modern, "Mcp-Method": "tasks/cancel"}),
        (json.dumps(message).encode(), {**modern, "MCP-Protocol-Version": "1999-01-01"}),
        (json.dumps(old).encode(), {"Mcp-Session-Id": "nobody's"}),
        (json.dumps(known).encode(), {}),
        (io.BytesIO(b" " * 5_000_000), {}),
    )
    headers = {CALLER: soaked.caller(), "Accept": "application/json, text/event-stream"}
    async with aiohttp.ClientSession(headers=headers) as http:
        for body, more in lines:
            sent = {"Content-Type": "application/json", **more}
            with contextlib.suppress(
                aiohttp.ClientOSError
            ):  # a body that is too large is not read to its end
                async with http.post(soaked.url, data=body, headers=sent) as answer:
                    said = await answer.json()
                    if "error" not in said or answer.status == 500:
                        raise AssertionError(f"{answer.status} {said} to {more}")


async def asks_for_anothers(soaked: Soaked) -> None:
    """Ask for another caller's task in both eras."""
    async with soaked.client(NewClient) as owner, soaked.client(OldClient) as thief:
        task_id = await owner.start("resize_images", count=2, **_QUICK)
        if owner._headers[CALLER] == thief._headers[CALLER]:
            return
        with contextlib.suppress(RpcError):
            await thief.state(task_id)
            raise AssertionError("another caller's task was shown")


async def does_not_read(soaked: Soaked) -> None:
    """Ask for much and read nothing of it, until one is thrown out."""
    message, headers = modern_request(1, "tools/call", {"name": "big", "arguments": {}})
    body = json.dumps(message).encode()
    place = urlsplit(soaked.url)
    lines = {
        "Host": place.netloc, "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream", "Content-Length": str(len(body)),
        CALLER: soaked.caller(), **headers,
    }  # fmt: skip
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    reader, writer = await asyncio.open_connection(place.hostname, place.port, limit=4096)
    try:
        writer.write(f"POST {place.path} HTTP/1.1\r\n{head}\r\n".encode() + body)
        await writer.drain()
        await asyncio.sleep(soaked.dice.uniform(0.2, 6.0))
        await reader.read(10)
    finally:
        writer.transport.abort()


async def _post(one: Client, method: str, *, read_s: float = 5.0) -> None:
    """Send a session's DELETE, or its GET, and read the answer for so long at most."""
    with contextlib.suppress(TimeoutError):
        async with (
            asyncio.timeout(read_s),
            one._http.request(method, one._url, headers=one._headers) as answer,
        ):
            async for _ in answer.content:
                pass


def _is(seen: Outcome, expected: Outcome) -> None:
    if seen != expected:
        raise AssertionError(f"{seen} instead of {expected}")


async def old_jobs(soaked: Soaked) -> None:
    """Run jobs by the experimental tasks."""
    await jobs(soaked, OldClient)


async def new_jobs(soaked: Soaked) -> None:
    """Run jobs by the extension."""
    await jobs(soaked, NewClient)


async def four_state_jobs(soaked: Soaked) -> None:
    """Run jobs by the four-state API."""
    await jobs(soaked, Waits, "/create-status")


async def old_cancels(soaked: Soaked) -> None:
    """Cancel by the experimental tasks."""
    await cancels(soaked, OldClient)


async def new_cancels(soaked: Soaked) -> None:
    """Cancel by the extension."""
    await cancels(soaked, NewClient)


async def old_leaves(soaked: Soaked) -> None:
    """Vanish from an open tasks/result."""
    await leaves_in_the_middle(soaked, OldClient)


async def new_leaves(soaked: Soaked) -> None:
    """Vanish from an open subscription."""
    await leaves_in_the_middle(soaked, NewClient)


async def old_streams(soaked: Soaked) -> None:
    """Keep a GET stream open."""
    await streams(soaked, OldClient)


async def new_streams(soaked: Soaked) -> None:
    """Keep a subscription open."""
    await streams(soaked, NewClient)


async def parked(soaked: Soaked) -> None:
    """Be asked in the middle of a call."""
    await is_asked_in_a_call(soaked, NewClient)


ACTORS: tuple[Actor, ...] = (
    old_jobs, new_jobs, four_state_jobs, old_cancels, new_cancels, old_leaves, new_leaves, old_streams,
    new_streams, parked, errs, asks_for_anothers, does_not_read,
)  # fmt: skip
