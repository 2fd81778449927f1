"""OWN-* and KEYS in LM: nobody reaches what is another's, no key of the new API a legacy client."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.corners.lm import BOB, asks, corner, made, seen_as
from tests.corners.ml import ALICE, accept
from tests.peers.keys import keys_of
from tests.scripted import Scripted, text

ALICES_KEY, BOBS_KEY = {"X-Forwarded-User": "alice"}, {"X-Forwarded-User": "bob"}
PAIRS: dict[str, tuple[dict[str, Any], dict[str, str], dict[str, str]]] = {
    "token": ({}, ALICE, BOB),
    "session": ({}, {}, {}),
    "token and session": ({}, ALICE, {}),
    "header": ({"sources": ("header",)}, ALICES_KEY, BOBS_KEY),
}
FOREIGN = {
    "resultType", "ttlMs", "pollIntervalMs", "cacheScope", "inputRequests", "requestState", "inputResponses",
    "io.modelcontextprotocol/serverInfo", "io.modelcontextprotocol/subscriptionId",
}  # fmt: skip


@pytest.mark.rule("OWN-CHECK", "OWN-ID", "LL-OWN", "LM-RESULT")
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("has_session", [True, False])
@pytest.mark.parametrize("pair", PAIRS)
async def test_a_foreign_task_is_one_that_is_not_there(
    modern_upstream: Scripted, tmp_path: Path, pair: str, *, has_session: bool, local: bool
) -> None:
    identity, alice, bob = PAIRS[pair]
    async with corner(modern_upstream, tmp_path, identity=identity, client={"headers": alice}) as lm:
        if local:
            modern_upstream.once("tools/call", {"resultType": "complete", **text("done")})
            task_id = (await lm.client.call("run", task={})).result["task"]["taskId"]
        else:
            task_id = await lm.create()
        stranger = await lm.seated(bob, session=has_session)
        before = len(modern_upstream.seen("tasks/get"))
        pairs = [
            [await stranger.tasks(verb, one, id=7) for one in (task_id, "never-was")]
            for verb in ("get", "result", "cancel")
        ]
        listed = await stranger.request("tasks/list")
        mine = await lm.client.tasks("get", task_id)
    for foreign, unknown in pairs:
        assert foreign.error["code"] == -32602
        assert (foreign.status, foreign.body) == (unknown.status, unknown.body)
    assert listed.result == {"tasks": []}
    assert mine.result["taskId"] == task_id
    assert len(modern_upstream.seen("tasks/get")) - before <= 1
    assert modern_upstream.seen("tasks/cancel") == []
    assert [event["reason"] for event in lm.events("denied")] == ["not_owner", "unknown_task"] * 3


@pytest.mark.rule("KEYS", "LM-STREAM", "LM-INPUT")
async def test_no_key_of_the_new_api_reaches_a_legacy_client(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    payload = {"content": [], "structuredContent": dict.fromkeys(FOREIGN, 1)}
    modern_upstream.on("tasks/get", asks("k"))
    async with corner(modern_upstream, tmp_path, session=False) as lm:
        said = [(await lm.client.initialize()).json, (await lm.client.request("tools/list")).json]
        async with lm.client.get() as stream:
            modern_upstream.once("tools/call", made())
            said.append((await lm.client.call("run", task={})).json)
            question = await lm.ticking(asyncio.ensure_future(stream.message()))
            said.append((await lm.client.tasks("get", "task-1")).json)
            await lm.client.respond(question["id"], accept())
            await modern_upstream.wait("tasks/update")
            modern_upstream.on("tasks/get", seen_as("task-1", "completed", result=payload))
            said.append((await lm.ticking(asyncio.ensure_future(lm.client.tasks("result", "task-1")))).json)
            said.append((await lm.client.request("tasks/list")).json)
            while True:
                said.append(await lm.ticking(asyncio.ensure_future(stream.message())))
                if said[-1]["params"].get("status") == "completed":
                    break
    assert {key for message in [*said, question] for key in keys_of(message)} & FOREIGN == set()
    assert said[4]["result"]["structuredContent"] == payload["structuredContent"]
    states = [message["params"]["status"] for message in said if "method" in message]
    assert states[-1] == "completed"
    assert states[0] == "input_required"


@pytest.mark.rule("LM-STREAM")
async def test_a_session_has_one_stream(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        async with lm.client.get(), lm.client.get() as second:
            assert second.status == 409
        while True:  # once the first has gone there may be another
            async with lm.client.get() as third:
                if third.status == 200:
                    break
