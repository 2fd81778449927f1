"""A server that asks for tokens, on mcp 1.30 or 2.3, whichever its environment has.

    python oauth_server.py --issuer URL [--resource URL]

Prints `listening on <port>`. `whoami` tells whose token it was called with; `erase` wants the scope "write"
as well, and is refused without it (a step up). With `--resource` the server says that it is that, and takes
only tokens for it; without, it says its own address and takes tokens for any.
"""

import argparse
import json
import socket
import warnings
from typing import Any

import uvicorn

try:
    import httpx2 as httpx
    from mcp.server.mcpserver import MCPServer
except ImportError:
    import httpx
    from mcp.server.fastmcp import FastMCP as MCPServer
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl

warnings.simplefilter("ignore", DeprecationWarning)


class Introspection:
    """Asks the authorization server about tokens."""

    def __init__(self, issuer: str) -> None:
        self.url = f"{issuer}/introspect"

    async def verify_token(self, token: str) -> AccessToken | None:
        async with httpx.AsyncClient() as client:
            told = (await client.post(self.url, data={"token": token})).json()
        if not told["active"]:
            return None
        return AccessToken(
            token=token, client_id=told["client_id"], scopes=told["scope"].split(), expires_at=told["exp"],
            resource=told["aud"], subject=told["sub"],
        )  # fmt: skip


class StepUp:
    """Refuses a call of `erase` by a token without the scope for it."""

    def __init__(self, app: Any, metadata_url: str, verifier: Introspection) -> None:
        self.app = app
        self.challenge = (
            'Bearer error="insufficient_scope", scope="read write", '
            f'resource_metadata="{metadata_url}", error_description="erase wants more"'
        )
        self.verifier = verifier

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self.app(scope, receive, send)
            return
        body, more = b"", True
        while more:
            event = await receive()
            body, more = body + event.get("body", b""), event.get("more_body", False)
        if await self._refused(scope, body):
            headers = [(b"www-authenticate", self.challenge.encode()), (b"content-type", b"application/json")]
            await send({"type": "http.response.start", "status": 403, "headers": headers})
            await send({"type": "http.response.body", "body": b'{"error": "insufficient_scope"}'})
            return
        told = [{"type": "http.request", "body": body, "more_body": False}]

        async def again() -> Any:
            return told.pop() if told else await receive()

        await self.app(scope, again, send)

    async def _refused(self, scope: Any, body: bytes) -> bool:
        message = json.loads(body) if body else {}
        token = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        if message.get("method") != "tools/call" or message["params"]["name"] != "erase":
            return False
        known = await self.verifier.verify_token(token)
        return known is not None and "write" not in known.scopes


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--issuer", required=True)
    parser.add_argument("--resource")
    args = parser.parse_args()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    own = f"http://127.0.0.1:{port}/mcp"
    verifier = Introspection(args.issuer)
    settings = AuthSettings(
        issuer_url=AnyHttpUrl(args.issuer),
        resource_server_url=AnyHttpUrl(args.resource or own),
        required_scopes=["read"],
        validate_token_resource=args.resource is not None,
    )
    server = MCPServer("guarded", token_verifier=verifier, auth=settings)

    @server.tool()
    async def whoami() -> str:
        token = get_access_token()
        return f"{token.subject}: {' '.join(token.scopes)}" if token else "nobody"

    @server.tool()
    async def erase() -> str:
        return "erased"

    place = args.resource or own
    metadata_url = place.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
    app = StepUp(server.streamable_http_app(), metadata_url, verifier)
    print(f"listening on {port}", flush=True)  # noqa: T201 - told to who started it
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])


if __name__ == "__main__":
    main()
