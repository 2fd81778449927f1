"""What the demo plays: the same jobs by an old and a new client, each held against what must come out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from shim.audit.counted import counted
from shim.demo.clients import Client, Line, Outcome
from shim.demo.jobs import RpcError
from shim.demo.new_client import NewClient
from shim.demo.old_clients import OldClient
from shim.wire.errors import INVALID_PARAMS, METHOD_NOT_FOUND

_PATIENCE_S = 15
_TROUBLE = (RpcError, aiohttp.ClientError, OSError, TimeoutError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class Scene:
    """One job for each client, and what it must come to."""

    title: str
    tool: str
    expected: Outcome
    arguments: Mapping[str, Any] = field(default_factory=dict)
    task: bool = True
    speaks: bool = False
    """Whether a task must have said how far it is."""
    asks: int = 0
    """How many questions each client must be asked."""


SCENES = (
    Scene("A call that is answered at once", "greet", Outcome("Hello, you!"), {"name": "you"}, task=False),
    Scene(
        "A task that says how far it is", "resize_images", Outcome("Resized 3 images."),
        {"count": 3, "seconds": 0.9}, speaks=True,
    ),
    Scene(
        "A task that asks a question in the middle", "deploy", Outcome("Deployed to staging."),
        {"environment": "staging", "seconds": 0.6}, asks=1,
    ),
    Scene(
        "A task that ends with a tool's error", "fails", Outcome("The disk is full.", "tool error"),
        {"seconds": 0.3},
    ),
    Scene(
        "A task that ends with a JSON-RPC error", "crashes", Outcome("-32000 The worker crashed.", "error"),
        {"seconds": 0.3},
    ),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Played:
    """A scene that was played: what each client saw by its label, and what was not as expected."""

    title: str
    seen: tuple[tuple[str, Line], ...]
    faults: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cast:
    """Who plays: two callers, of whom the first also comes with a client of the new API."""

    old: OldClient
    new: NewClient
    also_new: NewClient
    """A new client of the old one's caller."""


async def play(cast: Cast) -> AsyncIterator[Played]:
    """Play every scene, both clients at the same time. Never raises for what a server answers."""
    both: tuple[Client, ...] = (cast.old, cast.new)
    for scene in SCENES:
        yield await _act(scene.title, {client: _job(client, scene) for client in both})
    yield await _act("A task that is cancelled", {client: _cancel(client) for client in both})
    yield await _act("The list of tasks", {cast.old: _list(cast.old), cast.new: _no_list(cast.new)})
    yield await _act(
        "A task of somebody else",
        {cast.old: _foreign(cast.old, cast.new), cast.new: _foreign(cast.new, cast.old)},
    )
    yield await _act("A task of one's own, by the other API", {cast.also_new: _own(cast.also_new, cast.old)})


Act = Awaitable[list[str]]
"""Does something and gives what was not as expected."""


async def _act(title: str, acts: Mapping[Client, Act]) -> Played:
    faults = await asyncio.gather(*(_guarded(client, act) for client, act in acts.items()))
    return Played(
        title,
        tuple((client.label, line) for client in acts for line in client.take_lines()),
        tuple(
            f"{client.label}: {fault}" for client, found in zip(acts, faults, strict=True) for fault in found
        ),
    )


async def _guarded(client: Client, act: Act) -> list[str]:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            return await act
    except _TROUBLE as exc:
        client.tell("", f"{type(exc).__name__}: {exc}")
        return [f"{type(exc).__name__}: {exc}"]


async def _job(client: Client, scene: Scene) -> list[str]:
    said, asked = len(client.said), client.asked
    outcome = await client.run(scene.tool, task=scene.task, **scene.arguments)
    faults = [] if outcome == scene.expected else [f"expected {scene.expected}, got {outcome}"]
    if scene.speaks and len(client.said) == said:
        faults.append("the task never said how far it is")
    if client.asked - asked != scene.asks:
        faults.append(f"expected {counted(scene.asks, 'question')}, got {client.asked - asked}")
    return faults


async def _cancel(client: Client) -> list[str]:
    task_id = await client.start("resize_images", count=4, seconds=600)
    state = await client.cancel(task_id)
    return [] if state == client.cancelled else [f"expected {client.cancelled!r}, got {state!r}"]


async def _list(old: OldClient) -> list[str]:
    listed = await old.list_tasks()
    states = ", ".join(task["status"] for task in listed)
    old.tell("tasks/list", f"{len(listed)} of its own, newest first: {states}")
    own = [task["taskId"] for task in listed] == old.started[::-1]
    return [] if own else ["expected its own tasks, all of them, and no others"]


async def _no_list(new: NewClient) -> list[str]:
    return await _refused(new, "tasks/list", lambda: new.request("tasks/list", {}), METHOD_NOT_FOUND)


async def _foreign(client: Client, other: Client) -> list[str]:
    task_id = other.started[0]
    return await _refused(
        client, f"{client.get_method}, not own", lambda: client.state(task_id), INVALID_PARAMS
    )


async def _own(new: NewClient, old: OldClient) -> list[str]:
    task = await new.state(old.started[0])
    outcome = Outcome.of(task.get("result", {}))
    new.tell("  its result", outcome)
    expected = SCENES[1].expected
    return [] if outcome == expected else [f"expected {expected}, got {outcome}"]


async def _refused(client: Client, sent: str, ask: Callable[[], Awaitable[Any]], code: int) -> list[str]:
    try:
        await ask()
    except RpcError as exc:
        client.tell(sent, Outcome.failed(exc.body))
        return [] if exc.body["code"] == code else [f"expected error {code}, got {exc.body['code']}"]
    return [f"expected error {code}, got an answer"]
