"""The official suite's modern scenarios of tasks and input, through the shim in front of a legacy server."""

from pathlib import Path

import pytest

from shim.app import running
from tests.peers.conformance import (
    INPUT_SCENARIOS,
    MODERN_VERSION,
    TASK_SCENARIOS,
    Check,
    passed,
    run_scenario,
    server_scenarios,
)
from tests.shim import config_for

EXPECTED_FAILURES = {
    # the suite insists on the key "user_name"; a legacy server has no way to name its question
    "input-required-result-basic-elicitation": ["sep-2322-elicitation-incomplete"],
}
"""May only shrink."""


def failed(checks: list[Check]) -> list[str]:
    """The ids of the checks that failed."""
    return [check.id for check in checks if check.status == "FAILURE"]


@pytest.mark.conformance
@pytest.mark.usefixtures("conformance")
@pytest.mark.rule("ML-MRTR")
@pytest.mark.parametrize("scenario", TASK_SCENARIOS + INPUT_SCENARIOS)
async def test_a_modern_scenario_passes_through_the_shim(
    scenario: str, legacy_url: str, tmp_path: Path
) -> None:
    async with running(config_for(legacy_url, tmp_path)) as app:
        checks = await run_scenario(app.url, scenario, MODERN_VERSION)
    assert failed(checks) == EXPECTED_FAILURES.get(scenario, []), [str(check) for check in checks]
    assert passed(checks)


@pytest.mark.conformance
@pytest.mark.usefixtures("conformance")
async def test_no_input_scenario_is_left_out() -> None:
    named = await server_scenarios(MODERN_VERSION)
    assert sorted(INPUT_SCENARIOS) == sorted(one for one in named if one.startswith("input-required-"))
