"""The caller of a request: the first configured source that applies (OWN-ID)."""

from collections.abc import Sequence
from dataclasses import dataclass

from multidict import CIMultiDictProxy

from shim.callers.caller import NOBODY, Caller
from shim.callers.keys import Keys
from shim.callers.sources import ApiKeySource, HeaderSource, Source, TokenSource
from shim.config import api_keys
from shim.config.service import Identity
from shim.wire.errors import unauthorized


@dataclass(frozen=True, slots=True)
class Resolver:
    """Asks the sources in order; without any configured, reads what the request itself offers."""

    keys: Keys
    sources: Sequence[Source]
    required: bool
    """True where sources are configured: a request that none of them knows is refused."""

    def resolve(self, headers: CIMultiDictProxy[str], peer: str | None, *, session_id: str | None) -> Caller:
        """Give the caller. `session_id` is a legacy request's; None for a modern one. Raises unauthorized."""
        for source in self.sources:
            caller = source.identify(headers, peer)
            if caller is not None:
                return caller
        if self.required:
            raise unauthorized("a credential is required")
        return NOBODY if session_id is None else self.session_caller(session_id)

    def session_caller(self, session_id: str) -> Caller:
        """Give the caller that a legacy session without any credential stands for (kind `session`)."""
        return Caller(self.keys.hash("caller", f"session:{session_id}"), "session")


def build_resolver(identity: Identity, keys: Keys, *, judged: bool = True) -> Resolver:
    """Build the configured sources; with none a bearer credential names its caller.

    `judged` tells whether upstream sees the callers' own credentials (OWN-VOUCH).
    """
    sources: list[Source] = []
    for name in identity.sources:
        if name == "api_key":
            sources.append(ApiKeySource(keys, identity.api_key.header, api_keys(identity.api_key)))
        elif name == "header":
            sources.append(HeaderSource(keys, identity.header.name, identity.header.trusted_proxies))
        else:
            sources.append(TokenSource(keys, judged=judged))
    return Resolver(keys, sources or [TokenSource(keys, judged=judged)], required=bool(sources))
