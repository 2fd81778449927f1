"""What a scanner sends counts as nobody's use of the old API; what an anonymous client is served does."""

import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from shim.app import running
from shim.auditing.gate import Gate
from shim.auditing.logs import reading
from tests.client import LegacyClient
from tests.corners.lm import DISCOVER
from tests.scripted import Raw, Scripted, scripted
from tests.shim import config_for, events

pytestmark = pytest.mark.rule("OWN-UNKNOWN")

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
KEYS = {"sources": ["api_key"], "api_key": {"keys": {"nightly": "key-of-nightly-0123456789"}}}
JSON_TYPE = {"Content-Type": "application/json"}
OPEN: dict[str, Any] = {}

SCANS: dict[str, tuple[dict[str, Any], str, dict[str, str], bytes]] = {
    "a GET with no session": (OPEN, "GET", {}, b""),
    "a session that is not there": (OPEN, "POST", {"Mcp-Session-Id": "made-up"}, json.dumps(LIST).encode()),
    "no JSON": (OPEN, "POST", JSON_TYPE, b"GET / HTTP/1.0"),
    "a foreign page": (OPEN, "POST", {"Origin": "https://evil.example"}, json.dumps(LIST).encode()),
    "a form": (OPEN, "POST", {"Content-Type": "text/html"}, b"a=b"),
    "no credential": (KEYS, "POST", {}, json.dumps(LIST).encode()),
    "a bad key": (KEYS, "POST", {"X-Api-Key": "no-such-key"}, json.dumps(LIST).encode()),
    "a DELETE with no credential": (KEYS, "DELETE", {}, b""),
}  # fmt: skip


def server(era: str) -> Any:
    return scripted(sessions=era == "legacy")


def config(upstream: Scripted, folder: Path, era: str, identity: Mapping[str, Any]) -> Any:
    upstream.on("server/discover", DISCOVER)
    dialect = {"legacy": "experimental", "modern": "sep-2663"}[era]
    return config_for(upstream.url, folder, upstream={"dialect": dialect}, identity=identity)


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("scan", SCANS)
async def test_a_scanner_is_nobody_who_uses_the_old_api(tmp_path: Path, scan: str, era: str) -> None:
    identity, method, headers, body = SCANS[scan]
    async with (
        server(era) as upstream,
        running(config(upstream, tmp_path, era, identity)) as app,
        aiohttp.ClientSession() as http,
    ):
        sent = {**JSON_TYPE, **headers}
        async with http.request(method, app.url, data=body or None, headers=sent) as answer:
            assert 400 <= answer.status < 500
    [event] = events(tmp_path, "request")
    assert event["unidentified"]
    with reading([str(tmp_path / "audit.jsonl")], io.BytesIO()) as logs:
        found = Gate(logs, logs.span).ask("legacy-only-from:nightly")
    assert found.in_the_way == ()
    assert sum(row["requests"] for row in found.refused) == int(event["legacy"])


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_an_anonymous_client_that_is_served_is_a_caller(tmp_path: Path, era: str) -> None:
    async with (
        server(era) as upstream,
        running(config(upstream, tmp_path, era, OPEN)) as app,
        LegacyClient(app.url) as client,
    ):
        await client.initialize()
    assert not any(event.get("unidentified") for event in events(tmp_path, "request"))
    with reading([str(tmp_path / "audit.jsonl")], io.BytesIO()) as logs:
        found = Gate(logs, logs.span).ask("legacy-only-from:nightly")
    assert found.verdict == "unsafe"
    assert [row["caller"] for row in found.in_the_way if "requests" in row] == ["test-client 1"]


async def test_a_token_that_no_server_took_tells_of_nobody(tmp_path: Path) -> None:
    async with scripted() as upstream, running(config(upstream, tmp_path, "legacy", OPEN)) as app:
        upstream.once("initialize", Raw(b"", 401, {"WWW-Authenticate": "Bearer"}), any_session=True)
        async with LegacyClient(app.url, headers={"Authorization": "Bearer ran-out"}) as client:
            assert (await client.request("initialize", {"protocolVersion": "2025-11-25"})).status == 401
    [event] = events(tmp_path, "request")
    assert (event["unidentified"], event["http_status"], event["caller_kind"]) == (True, 401, "token")
