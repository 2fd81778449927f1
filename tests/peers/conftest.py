"""The real peers as fixtures; where a registry cannot be reached they skip, in CI they fail."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.peers import venvs
from tests.peers.processes import fastmcp_server, legacy_server, modern_server


def _get(peer: Callable[[], Path]) -> Path:
    try:
        return peer()
    except venvs.PeerUnavailableError as exc:
        if os.environ.get("CI"):
            pytest.fail(f"a peer is missing: {exc}")
        pytest.skip(f"a peer is missing: {exc}")


@pytest.fixture(scope="session")
def legacy_python() -> Path:
    """The interpreter with mcp 1.30."""
    return _get(venvs.legacy_python)


@pytest.fixture(scope="session")
def modern_python() -> Path:
    """The interpreter with mcp 2.3."""
    return _get(venvs.modern_python)


@pytest.fixture(scope="session")
def fastmcp_python() -> Path:
    """The interpreter with fastmcp 4 and fastmcp-tasks."""
    return _get(venvs.fastmcp_python)


@pytest.fixture(scope="session")
def conformance() -> Path:
    """Needed by every test that runs the conformance suite."""
    return _get(venvs.node_bin)


@pytest.fixture
async def legacy_url(legacy_python: Path, tmp_path: Path) -> AsyncIterator[str]:
    """A legacy server of the test's own, with the process-wide task group."""
    async with legacy_server(legacy_python, log=tmp_path / "legacy-server.log") as url:
        yield url


@pytest.fixture
async def modern_url(modern_python: Path, tmp_path: Path) -> AsyncIterator[str]:
    """A modern server without tasks of the test's own."""
    async with modern_server(modern_python, log=tmp_path / "modern-server.log") as url:
        yield url


@pytest.fixture
async def fastmcp_url(fastmcp_python: Path, tmp_path: Path) -> AsyncIterator[str]:
    """A SEP-2663 server of the test's own."""
    async with fastmcp_server(fastmcp_python, log=tmp_path / "fastmcp-server.log") as url:
        yield url
