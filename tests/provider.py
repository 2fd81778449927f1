"""An identity provider for tests: it publishes keys, signs tokens, answers introspection, fails on demand.

async with identity_provider(clock) as provider:
    config_for(url, folder, identity=provider.jwt())
    headers = provider.bearer("alice")                # a signed token, good for an hour
    provider.keys_answer = Answer(b"", 503)           # from now on the key set is not to be had
    provider.rotate("k2")                             # lists another key; sign with kid="k2"
"""

import asyncio
import base64
import functools
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

from shim.clock import Clock

ISSUER = "https://issuer.example"
AUDIENCE = "https://mcp.example/mcp"
HOUR_S = 3600
SECRET = "shim-s3cret"
PATIENCE_MS = 120_000
"""How long a shim waits for it: only what hangs on purpose takes long, and sets less."""


@functools.cache
def private_key(kind: str, name: str = "") -> Any:
    """A key of one kind, the same for the same name: making one takes time."""
    del name
    match kind:
        case "RSA":
            return rsa.generate_private_key(public_exponent=65537, key_size=2048)
        case "weak":
            return rsa.generate_private_key(public_exponent=65537, key_size=1024)  # noqa: S505 - that is the point
        case "Ed25519":
            return ed25519.Ed25519PrivateKey.generate()
    return ec.generate_private_key({"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1()}[kind])


KINDS = {
    "RS256": "RSA", "RS384": "RSA", "RS512": "RSA", "PS256": "RSA", "PS384": "RSA", "PS512": "RSA",
    "ES256": "P-256", "ES384": "P-384", "EdDSA": "Ed25519",
}  # fmt: skip


def public_jwk(key: Any, **fields: Any) -> dict[str, Any]:
    """A private key's public half as a JWK."""
    public = key.public_key()
    writer = {"RSA": RSAAlgorithm, "Ell": ECAlgorithm, "ECP": ECAlgorithm, "Ed2": OKPAlgorithm}[
        type(public).__name__.lstrip("_")[:3]
    ]
    made: dict[str, Any] = writer.to_jwk(public, as_dict=True)
    made.pop("key_ops", None)
    return {**made, **fields}


def segment(value: Any) -> str:
    """A part of a JWT."""
    data = value if isinstance(value, bytes) else json.dumps(value).encode()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@dataclass
class Answer:
    """What stands in place of a good answer."""

    body: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    hangs: bool = False
    """The headers and the body come, but never the end."""


@dataclass
class Provider:
    """A running provider."""

    clock: Clock
    url: str = ""
    listed: list[dict[str, Any]] = field(default_factory=list)
    keys_answer: Answer | None = None
    introspection_answer: Answer | None = None
    fetches: int = 0
    questions: list[tuple[dict[str, str], dict[str, str]]] = field(default_factory=list)
    """The forms and headers that introspection was asked with."""
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What introspection says of each token; every other is inactive."""
    gate: asyncio.Event = field(default_factory=asyncio.Event)
    """Questions are answered while it is set."""
    strayed: int = 0
    """Requests that came to where a redirect points; each would be told what it wants to hear."""

    def jwt(self, **settings: Any) -> dict[str, Any]:
        """An `[identity]` with the source jwt."""
        given = {
            "issuer": ISSUER, "audience": [AUDIENCE], "jwks_url": f"{self.url}/jwks",
            "timeout_ms": PATIENCE_MS, **settings,
        }  # fmt: skip
        return {"sources": ["jwt"], "jwt": given}

    def introspection(self, **settings: Any) -> dict[str, Any]:
        """An `[identity]` with the source introspection."""
        given = {
            "issuer": ISSUER, "url": f"{self.url}/introspect", "client_id": "shim", "client_secret": SECRET,
            "timeout_ms": PATIENCE_MS,
        }  # fmt: skip
        return {"sources": ["introspection"], "introspection": given | settings}

    def rotate(self, *kids: str, algorithm: str = "ES256") -> None:
        """List these keys and no other."""
        self.listed = [public_jwk(private_key(KINDS[algorithm], kid), kid=kid) for kid in kids]

    def claims(self, subject: str = "alice", **claims: Any) -> dict[str, Any]:
        """The claims of a good token; None leaves one out."""
        made = {
            "iss": ISSUER, "sub": subject, "aud": AUDIENCE, "exp": self.now_s() + HOUR_S, **claims,
        }  # fmt: skip
        return {name: value for name, value in made.items() if value is not None}

    def token(
        self, subject: str = "alice", *, kid: str | None = "k1", algorithm: str = "ES256",
        header: dict[str, Any] | None = None, **claims: Any,
    ) -> str:  # fmt: skip
        """A signed token."""
        key = private_key(KINDS[algorithm], kid or "k1")
        named = {} if kid is None else {"kid": kid}
        return jwt.encode(self.claims(subject, **claims), key, algorithm, headers={**named, **(header or {})})

    def bearer(self, subject: str = "alice", **options: Any) -> dict[str, str]:
        """The header that carries a signed token."""
        return {"Authorization": f"Bearer {self.token(subject, **options)}"}

    def opaque(self, subject: str, token: str | None = None, **said: Any) -> dict[str, str]:
        """The header that carries a token that introspection knows."""
        token = token or f"opaque-{subject}-{len(self.tokens)}"
        claims = {"sub": subject, "exp": self.now_s() + HOUR_S, **said}
        self.tokens[token] = {"active": True, **{k: v for k, v in claims.items() if v is not None}}
        return {"Authorization": f"Bearer {token}"}

    def now_s(self) -> int:
        return self.clock.now_ms() // 1000

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/elsewhere":
            self.strayed += 1
            good = {"keys": self.listed, "active": True, **self.claims()}
            return web.Response(body=json.dumps(good))
        if request.path == "/jwks":
            self.fetches += 1
            body = json.dumps({"keys": self.listed}).encode()
            return await self._send(request, self.keys_answer or Answer(body))
        form = {key: str(value) for key, value in (await request.post()).items()}
        self.questions.append((form, dict(request.headers)))
        await self.gate.wait()
        said = json.dumps(self.tokens.get(form["token"], {"active": False})).encode()
        return await self._send(request, self.introspection_answer or Answer(said))

    async def _send(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        if not answer.hangs:
            return web.Response(body=answer.body, status=answer.status, headers=answer.headers)
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(answer.body or b"{")
        await asyncio.Event().wait()
        return response


@asynccontextmanager
async def identity_provider(clock: Clock) -> AsyncIterator[Provider]:
    """Run a provider on a free port of the loopback interface; it lists the key k1."""
    provider = Provider(clock)
    provider.rotate("k1")
    provider.gate.set()
    runner = web.ServerRunner(
        web.Server(provider.handle, handler_cancellation=True),
        shutdown_timeout=0.1,  # type: ignore[arg-type]
    )
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    provider.url = f"http://{host}:{port}"
    try:
        yield provider
    finally:
        await runner.cleanup()
