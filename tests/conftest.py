"""Fixtures every part of the tests may use."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from shim.clock import SystemClock
from shim.ledger.database import Database
from tests.provider import Provider, identity_provider
from tests.scripted import Scripted, scripted

# a shared machine is slow at times: how long an example takes says nothing; and the suite says the same of
# the same code, so new examples are looked for on purpose: `pytest --hypothesis-profile=search`
settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("patient", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("patient")

# as the shim's own log: the tracebacks of structlog's default show local variables
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)

pytest_plugins = ["tests.leaks"]

PEER_TIMEOUT_S = 600
"""The first test that needs a peer also makes its environment."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        is_peer = item.get_closest_marker("peers") or item.get_closest_marker("conformance")
        if is_peer and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(PEER_TIMEOUT_S))


@pytest.fixture
async def upstream() -> AsyncIterator[Scripted]:
    """A scripted legacy upstream with sessions; see tests/scripted.py."""
    async with scripted() as server:
        yield server


@pytest.fixture
async def modern_upstream() -> AsyncIterator[Scripted]:
    """A scripted upstream without sessions, for the modern era."""
    async with scripted(sessions=False) as server:
        yield server


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], list[str]]:
    """Give a function that tells which reads of the ledger have asked for an id so far, in order."""
    seen: list[tuple[str, tuple[Any, ...]]] = []
    read = Database.read

    async def noted(self: Database, sql: str, *values: Any) -> Any:
        seen.append((sql, values))
        return await read(self, sql, *values)

    monkeypatch.setattr(Database, "read", noted)
    return lambda asked: [sql for sql, values in seen if asked in values]


@pytest.fixture
async def provider() -> AsyncIterator[Provider]:
    """An identity provider on the machine's clock; see tests/provider.py."""
    async with identity_provider(SystemClock()) as running:
        yield running
