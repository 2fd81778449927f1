"""A resolver behind which a scripted provider stands."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from multidict import CIMultiDictProxy

from shim.audit.sink import MemorySink
from shim.callers.caller import Caller
from shim.callers.keys import Keys
from shim.callers.provider import Providers
from shim.callers.resolve import Resolver, build_resolver
from shim.config import Config
from shim.wire.errors import ShimError
from tests.callers.conftest import Hands, headers
from tests.provider import Provider

Doors = Callable[..., Any]


class Door:
    """A resolver, and what it told others."""

    def __init__(self, provider: Provider, keys: Keys, clock: Hands, identity: dict[str, Any]) -> None:
        self.provider = provider
        self.clock = clock
        self.keys = keys
        self.sink = MemorySink()
        self.outcomes: list[tuple[str, str]] = []
        self.providers = Providers(clock, self.sink, lambda *told: self.outcomes.append(told))
        self.resolver = self.build(identity)

    def build(self, identity: dict[str, Any]) -> Resolver:
        section = Config.model_validate({"identity": identity}).identity
        return build_resolver(section, self.keys, self.providers)

    async def caller(self, given: dict[str, str] | CIMultiDictProxy[str]) -> Caller:
        carried = given if isinstance(given, CIMultiDictProxy) else headers(*given.items())
        return await self.resolver.resolve(carried, "127.0.0.1", session_id=None)

    async def refusal(self, given: Any) -> tuple[int | None, str | None]:
        """Status and reason of what a request gets."""
        with pytest.raises(ShimError) as caught:
            await self.caller(given)
        said = caught.value
        if said.http_status == 401:
            challenges = [value for name, value in said.headers if name == "WWW-Authenticate"]
            assert challenges[0].startswith("Bearer")
            assert ('error="invalid_token"' in challenges[0]) is (said.reason or "").startswith("token_")
        else:
            assert int(dict(said.headers)["Retry-After"]) > 0
        return said.http_status, said.reason


async def until(check: Callable[[], bool]) -> None:
    """Wait for something that others do; the test's time limit ends a wait in vain."""
    while not check():  # noqa: ASYNC110 - there is no event to wait for in what others keep
        await asyncio.sleep(0)
