"""Who is calling: the authorization context that owns tasks (section 9 of the rules)."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["jwt", "introspection", "api_key", "header", "token", "session", "none"]

NONE_KEY = "none"


@dataclass(frozen=True, slots=True)
class Credential:
    """A caller's own credential, in memory only; never printed, stored or logged (OWN-STORE)."""

    authorization: str
    """The Authorization header's value."""
    fingerprint: str
    """A keyed hash, to tell one credential from another."""
    expires_ms: int | None = None

    def __repr__(self) -> str:
        return "Credential(***)"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who a request is from. `key` is a keyed hash, stable over restarts; callers are equal by it."""

    key: str
    kind: Kind
    label: str | None = None
    credential: Credential | None = None


NOBODY = Caller(NONE_KEY, "none")
"""A modern caller without any credential: equals nobody (OWN-NONE)."""
