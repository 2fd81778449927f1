"""An authorization server on the handlers of mcp 2.3: registration, consent, tokens, refresh, introspection.

    python oauth_authority.py

Prints `listening on <port>`. Every consent is given at once, by the one user `ada`. A token lives for an hour
and names user and resource; what it is good for only the introspection tells.
`/expire` ends all tokens at once, `/grants` tells what was granted, in order, as [grant, scope, resource].
"""

import secrets
import socket
import time
import uuid
from typing import Any

import jwt
import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

USER = "ada"
LIFETIME_S = 3600


class Authority(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    """All of it in memory."""

    def __init__(self, issuer: str) -> None:
        self.issuer, self.secret = issuer, secrets.token_bytes(32)
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.refreshes: dict[str, RefreshToken] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.grants: list[list[str | None]] = []

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        may_ask = client_info.model_copy(update={"scope": "read write"})
        self.clients[str(client_info.client_id)] = may_ask

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        code = AuthorizationCode(
            code=secrets.token_urlsafe(), scopes=params.scopes or [], expires_at=time.time() + 60,
            client_id=str(client.client_id), code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource, subject=USER,
        )  # fmt: skip
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(
        self,
        client: OAuthClientInformationFull,  # noqa: ARG002 - the SDK's signature
        authorization_code: str,
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._grant("code", client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(
        self,
        client: OAuthClientInformationFull,  # noqa: ARG002 - the SDK's signature
        refresh_token: str,
    ) -> RefreshToken | None:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refreshes[refresh_token.token]
        return self._grant("refresh", client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        self.tokens.pop(token.token, None)

    def _grant(
        self, grant: str, client: OAuthClientInformationFull, scopes: list[str], resource: str | None
    ) -> OAuthToken:
        common: dict[str, Any] = {
            "client_id": str(client.client_id),
            "scopes": scopes,
            "resource": resource,
            "subject": USER,
        }
        expires_at = int(time.time()) + LIFETIME_S
        claims = {"iss": self.issuer, "sub": USER, "aud": resource, "exp": expires_at}
        claims["jti"] = str(uuid.uuid4())
        signed = jwt.encode(claims, self.secret, algorithm="HS256")
        access = AccessToken(token=signed, expires_at=expires_at, **common)
        refresh = RefreshToken(token=secrets.token_urlsafe(), expires_at=None, **common)
        self.tokens[access.token], self.refreshes[refresh.token] = access, refresh
        self.grants.append([grant, " ".join(scopes), resource])
        return OAuthToken(
            access_token=access.token, refresh_token=refresh.token, expires_in=LIFETIME_S,
            scope=" ".join(scopes),
        )  # fmt: skip


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    issuer = f"http://127.0.0.1:{port}"
    authority = Authority(issuer)

    async def introspect(request: Request) -> JSONResponse:
        token = authority.tokens.get(str((await request.form()).get("token")))
        if token is None:
            return JSONResponse({"active": False})
        return JSONResponse(
            {
                "active": True, "iss": issuer, "sub": token.subject, "aud": token.resource,
                "exp": token.expires_at, "scope": " ".join(token.scopes), "client_id": token.client_id,
                "token_type": "Bearer",
            }
        )  # fmt: skip

    async def expire(_: Request) -> JSONResponse:
        authority.tokens.clear()
        return JSONResponse({})

    async def grants(_: Request) -> JSONResponse:
        return JSONResponse(authority.grants)

    options = ClientRegistrationOptions(enabled=True, valid_scopes=["read", "write"], default_scopes=["read"])
    routes = create_auth_routes(authority, AnyHttpUrl(issuer), client_registration_options=options)
    app = Starlette(
        routes=[
            *routes,
            Route("/introspect", introspect, methods=["POST"]),
            Route("/expire", expire, methods=["POST"]),
            Route("/grants", grants),
        ]
    )
    print(f"listening on {port}", flush=True)  # noqa: T201 - told to who started it
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    server.run(sockets=[listener])


if __name__ == "__main__":
    main()
