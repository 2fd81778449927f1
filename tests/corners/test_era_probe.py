"""ERA-PROBE: a verdict has a date, is asked for again, and never changes what a task is."""

import asyncio
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from shim.wire.era import Era
from tests.client import LegacyClient, ModernClient
from tests.corners import lm as modern_side
from tests.corners.ml import ALICE, Corner, corner
from tests.corners.mm import until
from tests.corners.test_lm_listen import CHANGED, announced
from tests.scripted import Error, Hang, Raw, Scripted, Stream, task, text, tool

AGAIN_MS = 60_000
AUTO: dict[str, Any] = {"upstream": {"dialect": "auto", "probe_again_ms": AGAIN_MS}}
LEGACY = Error(-32601, "Method not found", status=404)
MODERN = b'{"jsonrpc":"2.0","id":"p","result":{"supportedVersions":["2026-07-28"],"capabilities":{}}}'
DENIED = Raw(b"{}", 401, {"WWW-Authenticate": "Bearer"})
UNSUPPORTED = Error(-32022, "Unsupported protocol version", {"supported": ["2026-07-28"]}, 400)


def verdicts(ml: Corner) -> list[str]:
    return [event["verdict"] for event in ml.events("upstream.probed")]


async def heard(ml: Corner, count: int) -> None:
    """Wait until that many verdicts are in the log."""

    async def told() -> bool:
        return len(verdicts(ml)) >= count

    await until(told)


