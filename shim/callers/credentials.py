"""What a request carries to say who it is from, read and not yet believed."""

from collections.abc import Mapping

from multidict import CIMultiDictProxy

from shim.callers.caller import Credential
from shim.callers.encoded import object_in, unpadded
from shim.callers.keys import Keys
from shim.callers.refused import Refused

_BEARER = "bearer "
JWT_DOTS = 2


def only(headers: CIMultiDictProxy[str], name: str) -> str | None:
    """Give a header that may not say two things at once; None without it. Raises Refused."""
    values = headers.getall(name, ())
    if len(set(values)) > 1:
        raise Refused("twice", f"{name}: stands twice with different values")
    return values[0] if values else None


def bearer_token(authorization: str) -> str | None:
    """Give the token of a bearer credential; None for another scheme."""
    return authorization[len(_BEARER) :].strip() if authorization[: len(_BEARER)].lower() == _BEARER else None


def check_size(token: str, token_bytes: int) -> None:
    """Refuse a token that is longer than `identity.token_bytes`. Raises Refused."""
    if len(token) > token_bytes:
        raise Refused("token_size", f"the token is longer than identity.token_bytes = {token_bytes}")


def fingerprint_of(keys: Keys, authorization: str) -> str:
    """Give a keyed hash that tells one credential from another."""
    token = bearer_token(authorization)
    return keys.hash("credential", authorization if token is None else _BEARER + token)


def credential_of(keys: Keys, headers: CIMultiDictProxy[str]) -> Credential | None:
    """Give the request's own credential, whatever its scheme. Raises Refused for two of them."""
    value = only(headers, "Authorization")
    if value is None:
        return None
    token = bearer_token(value)
    expires = None if token is None else expires_ms(claims_of(token))
    return Credential(value, fingerprint_of(keys, value), expires)


def claims_of(token: str) -> Mapping[str, object]:
    """Read a JWT's claims without checking them; {} for what is no JWT."""
    parts = token.split(".")
    if len(parts) != JWT_DOTS + 1:
        return {}
    return object_in(unpadded(parts[1])) or {}


def expires_ms(claims: Mapping[str, object]) -> int | None:
    """Give the time a token says it ends at; None where it says none that is one."""
    expires = claims.get("exp")
    if not isinstance(expires, int | float):
        return None
    try:
        return int(expires * 1000)
    except OverflowError:  # 1e999 reads as infinity
        return None
