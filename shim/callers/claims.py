"""Judges the claims of a token: whether it counts, for whom, until when. Pure."""

from collections.abc import Mapping

from shim.callers.refused import Refused
from shim.callers.sources import person
from shim.clock import duration
from shim.config.identity import Claimed

Claims = Mapping[str, object]
_LABEL_CHARS = 200
_LATEST_S = 1e12
"""Beyond it no number is a time; nor is 1e999, which reads as infinity."""


def until_ms(claims: Claims, settings: Claimed, now_ms: int) -> int | None:
    """Give the time until which a token counts, the leeway included; None if it says none.

    Raises Refused for one of another issuer, for another audience, expired, or not yet valid.
    """
    if claims.get("iss") != settings.issuer:
        raise Refused("token_issuer", "the token is from another issuer")
    if settings.audience and not set(settings.audience) & set(_audience(claims.get("aud"))):
        raise Refused("token_audience", "the token is for another audience")
    expires, begins = _time_ms(claims, "exp"), _time_ms(claims, "nbf")
    if expires is not None and now_ms >= expires + settings.leeway_ms:
        raise Refused("token_expired", f"the token expired {duration(now_ms - expires)} ago")
    if begins is not None and now_ms < begins - settings.leeway_ms:
        raise Refused("token_early", f"the token is not valid for another {duration(begins - now_ms)}")
    return None if expires is None else expires + settings.leeway_ms


def caller_of(claims: Claims, settings: Claimed) -> str:
    """Give what the caller is known by. Raises Refused where a claim is missing that names it."""
    named = {name: claims.get(name) for name in settings.caller}
    for name, value in named.items():
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise Refused("token_claims", f"the token lacks the claim {name}, or it is no text")
    return person(settings.issuer or "", named)


def label_of(claims: Claims, settings: Claimed) -> str | None:
    """Give the name that the audit log shows; None where the claim is not configured or not there."""
    label = claims.get(settings.label) if settings.label is not None else None
    return label[:_LABEL_CHARS] if isinstance(label, str) and label else None


def _audience(given: object) -> list[str]:
    listed = given if isinstance(given, list) else [given]
    return [one for one in listed if isinstance(one, str)]


def _time_ms(claims: Claims, name: str) -> int | None:
    if name not in claims:
        return None
    given = claims[name]
    if isinstance(given, bool) or not isinstance(given, int | float) or not abs(given) < _LATEST_S:
        raise Refused("token_claims", f"the token's {name} is no time")
    return int(given * 1000)
