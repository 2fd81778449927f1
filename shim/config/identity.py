"""Settings of who is calling (OWN-ID)."""

from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from pydantic.networks import IPvAnyNetwork

from shim.config.address import WebUrl, is_loopback, web_url
from shim.config.section import Bytes, Count, HeaderName, Ms, SecretLine, Section, SomeMs

SourceName = Literal["jwt", "introspection", "api_key", "header", "token"]
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]  # fmt: skip
"""Those with a public key; one that shares a secret, or none, cannot even be configured."""


def _once_each(given: Any) -> Any:
    if isinstance(given, (list, tuple)) and len(set(map(str, given))) != len(given):
        raise ValueError("names a source twice")
    return given


def _safe_url(url: str) -> str:
    """Refuse a way to the provider on which others could answer in its place. Raises ValueError."""
    parts = urlsplit(web_url(url))
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ValueError("must be https://, or http:// on a loopback address")
    return url


SafeUrl = Annotated[str, AfterValidator(_safe_url)]
Name = Annotated[str, Field(min_length=1)]


class ApiKeyIdentity(Section):
    """Callers known by a key of their own."""

    header: HeaderName = "X-Api-Key"
    """Header that carries the key; "Authorization" reads it as a bearer token. A key in a header of its
    own is never passed on."""
    keys: dict[str, SecretLine] = Field(default_factory=dict)
    """Keys by the name of whom they are given to; the name stands in the audit log. In place of a key its
    hash may stand: "sha256:" and 64 hex digits."""
    file: Path | None = Field(default=None, examples=["api-keys.txt"])
    """File with more of them, a `name = key` on each line; read at start and at SIGHUP."""


class HeaderIdentity(Section):
    """Callers named by a proxy that has checked them."""

    name: HeaderName = "X-Forwarded-User"
    """Header that carries the name."""
    trusted_proxies: tuple[IPvAnyNetwork, ...] = Field(
        default=("127.0.0.1/32",), validate_default=True, min_length=1
    )
    """Networks from which the header is believed; from elsewhere a request that carries it is a 401."""


class Claimed(Section):
    """What makes a caller of a provider's word, for JWTs and introspection alike."""

    issuer: str | None = Field(default=None, min_length=1, examples=["https://login.example.org"])
    """Issuer of the tokens, character for character. The same issuer and subject are the same caller,
    whichever way the token was checked."""
    audience: tuple[Name, ...] = Field(default=(), examples=[["https://mcp.example.org/mcp"]])
    """Audiences of which a token must name one: what the server is called at the provider."""
    caller: tuple[Name, ...] = Field(default=("sub",), min_length=1)
    """Claims that, with the issuer, are the caller; with tenants for instance ["tid", "oid"]. A token that
    lacks one is a 401. Changing them cuts callers off from their tasks."""
    label: Name | None = Field(default=None, examples=["client_id"])
    """Claim whose value names the caller in the audit log and in cutover rules. Not set: none does."""
    leeway_ms: Annotated[int, Field(ge=0, le=300_000)] = 30_000
    """Milliseconds by which the provider's clock may differ, for exp and nbf."""
    timeout_ms: SomeMs = 5000
    """Milliseconds to wait for the provider's whole answer."""
    answer_bytes: Bytes = 262_144
    """Bytes of the provider's answer; a larger one counts as none."""


class JwtIdentity(Claimed):
    """Callers known by a signed token, checked here with the provider's public keys (extra `jwt`)."""

    algorithms: tuple[Algorithm, ...] = Field(default=("RS256", "ES256"), min_length=1)
    """Signatures that count; only such as have a public key can be named."""
    types: tuple[Name, ...] = Field(default=("JWT", "at+jwt"), min_length=1)
    """Kinds of token that count, by their header `typ`; a token without one is a "JWT"."""
    jwks_url: SafeUrl | None = Field(default=None, examples=["https://login.example.org/jwks.json"])
    """Where the provider publishes its keys. Redirects are not followed."""
    jwks_file: Path | None = Field(default=None, examples=["jwks.json"])
    """File that holds them instead; read at start and at SIGHUP."""
    jwks_refresh_ms: SomeMs = 300_000
    """Milliseconds after which the keys are fetched again, beside the requests that need them."""
    jwks_refetch_ms: SomeMs = 10_000
    """Milliseconds between two fetches at least: a token with an unknown key brings one about."""
    jwks_keep_ms: SomeMs = 86_400_000
    """Milliseconds that the keys count while the provider does not answer."""
    retired_keys_ms: Ms = 600_000
    """Milliseconds that a key still counts which the provider no longer lists; none after SIGHUP."""


