"""The suite's 2025-11-25 scenarios on sessions that the shim serves itself, in front of mcp 2.3 (LM).

The server is pinned to its modern side, though it answers `initialize` too. What it passes directly it passes
through the shim; several scenarios that it fails directly pass, because the shim answers them.
"""

import asyncio
from pathlib import Path

import pytest

from shim.app import running
from tests.peers import conformance as suite
from tests.peers.test_conformance_legacy import SCENARIOS
from tests.ports import free_port
from tests.shim import config_for, events

SERVED_BY_THE_SHIM = frozenset({
    "logging-set-level", "tools-call-elicitation", "resources-subscribe", "resources-unsubscribe",
})  # fmt: skip


@pytest.mark.conformance
@pytest.mark.usefixtures("conformance")
@pytest.mark.rule("LM-INIT", "LM-TOOLS", "LM-LOCAL", "LM-MRTR")
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_scenario_that_the_server_passes_is_passed_by_the_shim(
    scenario: str, modern_url: str, tmp_path: Path
) -> None:
    port = free_port()
    listen = {"port": port, "allowed_origins": (f"http://localhost:{port}", f"http://127.0.0.1:{port}")}
    config = config_for(modern_url, tmp_path, upstream={"dialect": "sep-2663"}, listen=listen)
    async with running(config) as app:
        direct, through = await asyncio.gather(
            suite.run_scenario(modern_url, scenario, suite.LEGACY_VERSION, timeout_s=240),
            suite.run_scenario(app.url, scenario, suite.LEGACY_VERSION, timeout_s=240),
        )
    if scenario in SERVED_BY_THE_SHIM or suite.passed(direct):
        assert suite.passed(through)
    told = events(tmp_path, "request")
    assert {event.get("corner") for event in told if event.get("outcome") != "denied"} <= {"LM"}