@pytest.mark.rule("ERA-PROBE")
async def test_a_verdict_is_dated_and_asked_for_again_after_a_while(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("server/discover", LEGACY)
    async with corner(upstream, tmp_path, **AUTO) as ml:
        assert ml.app.prober.verdict is not None
        at_ms = ml.app.prober.verdict.at_ms
        await ml.clock.slept(AGAIN_MS)
        ml.clock.advance(AGAIN_MS - 1)
        await ml.client.request("nothing")
        assert len(upstream.seen("server/discover")) == 1
        ml.clock.advance(1)
        await heard(ml, 2)
        assert ml.app.prober.verdict.at_ms == at_ms + AGAIN_MS
        async with aiohttp.ClientSession() as http, http.get(f"{ml.app.admin_url}/upstreams") as response:
            [shown] = (await response.json())["upstreams"]
    assert (shown["verdict"]["era"], shown["verdict"]["at_ms"]) == ("legacy", at_ms + AGAIN_MS)
    assert verdicts(ml) == ["legacy", "legacy"]
    assert all(event["evidence"] for event in ml.events("upstream.probed"))


@pytest.mark.rule("ERA-PROBE")
async def test_what_proves_nothing_is_reported_and_not_kept(upstream: Scripted, tmp_path: Path) -> None:
    upstream.once("server/discover", Raw(b"", 503), any_session=True)
    upstream.on("tools/call", text("hi"))
    async with corner(upstream, tmp_path, **AUTO) as ml:
        assert ml.app.prober.verdict is None
        assert (await ml.client.call("plain")).result["content"]
        upstream.once("server/discover", Raw(b"", 429), any_session=True)
        await ml.clock.slept(15_000)
        ml.clock.advance(15_000)
        await heard(ml, 2)
        await ml.clock.slept(30_000)
        ml.clock.advance(30_000)
        await heard(ml, 3)
        upstream.once("server/discover", Raw(b"", 401), any_session=True)
        kept = ml.app.prober.verdict
        await ml.clock.slept(AGAIN_MS)
        ml.clock.advance(AGAIN_MS)
        await heard(ml, 4)
        assert kept is not None
        assert ml.app.prober.era is kept.era
    # what was refused to the shim is then asked as a caller
    assert verdicts(ml)[:4] == ["inconclusive", "inconclusive", "legacy", "inconclusive"]


def guarded(answer: Any) -> Any:
    """What a server says that tells strangers nothing."""
    return lambda seen: answer if seen.headers.get("Authorization") == ALICE["Authorization"] else DENIED


@pytest.mark.rule("ERA-PROBE", "OWN-CREDENTIAL")
async def test_a_server_that_tells_strangers_nothing_is_asked_as_the_caller(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on("server/discover", guarded(Raw(MODERN)))
    modern_upstream.on("initialize", DENIED)
    modern_upstream.on("prompts/list", guarded({"resultType": "complete", "prompts": []}))
    async with corner(modern_upstream, tmp_path, **AUTO) as ml:
        ml.client.headers.pop("Authorization")
        assert (await ml.client.request("prompts/list")).status == 401
        ml.client.headers["Authorization"] = "Bearer wrong"
        assert (await ml.client.request("prompts/list")).status == 401
        ml.clock.advance(1_000)
        ml.client.headers |= ALICE
        first, second = await asyncio.gather(*(ml.client.request("prompts/list") for _ in range(2)))
    assert first.result["prompts"] == second.result["prompts"] == []
    assert verdicts(ml) == ["inconclusive", "inconclusive", "modern"]
    asked = [seen.headers.get("Authorization") for seen in modern_upstream.seen("server/discover")]
    assert asked == [None, "Bearer wrong", ALICE["Authorization"]]
    assert [one["corner"] for one in ml.events("request")][-2:] == ["MM", "MM"]


@pytest.mark.rule("ERA-PROBE", "OWN-CREDENTIAL")
async def test_nobody_waits_for_what_is_asked_as_another_caller(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on(
        "server/discover",
        lambda seen: (
            Hang() if seen.headers.get("Authorization") == "Bearer slow" else guarded(Raw(MODERN))(seen)
        ),
    )
    modern_upstream.on("initialize", DENIED)
    modern_upstream.on("prompts/list", {"resultType": "complete", "prompts": []})
    async with (
        corner(modern_upstream, tmp_path, **AUTO) as ml,
        ModernClient(ml.app.url, headers={"Authorization": "Bearer slow"}) as slow,
    ):
        held = asyncio.create_task(slow.request("prompts/list"))
        await modern_upstream.wait("server/discover", 2)
        assert (await ml.client.request("prompts/list")).result["prompts"] == []
        assert ml.app.prober.era is Era.MODERN
        assert not held.done()
        held.cancel()
        await asyncio.wait((held,))


@pytest.mark.rule("ERA-PROBE")
async def test_a_guarded_server_that_turns_modern_is_asked_as_the_caller_again(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    upstream = modern_upstream  # one that needs no session, for it changes into such a one
    upstream.on("server/discover", guarded(LEGACY))
    upstream.on("initialize", guarded(upstream.init_result))
    upstream.on("tools/list", {"tools": [tool("plain", "forbidden")]})
    upstream.on("tools/call", text("hi"))
    async with corner(upstream, tmp_path, **AUTO) as ml:
        assert (await ml.client.call("plain")).result["content"]
        assert ml.app.prober.verdict is not None
        assert ml.app.prober.era is Era.LEGACY
        upstream.on("server/discover", guarded(Raw(MODERN)))
        upstream.once("tools/call", UNSUPPORTED)
        await ml.client.call("plain")
        await heard(ml, 3)
        while ml.app.prober.era is Era.LEGACY:
            await ml.client.request("nothing")
    assert verdicts(ml)[:4] == ["inconclusive", "legacy", "inconclusive", "modern"]


@pytest.mark.rule("ERA-PROBE")
@pytest.mark.parametrize(
    ("method", "answer"),
    [("tools/call", UNSUPPORTED), ("initialize", UNSUPPORTED), ("initialize", LEGACY)],
    ids=["a call", "a handshake", "no initialize"],
)
async def test_an_answer_of_the_other_era_is_reason_to_ask_once(
    upstream: Scripted, tmp_path: Path, method: str, answer: Any
) -> None:
    upstream.on("server/discover", LEGACY)
    async with corner(upstream, tmp_path, **AUTO) as ml:
        upstream.once(method, answer)
        assert "error" in (await ml.client.call("plain")).json
        await heard(ml, 2)
        upstream.once(method, answer)
        assert "error" in (await ml.client.call("plain")).json
        await ml.client.request("nothing")
        assert len(upstream.seen("server/discover")) == 2
    assert verdicts(ml) == ["legacy", "legacy"]


@pytest.mark.rule("ERA-PROBE")
async def test_a_server_of_another_era_leaves_the_tasks_what_they_were(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("server/discover", LEGACY)
    upstream.on("tasks/get", task())
    async with corner(upstream, tmp_path, **AUTO) as ml:
        await ml.create()
        upstream.once("server/discover", Raw(MODERN), any_session=True)
        await ml.clock.slept(AGAIN_MS)
        ml.clock.advance(AGAIN_MS)
        await heard(ml, 2)
        assert (await ml.get())["status"] == "working"
        row = await ml.app.ledger.own_task(1)
    assert verdicts(ml)[:2] == ["legacy", "modern"]  # and then what the server says of itself again
    assert row.dialect == "experimental"


@pytest.mark.rule("ERA-PROBE")
async def test_a_server_whose_dialect_is_configured_is_not_asked(upstream: Scripted, tmp_path: Path) -> None:
    async with corner(upstream, tmp_path) as ml:
        ml.clock.advance(86_400_000)
        await ml.client.request("nothing")
    assert not upstream.seen("server/discover")
    assert not verdicts(ml)


@pytest.mark.rule("ERA-PROBE", "LM-RESUME")
async def test_a_session_that_the_shim_serves_is_found_again_when_the_server_turns_back(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    upstream = modern_upstream

    def speaks(era: Era) -> None:
        modern = era is Era.MODERN
        upstream.on("server/discover", modern_side.DISCOVER if modern else LEGACY)
        upstream.on("initialize", LEGACY if modern else upstream.init_result)

    async def turned(lm: modern_side.Corner, era: Era) -> None:
        speaks(era)
        await lm.clock.slept(AGAIN_MS)
        lm.clock.advance(AGAIN_MS)

        async def turned() -> bool:
            return lm.app.prober.era is era

        await until(turned)

    speaks(Era.MODERN)
    sections: dict[str, Any] = {**AUTO, "legacy": {"replay_ms": 10 * AGAIN_MS}}
    async with modern_side.corner(upstream, tmp_path, **sections) as lm:
        listen = upstream.stream("subscriptions/listen")
        async with lm.client.get() as stream:
            last = (await stream.next_raw()).id
            await listen.opened()
        await listen.send(announced(listen, "notifications/tools/list_changed"))
        await turned(lm, Era.LEGACY)
        upstream.get_answer = Raw(b"", 404, {})
        async with lm.client.get(last_event_id=last) as stream:
            assert stream.status == 404, "the session is over for this server: its client opens another"
        await turned(lm, Era.MODERN)
        async with lm.client.get(last_event_id=last) as stream:
            assert await stream.message() == CHANGED, "what was announced meanwhile is not lost"
        assert len(upstream.seen("subscriptions/listen")) == 1, "and there is one stream, not two"


@pytest.mark.rule("ERA-PROBE", "LM-STREAM")
async def test_a_session_of_a_server_that_turns_modern_goes_on_with_a_stream_of_the_shims(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("server/discover", LEGACY)
    async with corner(upstream, tmp_path, **AUTO) as ml, LegacyClient(ml.app.url, headers=ALICE) as client:
        await client.initialize()
        upstream.on("initialize", LEGACY)
        upstream.once("server/discover", *[modern_side.DISCOVER] * 5, any_session=True)
        listen = Stream()
        upstream.once("subscriptions/listen", listen, any_session=True)
        await ml.clock.slept(AGAIN_MS)
        ml.clock.advance(AGAIN_MS)
        await heard(ml, 2)
        async with client.get(last_event_id="the-servers-5") as stream:
            assert (stream.status, (await stream.next_raw()).id) == (200, "1-1")
            await listen.opened()
            await listen.send(announced(listen, "notifications/tools/list_changed"))
            assert await stream.message() == CHANGED