class IntrospectionIdentity(Claimed):
    """Callers known by a token that the provider is asked about (RFC 7662)."""

    url: SafeUrl | None = Field(default=None, examples=["https://login.example.org/introspect"])
    """The provider's introspection endpoint. Redirects are not followed."""
    auth: Literal["basic", "post", "bearer"] = "basic"
    """How the shim says who it is there: client_id and secret in a header or in the form, or the secret as
    a bearer token."""
    client_id: Name | None = Field(default=None, examples=["taskshim"])
    """The shim's name there."""
    client_secret: SecretLine | None = Field(default=None, examples=["..."])
    """Its secret there."""
    client_secret_file: Path | None = Field(default=None, examples=["/run/secrets/introspection"])
    """File that holds that secret instead; read at start and at SIGHUP."""
    cache_ms: Ms = 60_000
    """Milliseconds that a good answer is reused at most; never beyond the token's exp. For so long a token
    that was revoked still counts."""
    negative_ms: Ms = 10_000
    """Milliseconds that a bad answer is reused."""
    at_once: Count = 64
    """Questions to the provider under way at a time; a request that would need one more is a 503."""

    @model_validator(mode="after")
    def _one_secret(self) -> Self:
        if self.client_secret is not None and self.client_secret_file is not None:
            raise ValueError("client_secret and client_secret_file exclude each other")
        return self


class Identity(Section):
    """Who is calling (OWN-ID)."""

    sources: Annotated[tuple[SourceName, ...], BeforeValidator(_once_each)] = ()
    """Where the caller comes from, first that applies: "jwt", "introspection", "api_key", "header",
    "token". A credential of a source's form is that source's to judge: a bad one is a 401, and no other is
    asked. Empty: a bearer token tells the caller, else the legacy session, else nobody does."""
    anonymous: bool | None = Field(default=None, examples=[False])
    """Whether a request without any credential is served, as its legacy session's or as nobody's
    (OWN-NONE); if not it is a 401. Not set: only where sources is empty."""
    resource_metadata: WebUrl | None = Field(
        default=None, examples=["https://mcp.example.org/.well-known/oauth-protected-resource"]
    )
    """URL that a 401 names for clients that look for their authorization server (RFC 9728)."""
    authorization_servers: tuple[SafeUrl, ...] = Field(default=(), examples=[["https://login.example.org"]])
    """Issuers whose tokens are taken, for the shim's own protected resource metadata; needs
    listen.public_url. Empty: the upstream's metadata is passed on where it gets the callers' credentials."""
    scopes: tuple[Name, ...] = Field(default=(), examples=[["mcp:tools"]])
    """Scopes that this metadata says a client may ask for."""
    token_bytes: Bytes = 16_384
    """Bytes of a token that is checked here; a longer one is a 401."""
    vouch_ms: Ms = 300_000
    """Milliseconds that a token which the upstream accepted is believed without asking it (OWN-VOUCH)."""
    credential_hold_ms: Ms = 3_600_000
    """Milliseconds that a caller's newest credential is held in memory for its own tasks
    (OWN-CREDENTIAL)."""
    key_file: Path = Path("taskshim.key")
    """File of the keys for caller hashes, cursors and requestState; made once with mode 0600 (OWN-STORE).
    Losing it cuts callers off from their tasks."""
    jwt: JwtIdentity = JwtIdentity()
    introspection: IntrospectionIdentity = IntrospectionIdentity()
    api_key: ApiKeyIdentity = ApiKeyIdentity()
    header: HeaderIdentity = HeaderIdentity()

    @property
    def serves_anonymous(self) -> bool:
        """Whether a request without any credential is served."""
        return not self.sources if self.anonymous is None else self.anonymous

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if "jwt" in self.sources:
            _needs("jwt", self.jwt, "issuer", "audience")
            if (self.jwt.jwks_url is None) == (self.jwt.jwks_file is None):
                raise ValueError('sources names "jwt": identity.jwt needs either jwks_url or jwks_file')
        if "introspection" in self.sources:
            _needs("introspection", self.introspection, "url", "issuer")
            asks = self.introspection
            if asks.client_secret is None and asks.client_secret_file is None:
                raise ValueError(
                    'sources names "introspection": identity.introspection needs client_secret '
                    "or client_secret_file"
                )
            if asks.auth != "bearer":
                _needs("introspection", asks, "client_id")
        if "api_key" in self.sources and not self.api_key.keys and self.api_key.file is None:
            raise ValueError('sources names "api_key": identity.api_key needs keys or file')
        return self

    @model_validator(mode="after")
    def _all_asked(self) -> Self:
        """Refuse an order in which a source never gets to see a credential."""
        shared = self.api_key.header.lower() == "authorization"
        bearers = [
            one for one in self.sources if one not in {"api_key", "header"} or (one == "api_key" and shared)
        ]
        for taker in ("introspection", "token"):
            after = bearers[bearers.index(taker) + 1 :] if taker in bearers else []
            if after:
                raise ValueError(
                    f'sources: "{taker}" takes every bearer token, so "{after[0]}" must stand before it'
                )
        return self


def _needs(source: str, section: Section, *keys: str) -> None:
    for key in keys:
        if not getattr(section, key):
            raise ValueError(f'sources names "{source}": identity.{source}.{key} is missing')
