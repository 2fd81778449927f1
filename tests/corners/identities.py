"""Two callers, Alice and Bob, by every source that can tell them apart."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.provider import Provider

KEYS: dict[str, Any] = {
    "sources": ["api_key"],
    "api_key": {"keys": {"a": "key-of-alice-0123456789", "b": "key-of-bob-0123456789"}},
}


@dataclass(frozen=True)
class Two:
    """An `[identity]`, and the headers by which two callers are known under it."""

    identity: dict[str, Any]
    alice: dict[str, str]
    bob: dict[str, str]


def claimed(subject: str, signature: str) -> str:
    """A JWT that says whose it is; nobody checks the signature but the upstream."""
    parts = ({"alg": "RS256"}, {"iss": "https://issuer", "sub": subject})
    head, claims = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts
    )
    return f"Bearer {head}.{claims}.{signature}"


def _tenants(provider: Provider) -> Two:
    """The same subject at two tenants."""
    return Two(
        provider.jwt(caller=["tid", "sub"]),
        provider.bearer("admin", tid="alice.example"),
        provider.bearer("admin", tid="bob.example"),
    )


IDENTITIES: dict[str, Callable[[Provider], Two]] = {
    "jwt": lambda provider: Two(provider.jwt(), provider.bearer("alice"), provider.bearer("bob")),
    "jwt of two tenants": _tenants,
    "introspection": lambda provider: Two(
        provider.introspection(), provider.opaque("alice"), provider.opaque("bob")
    ),
    "api_key": lambda _: Two(
        KEYS, {"X-Api-Key": "key-of-alice-0123456789"}, {"X-Api-Key": "key-of-bob-0123456789"}
    ),
    "header": lambda _: Two(
        {"sources": ["header"]}, {"X-Forwarded-User": "alice"}, {"X-Forwarded-User": "bob"}
    ),
    "token": lambda _: Two({}, {"Authorization": "Bearer alice"}, {"Authorization": "Bearer bob"}),
    "token that claims": lambda _: Two(
        {}, {"Authorization": claimed("alice", "s")}, {"Authorization": claimed("bob", "s")}
    ),
}
