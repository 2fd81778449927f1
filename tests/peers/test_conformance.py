"""The official suite's modern task scenarios, through the shim in front of a legacy server."""

from pathlib import Path

import pytest

from shim.app import running
from tests.peers.conformance import failures, passed, run_scenario
from tests.shim import config_for

SCENARIOS = (
    "tasks-lifecycle",
    "tasks-capability-negotiation",
    "tasks-wire-fields",
    "tasks-request-state-removal",
    "tasks-mrtr-input",
    "tasks-request-headers",
    "tasks-dispatch-and-envelope",
    "tasks-required-task-error",
)


@pytest.mark.conformance
@pytest.mark.usefixtures("conformance")
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_modern_scenario_passes_through_the_shim(
    scenario: str, legacy_url: str, tmp_path: Path
) -> None:
    async with running(config_for(legacy_url, tmp_path)) as app:
        checks = await run_scenario(app.url, scenario, "2026-07-28")
    assert failures(checks) == []
    assert passed(checks)
