"""ERRORS: what tells a client where its tokens come from reaches it, under the address that it knows."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from shim.app import App, running
from shim.config import Config
from tests.client import LegacyClient, ModernClient
from tests.scripted import Error, Raw, Scripted
from tests.shim import config_for

pytestmark = pytest.mark.rule("ERRORS")

PUBLIC = "https://mcp.example.org/tools/mcp"
WELL_KNOWN = "/.well-known/oauth-protected-resource"
DOCUMENT = {
    "resource": "http://10.0.0.7:8000/mcp",
    "authorization_servers": ["https://login.example.org"],
    "scopes_supported": ["a", "b"],
    "signed_metadata": "e30.e30.x",
    "x_more": {"resource": "http://10.0.0.7:8000/mcp"},
}


@asynccontextmanager
async def shim(
    upstream: Scripted, folder: Path, public: str | None = PUBLIC, /, **sections: Any
) -> AsyncIterator[App]:
    sections = {"upstream": {"dialect": "experimental"}, **sections}
    listen = {} if public is None else {"listen": {"public_url": public}}
    async with running(config_for(upstream.url, folder, **listen, **sections)) as app:
        yield app


async def fetched(app: App, path: str, method: str = "GET", **options: Any) -> tuple[int, Any]:
    base = app.url.removesuffix("/mcp")
    async with (
        aiohttp.ClientSession() as client,
        client.request(method, base + path, allow_redirects=False, **options) as answer,
    ):
        body = await answer.read()
        return answer.status, json.loads(body) if body else None


def shown(resource: str) -> dict[str, Any]:
    """The upstream's document as the shim gives it."""
    return {name: value for name, value in DOCUMENT.items() if name != "signed_metadata"} | {
        "resource": resource
    }


@pytest.mark.parametrize(
    ("path", "resource"),
    [
        ("/tools/mcp", PUBLIC),
        ("/tools/legacy", "https://mcp.example.org/tools/legacy"),
        ("/tools/modern", "https://mcp.example.org/tools/modern"),
        ("", PUBLIC),
    ],
)
@pytest.mark.parametrize("place", ["/mcp", ""])
async def test_the_metadata_names_the_public_address(
    upstream: Scripted, tmp_path: Path, path: str, resource: str, place: str
) -> None:
    upstream.beside[WELL_KNOWN + place] = Raw(json.dumps(DOCUMENT))
    async with shim(upstream, tmp_path) as app:
        answer = await fetched(app, WELL_KNOWN + path, headers={"Authorization": "Bearer secret"})
    assert answer == (200, shown(resource))
    assert all("Authorization" not in seen.headers for seen in upstream.requests)


async def test_without_a_public_address_it_comes_as_it_is(upstream: Scripted, tmp_path: Path) -> None:
    upstream.beside[f"{WELL_KNOWN}/mcp"] = Raw(json.dumps(DOCUMENT))
    async with shim(upstream, tmp_path, None) as app:
        assert await fetched(app, f"{WELL_KNOWN}/mcp") == (200, DOCUMENT)


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (Raw(b"", 404), 404),
        (Raw(b"", 302, {"Location": "http://127.0.0.1:1/"}), 404),
        (Raw(b"{}", 503), 502),
        (Raw(b"[1]"), 502),
        (Raw(b'{"a": '), 502),
        (Raw(b'{"a": "' + b"x" * 70_000 + b'"}'), 502),
    ],
)
async def test_no_document_is_an_error(upstream: Scripted, tmp_path: Path, answer: Raw, status: int) -> None:
    upstream.beside[WELL_KNOWN] = answer
    async with shim(upstream, tmp_path, limits={"frame_bytes": 65_536}) as app:
        given, body = await fetched(app, WELL_KNOWN)
    assert given == status
    assert body["error"]["message"]


async def test_only_the_document_can_be_had_there(upstream: Scripted, tmp_path: Path) -> None:
    upstream.beside[WELL_KNOWN] = Raw(json.dumps(DOCUMENT))
    async with shim(upstream, tmp_path) as app:
        assert (await fetched(app, WELL_KNOWN, "POST", json={}))[0] == 405
        assert (await fetched(app, f"{WELL_KNOWN}/elsewhere"))[0] == 404
        assert (await fetched(app, "/.well-known/oauth-authorization-server"))[0] == 404
    assert upstream.requests == []


