"""OWN-CREDENTIAL: no request of one caller's, and none of the shim's own, carries another's credential."""

import asyncio
import contextlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import LegacyClient, ModernClient
from tests.corners import lm
from tests.corners.identities import IDENTITIES
from tests.provider import Provider
from tests.scripted import Scripted, Seen, scripted, task, text, tool
from tests.shim import config_for

pytestmark = pytest.mark.rule("OWN-CREDENTIAL", "OWN-ID")

ROUNDS = 3
BY_CREDENTIAL = [name for name in IDENTITIES if name not in {"api_key", "header"}]


def script(upstream: Scripted, *, modern: bool) -> None:
    """Let the server name each task after whom the call says it is for."""
    made = 0

    def call(seen: Seen) -> Any:
        nonlocal made
        made += 1
        task_id = f"{seen.params['arguments']['who']}-{made}-7c9e6679-7425-40de-944b-e07fc1f90ae7"
        return lm.made(task_id) if modern else {"task": task(task_id)}

    def get(seen: Seen) -> Any:
        task_id = seen.params["taskId"]
        ended = {"result": text("done")} if modern else {}
        return (lm.seen_as if modern else task)(task_id, "completed", **ended)

    if modern:
        upstream.on("server/discover", lm.DISCOVER)
    upstream.on("tools/list", lm.TOOLS if modern else {"tools": [tool("run", "optional")]})
    upstream.on("tools/call", call)
    upstream.on("tasks/get", get)
    upstream.on("tasks/result", text("done"))
    upstream.on("tasks/cancel", lambda seen: lm.ACK if modern else task(seen.params["taskId"], "cancelled"))


async def use(app: App, who: str, headers: dict[str, str]) -> None:
    """Do what clients of both eras do."""
    async with ModernClient(app.url, headers=headers) as new, LegacyClient(app.url, headers=headers) as old:
        made = await new.call("run", {"who": who})
        task_id = made.result["taskId"]
        async with new.stream("subscriptions/listen", {"notifications": {"taskIds": [task_id]}}) as stream:
            with contextlib.suppress(StopAsyncIteration):  # the modern server here has no such stream
                await stream.message()
            assert (await new.tasks("get", task_id)).result["taskId"] == task_id
        await new.tasks("cancel", task_id)
        await old.initialize()
        assert (await old.tasks("get", task_id)).result["taskId"] == task_id
        made = await old.call("run", {"who": who}, task={})
        task_id = made.result["task"]["taskId"]
        assert (await old.tasks("result", task_id)).result["content"]
        listed = (await old.request("tasks/list")).result["tasks"]
        assert {one["taskId"].partition("-")[0] for one in listed} == {who}


@pytest.mark.parametrize("dialect", ["experimental", "sep-2663", "auto"])
@pytest.mark.parametrize("credentials", ["pass", "service", "none"])
@pytest.mark.parametrize("source", BY_CREDENTIAL)
async def test_each_request_carries_its_own_callers_credential_or_what_the_config_says(
    provider: Provider, tmp_path: Path, source: str, credentials: str, dialect: str
) -> None:
    two = IDENTITIES[source](provider)
    whose = {two.alice["Authorization"]: "alice", two.bob["Authorization"]: "bob"}
    modern = dialect == "sep-2663"
    settings = {"dialect": dialect, "credentials": credentials}
    if credentials == "service":
        settings["service_token"] = "s3rvice"
    async with scripted(sessions=not modern) as upstream:
        script(upstream, modern=modern)
        config = config_for(upstream.url, tmp_path, upstream=settings, identity=two.identity)
        async with running(config) as app:
            callers = [("alice", two.alice), ("bob", two.bob)] * ROUNDS
            await asyncio.gather(*(use(app, who, headers) for who, headers in callers))
        requests = upstream.requests
    carried = {seen.headers.get("Authorization") for seen in requests}
    if credentials != "pass":
        assert carried == {"Bearer s3rvice" if credentials == "service" else None}
        return
    assert carried - {None} == whose.keys()
    of_session = defaultdict(set)
    for seen in requests:
        given = seen.headers.get("Authorization")
        if given is None:  # the look for what the server speaks is nobody's
            assert seen.method in {"server/discover", "initialize", "notifications/initialized"}, seen
            continue
        if seen.session is not None:
            of_session[seen.session].add(whose[given])
        told = json.dumps(seen.message or {})
        named = [who for who in ("alice", "bob") if f'"{who}' in told]
        assert named in ([], [whose[given]])
    assert all(len(callers) == 1 for callers in of_session.values())
    assert bool(of_session) is not modern
