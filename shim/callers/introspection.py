"""Callers of tokens that the provider is asked about (RFC 7662; kind `introspection`)."""

import asyncio
import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote_plus

from multidict import CIMultiDictProxy

from shim.callers.caller import Caller, Credential
from shim.callers.claims import caller_of, label_of, until_ms
from shim.callers.credentials import bearer_token, check_size, credential_of
from shim.callers.encoded import object_in
from shim.callers.keys import Keys
from shim.callers.provider import INTROSPECTION, NoAnswer, Providers
from shim.callers.refused import Refused, Undecided
from shim.callers.sources import CALLER_PURPOSE
from shim.config import client_secret
from shim.config.identity import IntrospectionIdentity
from shim.recent import Recent

_REMEMBERED = 10_000
_RETRY_AFTER_S = 2


@dataclass(frozen=True, slots=True)
class _Known:
    """What the provider said of a token, and how long it is reused."""

    found: Caller | Refused
    until_ms: int


class Asker:
    """Asks the provider about one token. Raises ConfigError where the shim's own secret cannot be read."""

    def __init__(self, settings: IntrospectionIdentity, providers: Providers) -> None:
        self._settings = settings
        self._providers = providers
        self._fields, self._headers = _signing(settings)

    async def ask(self, token: str) -> Mapping[str, object]:
        """Give what the provider says of a token. Raises NoAnswer."""
        body = await self._providers.ask(
            INTROSPECTION, self._settings.url or "",
            form={"token": token, "token_type_hint": "access_token", **self._fields}, headers=self._headers,
            timeout_ms=self._settings.timeout_ms, at_most=self._settings.answer_bytes,
        )  # fmt: skip
        said = object_in(body)
        if said is None or not isinstance(said.get("active"), bool):
            raise self._providers.failed(INTROSPECTION, 'no JSON object with "active"')
        self._providers.answered(INTROSPECTION)
        return said


class IntrospectionSource:
    """Asks the provider about each bearer token once in a while; who asks at the same time asks once."""

    def __init__(
        self, settings: IntrospectionIdentity, keys: Keys, providers: Providers, token_bytes: int
    ) -> None:
        self._settings = settings
        self._keys = keys
        self._providers = providers
        self._token_bytes = token_bytes
        self._good: Recent[str, _Known] = Recent(_REMEMBERED)
        self._bad: Recent[str, _Known] = Recent(_REMEMBERED)
        """Apart from the good ones: anybody can make tokens up, and they are not to push those out."""
        self._asking: dict[str, asyncio.Task[_Known]] = {}
        self._asker = Asker(settings, providers)

    async def identify(self, headers: CIMultiDictProxy[str], peer: str | None) -> Caller | None:  # noqa: ARG002
        """Give the caller that the provider names. Raises Refused, Undecided."""
        credential = credential_of(self._keys, headers)
        token = None if credential is None else bearer_token(credential.authorization)
        if credential is None or token is None:
            return None
        check_size(token, self._token_bytes)
        known = self._good.get(credential.fingerprint) or self._bad.get(credential.fingerprint)
        if known is None or self._providers.clock.now_ms() >= known.until_ms:
            known = await self._asked(token, credential)
        if isinstance(known.found, Refused):
            raise Refused(known.found.reason, known.found.message)
        return known.found

    async def _asked(self, token: str, credential: Credential) -> _Known:
        """Let the provider be asked, and wait; a request that leaves does not end it for others."""
        asking = self._asking.get(credential.fingerprint)
        if asking is None:
            if len(self._asking) >= self._settings.at_once:
                raise Undecided("identity.introspection.at_once is reached", _RETRY_AFTER_S)
            asking = self._providers.start(self._ask(token, credential))
            self._asking[credential.fingerprint] = asking
            asking.add_done_callback(lambda _: self._asking.pop(credential.fingerprint, None))
        try:
            return await asyncio.shield(asking)
        except NoAnswer:
            raise Undecided("the identity provider does not answer", _RETRY_AFTER_S) from None

    async def _ask(self, token: str, credential: Credential) -> _Known:
        """Ask about a token and remember the answer. Raises NoAnswer."""
        said = await self._asker.ask(token)
        known = self._judged(said, credential)
        good = isinstance(known.found, Caller)
        (self._good if good else self._bad)[credential.fingerprint] = known
        (self._bad if good else self._good).pop(credential.fingerprint, None)
        return known

    def _judged(self, said: Mapping[str, object], credential: Credential) -> _Known:
        settings, now_ms = self._settings, self._providers.clock.now_ms()
        try:
            if said["active"] is not True:
                raise Refused("token_inactive", "the token does not count")
            claims = {"iss": settings.issuer, **said}
            ends_ms = until_ms(claims, settings, now_ms)
            caller = Caller(
                self._keys.hash(CALLER_PURPOSE, caller_of(claims, settings)),
                "introspection", label_of(claims, settings),
                replace(credential, expires_ms=None if ends_ms is None else ends_ms - settings.leeway_ms),
            )  # fmt: skip
        except Refused as refused:
            # as it was raised it would hold on to the token by its frames
            kept = Refused(refused.reason, refused.message)
            return _Known(kept, now_ms + settings.negative_ms)
        reused_ms = now_ms + settings.cache_ms
        return _Known(caller, reused_ms if ends_ms is None else min(reused_ms, ends_ms))


def _signing(settings: IntrospectionIdentity) -> tuple[Mapping[str, str], Sequence[tuple[str, str]]]:
    """Give the fields and headers that say who asks (RFC 6749, 2.3.1). Raises ConfigError."""
    secret, name = client_secret(settings), settings.client_id or ""
    if settings.auth == "bearer":
        return {}, [("Authorization", f"Bearer {secret}")]
    if settings.auth == "post":
        return {"client_id": name, "client_secret": secret}, []
    pair = base64.b64encode(f"{quote_plus(name)}:{quote_plus(secret)}".encode()).decode()
    return {}, [("Authorization", f"Basic {pair}")]
