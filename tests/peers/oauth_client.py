"""A client that starts without any token, on mcp 1.30 or 2.3, whichever its environment has.

    python oauth_client.py URL AUTHORITY

Registers, gets consent and a token, calls `whoami`; calls `erase`, which wants more, and gets it; the
authorization server ends all tokens, the client calls `whoami` with what it fetches then. Prints what the
tools said, as a JSON list.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata
from pydantic import AnyUrl

REDIRECT = "http://127.0.0.1:1/callback"
Call = Callable[[str], Awaitable[Any]]


class Kept:
    """Tokens and registration in memory."""

    def __init__(self) -> None:
        self.tokens: Any = None
        self.client: Any = None

    async def get_tokens(self) -> Any:
        return self.tokens

    async def set_tokens(self, tokens: Any) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> Any:
        return self.client

    async def set_client_info(self, client_info: Any) -> None:
        self.client = client_info


class Browser:
    """Goes where the user would be sent, and brings back what the server put into the address."""

    def __init__(self, http: Any, wrapped: Callable[..., Any]) -> None:
        self.http, self.wrapped = http, wrapped
        self.landed: dict[str, list[str]] = {}

    async def go(self, url: str) -> None:
        async with self.http.AsyncClient(follow_redirects=False) as client:
            self.landed = parse_qs(urlsplit((await client.get(url)).headers["location"]).query)

    async def back(self) -> Any:
        return self.wrapped(self.landed["code"][0], self.landed["state"][0])


@asynccontextmanager
async def old(url: str) -> AsyncIterator[tuple[Any, Call]]:
    import httpx
    from mcp.client.session import ClientSession

    auth = provider(url, Browser(httpx, lambda code, state: (code, state)))
    async with (
        httpx.AsyncClient(auth=auth) as http,
        streamable_http_client(url, http_client=http) as (read, write, _),
        ClientSession(read, write) as session,
    ):
        await session.initialize()
        yield httpx, session.call_tool


@asynccontextmanager
async def new(url: str) -> AsyncIterator[tuple[Any, Call]]:
    import httpx2
    from mcp import Client
    from mcp.client.auth import AuthorizationCodeResult

    auth = provider(url, Browser(httpx2, lambda code, state: AuthorizationCodeResult(code=code, state=state)))
    async with (
        httpx2.AsyncClient(auth=auth) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        yield httpx2, client.call_tool


def provider(url: str, browser: Browser) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(client_name="a test", redirect_uris=[AnyUrl(REDIRECT)])
    return OAuthClientProvider(url, metadata, Kept(), browser.go, browser.back)


async def main(url: str, authority: str) -> None:
    try:
        import mcp.client.client  # noqa: F401 - only the new SDK has one

        connected = new(url)
    except ImportError:
        connected = old(url)
    async with connected as (http, call):
        said = [(await call(tool)).content[0].text for tool in ("whoami", "erase", "whoami")]
        async with http.AsyncClient() as client:
            await client.post(f"{authority}/expire")
        said.append((await call("whoami")).content[0].text)
    print(json.dumps(said))  # noqa: T201 - told to who started it


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
