"""What identity providers answer, for `taskshim check --online`."""

from collections.abc import AsyncIterator

from shim.audit.counted import counted
from shim.audit.sink import NullSink
from shim.callers.introspection import Asker
from shim.callers.provider import JWKS, NoAnswer, Providers
from shim.clock import SystemClock
from shim.config.identity import Identity, IntrospectionIdentity, JwtIdentity

_MADE_UP = "taskshim-check"
"""A token that no provider ever gave out."""


def quiet_providers() -> Providers:
    """Give the way to the providers for a command: nothing is counted or written down."""
    return Providers(SystemClock(), NullSink(), lambda _source, _outcome: None)


async def answers(identity: Identity) -> AsyncIterator[tuple[str, str, bool]]:
    """Ask each provider that the sources need: what was asked, what came, whether it can be used."""
    providers = quiet_providers()
    try:
        if "jwt" in identity.sources and identity.jwt.jwks_url is not None:
            yield "identity.jwt", *await _keys(identity.jwt, identity.jwt.jwks_url, providers)
        if "introspection" in identity.sources:
            yield "identity.introspection", *await _introspection(identity.introspection, providers)
    finally:
        await providers.close()


async def _keys(settings: JwtIdentity, url: str, providers: Providers) -> tuple[str, bool]:
    from shim.callers.jwk import KeySetError, read_keys  # noqa: PLC0415 - the extra `jwt` may not be there

    try:
        body = await providers.ask(JWKS, url, timeout_ms=settings.timeout_ms, at_most=settings.answer_bytes)
        listed = read_keys(body)
    except (NoAnswer, KeySetError) as exc:
        return f"{url}: {exc}", False
    fitting = [key for key in listed if key.algorithms & set(settings.algorithms)]
    said = f"{url}: {len(fitting)} of {counted(len(listed), 'key')} for {', '.join(settings.algorithms)}"
    return said, bool(fitting)


async def _introspection(settings: IntrospectionIdentity, providers: Providers) -> tuple[str, bool]:
    try:
        said = await Asker(settings, providers).ask(_MADE_UP)
    except NoAnswer as exc:
        return f"{settings.url}: {exc}", False
    if said["active"]:
        return f"{settings.url}: calls a token active that it never gave out", False
    return f"{settings.url}: answers", True
