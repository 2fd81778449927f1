"""Fixtures every part of the tests may use."""

from collections.abc import AsyncIterator

import pytest

from tests.scripted import Scripted, scripted


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
