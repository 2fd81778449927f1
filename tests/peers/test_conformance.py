"""The official suite's modern task scenarios, through the shim in front of a legacy server."""

from pathlib import Path

import pytest

from shim.app import running
from tests.peers.conformance import MODERN_VERSION, TASK_SCENARIOS, failures, passed, run_scenario
from tests.shim import config_for


@pytest.mark.conformance
@pytest.mark.usefixtures("conformance")
@pytest.mark.parametrize("scenario", TASK_SCENARIOS)
async def test_a_modern_scenario_passes_through_the_shim(
    scenario: str, legacy_url: str, tmp_path: Path
) -> None:
    async with running(config_for(legacy_url, tmp_path)) as app:
        checks = await run_scenario(app.url, scenario, MODERN_VERSION)
    assert failures(checks) == []
    assert passed(checks)
