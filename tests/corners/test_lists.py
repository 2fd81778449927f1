"""What goes with lists and other plain answers: cache hints and cursors, in every corner."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from tests.client import LegacyClient, ModernClient
from tests.corners import lm, ml, mm
from tests.scripted import Raw, Scripted, Seen, scripted, text, tool
from tests.shim import config_for

URI = "file:///a"
CACHEABLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tools/list": ({}, {"tools": [tool("run")]}),
    "prompts/list": ({}, {"prompts": []}),
    "resources/list": ({}, {"resources": []}),
    "resources/templates/list": ({}, {"resourceTemplates": []}),
    "resources/read": ({"uri": URI}, {"contents": [{"uri": URI, "text": "x"}]}),
}
OTHERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "tools/call": ({"name": "plain", "arguments": {}}, text("hi")),
    "prompts/get": ({"name": "p"}, {"messages": []}),
    "completion/complete": (
        {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}},
        {"completion": {"values": []}},
    ),
}
HINTS = {"ttlMs": 60_000, "cacheScope": "public"}
LISTS = tuple(method for method in CACHEABLE if method.endswith("/list"))
CURSORS = [
    '"page 2"',
    '""',
    r'"\u00e9\ud83d\ude00\/"',
    '"é😀"',
    r'"\"\\\n"',
    r'"\ud800"',
    '"' + "x" * 5_000 + '"',
]
"""As they stand on the wire: a cursor is nobody's but the server's."""


@pytest.fixture
async def modern_upstream() -> AsyncIterator[Scripted]:
    async with scripted(sessions=False) as server:
        yield server


@pytest.mark.rule("ML-TOOLS", "KEYS")
@pytest.mark.parametrize("method", [*CACHEABLE, *OTHERS])
async def test_ml_hints_are_put_on_what_may_be_cached_and_on_nothing_else(
    tmp_path: Path, method: str
) -> None:
    params, result = {**CACHEABLE, **OTHERS}[method]
    async with scripted() as upstream, ml.corner(upstream, tmp_path) as here:
        upstream.on(method, result)
        shown = (await here.client.request(method, params)).result
    hints = {"ttlMs": 0, "cacheScope": "private"} if method in CACHEABLE else {}
    assert {key: shown.get(key) for key in HINTS if key in shown} == hints
    assert shown.items() >= {**result, "resultType": "complete"}.items()


@pytest.mark.rule("KEYS", "LM-TOOLS")
@pytest.mark.parametrize("method", [*CACHEABLE, *OTHERS])
async def test_lm_hints_are_taken_off(modern_upstream: Scripted, tmp_path: Path, method: str) -> None:
    params, result = {**CACHEABLE, **OTHERS}[method]
    modern_upstream.on(method, {"resultType": "complete", **result, **HINTS})
    async with lm.corner(modern_upstream, tmp_path) as here:
        shown = (await here.client.request(method, params)).result
    for one in shown.get("tools", ()):
        del one["execution"]
    assert shown == result


@pytest.mark.rule("MM-1")
@pytest.mark.parametrize("method", CACHEABLE)
async def test_mm_hints_pass(tmp_path: Path, method: str) -> None:
    params, result = CACHEABLE[method]
    async with mm.corner(tmp_path) as here:
        here.upstream.on(method, {"resultType": "complete", **result, **HINTS})
        shown = (await here.client.request(method, params)).result
    assert shown == {"resultType": "complete", **result, **HINTS}


def paged(method: str, cursor: str, **fields: Any) -> Any:
    """An answer whose cursor stands on the wire as given."""
    page = json.dumps({**CACHEABLE[method][1], **fields})[:-1]

    def answer(seen: Seen) -> Raw:
        return Raw(f'{{"jsonrpc":"2.0","id":{json.dumps(seen.id)},"result":{page},"nextCursor":{cursor}}}}}')

    return answer


async def holds(upstream: Scripted, client: ModernClient | LegacyClient, method: str, cursor: str) -> None:
    """A cursor comes to the client and goes back to the server, byte for byte."""
    first = await client.request(method)
    assert f'"nextCursor":{cursor}'.encode() in first.body.replace(b'": ', b'":')
    message = client.build(method, {"cursor": 7}, id=99)
    body = json.dumps(message).replace('"cursor": 7', f'"cursor": {cursor}').encode()
    own = client.own_headers(message)
    await client.send(body, headers={**own, **client.headers})
    seen = [one.body for one in upstream.seen(method) if b'"cursor"' in one.body]
    assert len(seen) == 1
    assert b'"cursor":' + cursor.encode() in seen[0].replace(b'"cursor": ', b'"cursor":')


@pytest.mark.rule("HUB-5", "ML-TOOLS")
@pytest.mark.parametrize("cursor", CURSORS)
@pytest.mark.parametrize("method", LISTS)
async def test_ml_cursors(tmp_path: Path, method: str, cursor: str) -> None:
    async with scripted() as upstream, ml.corner(upstream, tmp_path) as here:
        upstream.on(method, paged(method, cursor))
        await holds(upstream, here.client, method, cursor)


@pytest.mark.rule("HUB-5", "LM-TOOLS")
@pytest.mark.parametrize("cursor", CURSORS)
@pytest.mark.parametrize("method", LISTS)
async def test_lm_cursors(modern_upstream: Scripted, tmp_path: Path, method: str, cursor: str) -> None:
    modern_upstream.on(method, paged(method, cursor, resultType="complete"))
    async with lm.corner(modern_upstream, tmp_path) as here:
        await holds(modern_upstream, here.client, method, cursor)


@pytest.mark.rule("HUB-5", "MM-1")
@pytest.mark.parametrize("cursor", CURSORS)
async def test_mm_cursors(tmp_path: Path, cursor: str) -> None:
    async with mm.corner(tmp_path) as here:
        here.upstream.on("tools/list", paged("tools/list", cursor, resultType="complete"))
        await holds(here.upstream, here.client, "tools/list", cursor)


@pytest.mark.rule("HUB-5", "LL-1")
@pytest.mark.parametrize("cursor", CURSORS)
async def test_ll_cursors(tmp_path: Path, cursor: str) -> None:
    async with (
        scripted() as upstream,
        running(config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})) as app,
        LegacyClient(app.url) as client,
    ):
        upstream.on("tools/list", paged("tools/list", cursor))
        await client.initialize()
        await holds(upstream, client, "tools/list", cursor)
