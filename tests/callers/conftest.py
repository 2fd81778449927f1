"""What the callers' tests share."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from shim.callers.keys import Keys
from tests.provider import identity_provider


class Hands:
    """A clock moved by hand."""

    def __init__(self, now_ms: int = 1_000_000) -> None:
        self.at_ms = now_ms

    def now_ms(self) -> int:
        return self.at_ms

    def ticks_ms(self) -> float:
        return float(self.at_ms)

    async def sleep_ms(self, duration_ms: float) -> None:
        self.at_ms += int(duration_ms)


@pytest.fixture
def clock() -> Hands:
    return Hands()


@pytest.fixture
def keys() -> Keys:
    return Keys([bytes(range(32))])


def headers(*pairs: tuple[str, str]) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict(pairs))


def bearer(token: str) -> CIMultiDictProxy[str]:
    return headers(("Authorization", f"Bearer {token}"))


def jwt(claims: object, signature: str = "c2ln") -> str:
    body = claims if isinstance(claims, str) else json.dumps(claims)
    return f"eyJhbGciOiJub25lIn0.{base64.urlsafe_b64encode(body.encode()).decode().rstrip('=')}.{signature}"


@pytest.fixture
def door(keys, clock):
    """Give a function that opens a door with one source; its options are the source's settings."""
    from tests.callers.door import Door

    clock.at_ms = 1_800_000_000_000

    @asynccontextmanager
    async def opened(source: str = "jwt", **settings: Any) -> AsyncIterator[Door]:
        async with identity_provider(clock) as provider:
            made = Door(provider, keys, clock, getattr(provider, source)(**settings))
            try:
                yield made
            finally:
                await made.providers.close()

    return opened