async def test_a_server_that_does_not_see_callers_does_not_speak_for_them(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.beside[WELL_KNOWN] = Raw(json.dumps(DOCUMENT))
    service = {"dialect": "experimental", "credentials": "none"}
    async with shim(upstream, tmp_path, upstream=service) as app:
        assert (await fetched(app, WELL_KNOWN))[0] == 404


async def test_the_shim_describes_itself(upstream: Scripted, tmp_path: Path) -> None:
    identity = {
        "sources": ["token"],
        "authorization_servers": ["https://login.example.org"],
        "scopes": ["mcp:tools"],
    }
    async with shim(upstream, tmp_path, identity=identity) as app:
        described = await fetched(app, f"{WELL_KNOWN}/tools/mcp")
        async with ModernClient(app.url) as client:
            refused = await client.request("tools/list")
    assert described == (
        200,
        {
            "resource": PUBLIC,
            "authorization_servers": ["https://login.example.org"],
            "bearer_methods_supported": ["header"],
            "scopes_supported": ["mcp:tools"],
        },
    )
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"] == (
        f'Bearer resource_metadata="https://mcp.example.org{WELL_KNOWN}/tools/mcp"'
    )
    assert upstream.requests == []


def test_describing_needs_an_address() -> None:
    with pytest.raises(ValueError, match=r"authorization_servers: needs listen\.public_url"):
        Config.model_validate({"identity": {"authorization_servers": ["https://login.example.org"]}})


@pytest.mark.parametrize("status", [401, 403])
@pytest.mark.parametrize("dialect", ["experimental", "sep-2663"])
@pytest.mark.parametrize("kind", [ModernClient, LegacyClient])
@pytest.mark.parametrize(("pinned", "path"), [("", "/tools/mcp"), ("pinned", "")])
async def test_a_challenge_comes_whole(
    upstream: Scripted, modern_upstream: Scripted, tmp_path: Path, status: int, dialect: str,
    kind: type[ModernClient] | type[LegacyClient], pinned: str, path: str,
) -> None:  # fmt: skip
    server = upstream if dialect == "experimental" else modern_upstream
    challenge = 'Bearer error="insufficient_scope", scope="a b", resource_metadata="%s", realm="x"'
    headers = {"Content-Type": "application/json", "WWW-Authenticate": challenge % "http://up/x"}
    denied = Raw(b'{"error": "as the SDKs say it"}', status, headers)
    for method in ("initialize", "server/discover", "tools/list", "tools/call"):
        server.on(method, denied)
    era = "/modern" if kind is ModernClient else "/legacy"
    async with shim(server, tmp_path, upstream={"dialect": dialect}) as app:
        url = app.url.removesuffix("/mcp") + era if pinned else app.url
        async with kind(url, headers={"Authorization": "Bearer alice"}) as client:
            reply = await client.request("tools/list" if kind is ModernClient else "initialize")
    assert (reply.status, reply.headers.getall("WWW-Authenticate")) == (
        status,
        [challenge % f"https://mcp.example.org{WELL_KNOWN}{path or '/tools' + era}"],
    )


async def test_the_public_host_is_one_of_ours(upstream: Scripted, tmp_path: Path) -> None:
    upstream.beside[WELL_KNOWN] = Raw(json.dumps(DOCUMENT))
    async with shim(upstream, tmp_path) as app:
        ours = await fetched(app, WELL_KNOWN, headers={"Host": "mcp.example.org"})
        other = await fetched(app, WELL_KNOWN, headers={"Host": "rebound.example"})
    assert (ours[0], other[0]) == (200, 403)


async def test_only_a_refusal_is_a_challenge(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tools/list", Error(-32602, 'Bearer resource_metadata="u"'))
    async with (
        shim(upstream, tmp_path) as app,
        LegacyClient(app.url, headers={"Authorization": "Bearer alice"}) as client,
    ):
        await client.initialize()
        reply = await client.request("tools/list")
    assert reply.error["message"] == 'Bearer resource_metadata="u"'
