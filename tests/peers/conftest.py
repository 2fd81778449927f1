"""The real peers as fixtures; where a registry cannot be reached they skip, in CI they fail."""

import os
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.peers import venvs
from tests.peers.processes import legacy_server


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
def conformance() -> Path:
    """Needed by every test that runs the conformance suite."""
    return _get(venvs.node_bin)


@pytest.fixture
async def legacy_url(legacy_python: Path, tmp_path: Path) -> AsyncIterator[str]:
    """A legacy server of the test's own, with the process-wide task group."""
    async with legacy_server(legacy_python, log=tmp_path / "legacy-server.log") as url:
        yield url
