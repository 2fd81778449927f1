"""The official suite's modern scenarios of tasks and input, through the shim in front of a legacy server."""

from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from tests.client import ModernClient
from tests.corners.ml import ALICE
from tests.peers.conformance import (
    EXTENSION,
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
SKIPPED_BY_THE_SUITE = {"tasks-status-notifications"}
"""It says what it holds a server to and looks at nothing yet; `test_tasks_are_pushed_as_it_says` does."""


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
    if scenario in SKIPPED_BY_THE_SUITE:
        assert {check.status for check in checks} == {"SKIPPED"}  # once it looks, it is a scenario like any
    else:
        assert passed(checks)


@pytest.mark.peers
@pytest.mark.rule("ML-LISTEN")
@pytest.mark.parametrize(
    ("tool", "arguments", "end", "payload"),
    [
        ("slow_compute", {"seconds": 0.2, "label": "x"}, "completed", "result"),
        ("failing_job", {}, "completed", "result"),
        ("protocol_error_job", {}, "failed", "error"),
    ],
)
async def test_tasks_are_pushed_as_it_says(
    tool: str, arguments: dict[str, Any], end: str, payload: str, legacy_url: str, tmp_path: Path
) -> None:
    """`tasks-status-notifications`: id and status in each, an end with its result or error inlined."""
    async with (
        running(config_for(legacy_url, tmp_path)) as app,
        ModernClient(app.url, headers=ALICE) as client,
    ):
        task_id = (await client.call(tool, arguments)).result["taskId"]
        wanted = {"notifications": {"taskIds": [task_id]}}
        async with client.stream("subscriptions/listen", wanted) as stream:
            assert (await stream.message())["params"]["notifications"] == wanted["notifications"]
            while (pushed := await stream.message())["params"]["status"] == "working":
                assert (pushed["method"], pushed["params"]["taskId"]) == ("notifications/tasks", task_id)
        shown = (await client.tasks("get", task_id)).result
        del shown["resultType"], pushed["params"]["_meta"]
        assert (pushed["method"], pushed["params"]) == ("notifications/tasks", shown)
        assert (shown["status"], payload in shown) == (end, True)


@pytest.mark.conformance
@pytest.mark.usefixtures("conformance")
async def test_no_task_scenario_is_left_out() -> None:
    named = await server_scenarios(EXTENSION)
    assert sorted(TASK_SCENARIOS) == sorted(one for one in named if one.startswith("tasks-"))


@pytest.mark.conformance
@pytest.mark.usefixtures("conformance")
async def test_no_input_scenario_is_left_out() -> None:
    named = await server_scenarios(MODERN_VERSION)
    assert sorted(INPUT_SCENARIOS) == sorted(one for one in named if one.startswith("input-required-"))
