"""OWN-VOUCH: a stream that stays open lives no longer than the credential it was opened with."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.client import ModernClient
from tests.corners import lm, ml
from tests.corners.ml import HandClock
from tests.scripted import Scripted

pytestmark = pytest.mark.rule("OWN-VOUCH")

LISTEN = "subscriptions/listen"
SECONDS = 20


def token(clock: HandClock, signature: str = "s", seconds: float = SECONDS) -> dict[str, str]:
    """Alice's, which counts for so long."""
    claims: list[dict[str, Any]] = [
        {"alg": "none"},
        {"iss": "i", "sub": "alice", "exp": clock.now_ms() / 1000 + seconds},
    ]
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in claims)
    return {"Authorization": ".".join((f"Bearer {next(parts)}", next(parts), signature))}


async def test_a_relayed_get_stream_ends_with_its_credential(upstream: Scripted, tmp_path: Path) -> None:
    async with ml.corner(upstream, tmp_path) as corner, lm.LegacyClient(corner.app.url) as client:
        client.headers |= token(corner.clock)
        await client.initialize()
        async with client.get() as stream:
            theirs = await upstream.get_stream()
            await theirs.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            assert (await stream.message())["method"] == "notifications/tools/list_changed"
            await corner.clock.slept(SECONDS * 1_000)
            corner.clock.advance(SECONDS * 1_000)
            assert await stream.rest() == []
            await theirs.left()
        client.headers |= token(corner.clock, "t")
        async with client.get() as stream:
            await (await upstream.get_stream()).opened()


@pytest.mark.rule("LM-STREAM", "LM-RESUME")
async def test_a_hosted_get_stream_ends_with_its_credential_and_is_taken_up_with_the_next(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    theirs = modern_upstream.stream(LISTEN)
    async with lm.corner(modern_upstream, tmp_path) as corner:
        client = await corner.seated(token(corner.clock))
        async with client.get() as stream:
            first = await stream.next_raw()
            await corner.clock.slept(SECONDS * 1_000)
            corner.clock.advance(SECONDS * 1_000)
            assert await stream.rest() == []
        await theirs.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}})
        client.headers |= token(corner.clock, "t")
        async with client.get(last_event_id=first.id) as stream:
            assert (await stream.message())["method"] == "notifications/tools/list_changed"


@pytest.mark.rule("MM-1")
async def test_a_relayed_subscription_ends_with_its_credential(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with lm.corner(modern_upstream, tmp_path) as corner, ModernClient(corner.app.url) as client:
        client.headers |= token(corner.clock)
        theirs = modern_upstream.stream(LISTEN)
        wanted = {"notifications": {"toolsListChanged": True}}
        async with client.stream(LISTEN, wanted, id=7) as stream:
            await theirs.send({
                "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": wanted,
            })  # fmt: skip
            await stream.message()
            await corner.clock.slept(SECONDS * 1_000)
            corner.clock.advance(SECONDS * 1_000)
            [last] = await stream.rest()
            assert (last["id"], "result" in last) == (7, True)
            await theirs.left()


async def test_a_credential_that_counts_for_ever_ends_nothing(upstream: Scripted, tmp_path: Path) -> None:
    async with ml.corner(upstream, tmp_path) as corner, lm.LegacyClient(corner.app.url) as client:
        client.headers |= token(corner.clock, seconds=1e300)
        await client.initialize()
        async with client.get() as stream:
            theirs = await upstream.get_stream()
            await corner.clock.slept(3_600_000)
            corner.clock.advance(3_600_000)
            await theirs.send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
            assert (await stream.message())["method"] == "notifications/tools/list_changed"
