"""The SDKs' own OAuth across the shim: discovery, registration, consent, token, step-up, a new token."""

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from shim.app import running
from tests.peers.processes import oauth_authority, oauth_client, oauth_server
from tests.ports import free_port
from tests.shim import config_for, events

pytestmark = [pytest.mark.peers, pytest.mark.rule("ERRORS", "OWN-ID")]


@pytest.fixture
def public_url() -> str:
    """The address at which the shim will be."""
    return f"http://127.0.0.1:{free_port()}/mcp"


def introspecting(authority: str, public_url: str) -> dict[str, Any]:
    about = {"url": f"{authority}/introspect", "issuer": authority, "audience": [public_url], "cache_ms": 0}
    return {"sources": ["introspection"], "introspection": {**about, "auth": "bearer", "client_secret": "x"}}


@pytest.mark.parametrize("knows", ["its own address", "the public one", "and the shim checks too"])
@pytest.mark.parametrize("server", ["legacy", "modern"])
@pytest.mark.parametrize("client", ["legacy", "modern"])
async def test_a_client_without_a_token_gets_one(
    request: pytest.FixtureRequest, tmp_path: Path, public_url: str, client: str, server: str, knows: str
) -> None:
    python = {era: request.getfixturevalue(f"{era}_python") for era in ("legacy", "modern")}
    log = tmp_path / "peers.log"
    listen = {"port": int(public_url.split(":")[2].split("/", maxsplit=1)[0]), "public_url": public_url}
    async with oauth_authority(python["modern"], log=log) as authority:
        resource = None if knows == "its own address" else public_url
        identity = introspecting(authority, public_url) if knows == "and the shim checks too" else {}
        async with oauth_server(python[server], authority, resource, log=log) as url:
            config = config_for(url, tmp_path, listen=listen, identity=identity)
            async with running(config):
                said = await oauth_client(python[client], public_url, authority, log=log)
        async with aiohttp.ClientSession() as http, http.get(f"{authority}/grants") as answer:
            grants = await answer.json()
    assert said[:2] == ["ada: read", "erased"]
    assert [one.partition(":")[0] for one in said[2:]] == ["ada", "ada"]
    assert grants[:2] == [["code", "read", public_url], ["code", "read write", public_url]]
    assert {grant[2] for grant in grants} == {public_url}
    told = events(tmp_path)
    assert {one.get("http_status") for one in told} >= {200, 401, 403}
    verdicts = [one["verdict"] for one in told if one["event"] == "upstream.probed"]
    *before, last = verdicts  # it is asked for again every 15 s until it is known
    assert ({*before}, last) == ({"inconclusive"}, server), "only who has a token is told the era"
    callers = {one["caller"] for one in told if one.get("caller_kind") not in {None, "none"}}
    assert len(callers) == 1, "the caller of an old token is that of the next"
