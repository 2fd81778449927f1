"""The caller of a request: the first configured source that applies (OWN-ID)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from multidict import CIMultiDictProxy

from shim.callers.caller import NOBODY, Caller
from shim.callers.credentials import bearer_token
from shim.callers.introspection import IntrospectionSource
from shim.callers.keys import Keys
from shim.callers.provider import Providers
from shim.callers.refused import Refused, Undecided
from shim.callers.sources import ApiKeySource, HeaderSource, Source, TokenSource
from shim.config import ConfigError, api_keys
from shim.config.identity import Identity, SourceName
from shim.wire.errors import unauthorized, undecided
from shim.wire.headers import connection_names

_SCHEMES = {
    "basic": "a name and password (Basic)",
    "digest": "a Digest",
    "negotiate": "a Negotiate token",
    "bearer": "this bearer token",
}
"""Schemes that may be named back: any other word may be the credential itself."""


@dataclass(frozen=True, slots=True)
class Resolver:
    """Asks the sources in order; a credential that none of them takes is refused, never overlooked."""

    keys: Keys
    identity: Identity
    sources: Sequence[Source]
    described_at: str | None = None

    async def resolve(
        self, headers: CIMultiDictProxy[str], peer: str | None, *, session_id: str | None
    ) -> Caller:
        """Give the caller. `session_id` is a legacy request's; None for a modern one.

        Raises unauthorized with the challenges of the configured sources, undecided.
        """
        try:
            caller = await self._identified(headers, peer)
        except Refused as refused:
            raise unauthorized(refused.message, self._challenges(refused), reason=refused.reason) from None
        except Undecided as exc:
            raise undecided(exc.message, retry_after_s=exc.retry_after_s) from None
        if caller is not None:
            return caller
        return NOBODY if session_id is None else self.session_caller(session_id)

    def session_caller(self, session_id: str) -> Caller:
        """Give the caller that a legacy session without any credential stands for (kind `session`)."""
        return Caller(self.keys.hash("caller", f"session:{session_id}"), "session")

    async def _identified(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:
        """Give the caller that a source names; None where none has to. Raises Refused, Undecided."""
        if "Connection" in headers and (named := self._telling() & connection_names(headers)):
            raise Refused("hop_by_hop", f"Connection: must not name {min(named)}")
        for source in self.sources:
            caller = await source.identify(headers, peer)
            if caller is not None:
                return caller
        if "Authorization" in headers:
            raise self._of_no_form(headers.get("Authorization", ""))
        if not self.identity.serves_anonymous:
            raise Refused("credential", f"a credential is required: {self._forms()}")
        return None

    def _of_no_form(self, given: str) -> Refused:
        """Refuse a credential that is no source's, and say what is taken; nothing of it is repeated."""
        if bearer_token(given) and {"jwt", "introspection"} & {*self.identity.sources}:
            return Refused("token_form", f"the token is of no form that is served here; send {self._forms()}")
        scheme = _SCHEMES.get(given.partition(" ")[0].lower(), "what it holds")
        return Refused("credential_form", f"Authorization: {scheme} is not served here; send {self._forms()}")

    def _forms(self) -> str:
        """Say what is taken, for who writes the client."""
        identity = self.identity
        forms: Mapping[SourceName, str] = {
            "jwt": "a signed token (JWT) as Authorization: Bearer",
            "introspection": "a token as Authorization: Bearer",
            "api_key": _form_of_key(identity.api_key.header),
            "header": f"{identity.header.name} from the proxy in front",
            "token": "a token as Authorization: Bearer",
        }
        return ", or ".join(dict.fromkeys(forms[name] for name in identity.sources or ("token",)))

    def _telling(self) -> frozenset[str]:
        """Give the headers that tell the caller, in lower case."""
        told = {"authorization"}
        if "api_key" in self.identity.sources:
            told.add(self.identity.api_key.header.lower())
        if "header" in self.identity.sources:
            told.add(self.identity.header.name.lower())
        return frozenset(told)

    def _challenges(self, refused: Refused) -> tuple[str, ...]:
        """Give what a 401 asks for, one challenge for each kind of credential that is served."""
        identity = self.identity
        own_header = "api_key" in identity.sources and identity.api_key.header.lower() != "authorization"
        bearer = not identity.sources or {"jwt", "introspection", "token"} & {*identity.sources}
        challenges = []
        if bearer or ("api_key" in identity.sources and not own_header):
            challenges.append(_challenge("Bearer", self._bearer_parameters(refused)))
        if own_header:
            challenges.append(_challenge("ApiKey", {"header": identity.api_key.header}))
        return tuple(challenges) or (_challenge("TrustedProxy", {"header": identity.header.name}),)

    def _bearer_parameters(self, refused: Refused) -> dict[str, str]:
        parameters: dict[str, str] = {}
        if refused.of_token:
            parameters |= {"error": "invalid_token", "error_description": refused.message}
        if self.described_at is not None:
            parameters["resource_metadata"] = self.described_at
        return parameters


def build_resolver(
    identity: Identity, keys: Keys, providers: Providers, *, judged: bool = True,
    described_at: str | None = None,
) -> Resolver:  # fmt: skip
    """Build the configured sources; with none a bearer credential names its caller. Raises ConfigError.

    `judged` tells whether upstream sees the callers' own credentials (OWN-VOUCH); `described_at` is the
    URL of the metadata that a 401 names (RFC 9728).
    """
    names: Sequence[SourceName] = identity.sources or ("token",)
    sources = [_source(name, identity, keys, providers, judged=judged) for name in names]
    return Resolver(keys, identity, sources, described_at or identity.resource_metadata)


def _source(
    name: SourceName, identity: Identity, keys: Keys, providers: Providers, *, judged: bool
) -> Source:
    match name:
        case "jwt":
            try:
                from shim.callers.jwt import jwt_source  # noqa: PLC0415 - the extra `jwt` may not be there
            except ImportError as exc:
                raise ConfigError(
                    "identity.sources: \"jwt\" needs PyJWT with cryptography: pip install 'taskshim[jwt]'"
                ) from exc
            return jwt_source(identity.jwt, keys, providers, identity.token_bytes)
        case "introspection":
            return IntrospectionSource(identity.introspection, keys, providers, identity.token_bytes)
        case "api_key":
            return ApiKeySource(keys, identity.api_key.header, api_keys(identity.api_key))
        case "header":
            return HeaderSource(keys, identity.header.name, identity.header.trusted_proxies)
        case "token":
            return TokenSource(keys, judged=judged)


def _form_of_key(header: str) -> str:
    return (
        "a known key as Authorization: Bearer" if header.lower() == "authorization" else f"a key in {header}"
    )


def _challenge(scheme: str, parameters: dict[str, str]) -> str:
    """Write a challenge; what would end its quotes is left out."""
    said = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parameters.items())
    return f"{scheme} {said}" if said else scheme


def _quoted(value: str) -> str:
    return "".join(char for char in value if " " <= char <= "~" and char not in '"\\')
