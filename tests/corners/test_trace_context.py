"""`_meta` of a request and W3C trace context: what a client says in one place a server finds in both."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from tests.client import LegacyClient
from tests.corners import lm, ml, mm
from tests.scripted import Scripted, Seen, scripted, text
from tests.shim import config_for

PARENT = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
FOREIGN = {"com.example/big": 9007199254740993, "com.example/text": "é"}
KEYS = ("traceparent", "tracestate", "baggage")
CASES: list[tuple[dict[str, str], dict[str, str]]] = [
    ({"traceparent": PARENT, "tracestate": "a=1", "baggage": "b=2"}, {}),
    ({}, {"traceparent": PARENT, "tracestate": "a=1", "baggage": "b=2"}),
    ({"traceparent": PARENT}, {"traceparent": OTHER}),
    ({}, {}),
]


@pytest.fixture
async def modern_upstream() -> AsyncIterator[Scripted]:
    async with scripted(sessions=False) as server:
        yield server


def came(seen: Seen) -> tuple[dict[str, Any], dict[str, str]]:
    """The trace context in a request's `_meta` and in its headers; foreign keys are held on the way."""
    meta = seen.params["_meta"]
    assert FOREIGN.items() <= meta.items()
    in_headers = {key: seen.headers[key] for key in KEYS if key in seen.headers}
    return {key: meta[key] for key in KEYS if key in meta}, in_headers


@pytest.mark.rule("HEADERS", "HUB-5")
@pytest.mark.parametrize(("meta", "headers"), CASES)
async def test_ml(tmp_path: Path, meta: dict[str, str], headers: dict[str, str]) -> None:
    async with scripted() as upstream, ml.corner(upstream, tmp_path) as here:
        upstream.on("tools/call", text("done"))
        await here.client.call("plain", meta={**meta, **FOREIGN}, headers=headers)
        assert came(upstream.seen("tools/call")[0]) == ({**headers, **meta}, {**meta, **headers})


@pytest.mark.rule("HEADERS", "LM-META", "HUB-5")
@pytest.mark.parametrize(("meta", "headers"), CASES)
async def test_lm(
    modern_upstream: Scripted, tmp_path: Path, meta: dict[str, str], headers: dict[str, str]
) -> None:
    modern_upstream.on("tools/call", {"resultType": "complete", **text("done")})
    async with lm.corner(modern_upstream, tmp_path) as here:
        params = {"name": "run", "arguments": {}, "_meta": {**meta, **FOREIGN}}
        await here.client.request("tools/call", params, headers=headers)
        assert came(modern_upstream.seen("tools/call")[0]) == ({**headers, **meta}, {**meta, **headers})


@pytest.mark.rule("HEADERS", "LL-1")
@pytest.mark.parametrize(("meta", "headers"), CASES)
async def test_ll_both_pass_as_they_came(
    tmp_path: Path, meta: dict[str, str], headers: dict[str, str]
) -> None:
    async with (
        scripted() as upstream,
        running(config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})) as app,
        LegacyClient(app.url) as client,
    ):
        upstream.on("tools/call", text("done"))
        await client.initialize()
        params = {"name": "plain", "arguments": {}, "_meta": {**meta, **FOREIGN}}
        await client.request("tools/call", params, headers=headers)
        assert came(upstream.seen("tools/call")[0]) == (meta, headers)


@pytest.mark.rule("HEADERS", "MM-1")
@pytest.mark.parametrize(("meta", "headers"), CASES)
async def test_mm_both_pass_as_they_came(
    tmp_path: Path, meta: dict[str, str], headers: dict[str, str]
) -> None:
    async with mm.corner(tmp_path) as here:
        here.upstream.on("tools/call", mm.result())
        await here.client.call("run", meta={**meta, **FOREIGN}, headers=headers)
        assert came(here.upstream.seen("tools/call")[0]) == (meta, headers)
