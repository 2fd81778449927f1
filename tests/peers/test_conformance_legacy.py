"""The official suite's 2025-11-25 scenarios: the same checks through the shim as without it (LL-1)."""

import asyncio
from pathlib import Path

import pytest

from shim.app import running
from tests.peers import conformance as suite
from tests.ports import free_port
from tests.shim import config_for

SCENARIOS = (
    "server-initialize",
    "server-session-lifecycle",
    "logging-set-level",
    "ping",
    "completion-complete",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-with-logging",
    "tools-call-error",
    "tools-call-with-progress",
    "tools-call-sampling",
    "tools-call-elicitation",
    "json-schema-2020-12",
    "elicitation-sep1034-defaults",
    "server-sse-polling",
    "server-sse-multiple-streams",
    "elicitation-sep1330-enums",
    "resources-list",
    "resources-read-text",
    "resources-read-binary",
    "resources-templates-read",
    "resources-subscribe",
    "resources-unsubscribe",
    "prompts-list",
    "prompts-get-simple",
    "prompts-get-with-args",
    "prompts-get-embedded-resource",
    "prompts-get-with-image",
    "dns-rebinding-protection",
)


@pytest.mark.conformance
@pytest.mark.usefixtures("conformance")
async def test_no_scenario_is_left_out() -> None:
    assert sorted(await suite.server_scenarios(suite.LEGACY_VERSION)) == sorted(SCENARIOS)


@pytest.mark.conformance
@pytest.mark.usefixtures("conformance")
@pytest.mark.rule("LL-1")
@pytest.mark.parametrize("scenario", SCENARIOS)
async def test_a_scenario_gives_the_same_checks_through_the_shim(
    scenario: str, legacy_url: str, tmp_path: Path
) -> None:
    port = free_port()
    # the suite calls from a page of the server's own address, which the operator has to allow (ORIGIN)
    listen = {"port": port, "allowed_origins": (f"http://localhost:{port}", f"http://127.0.0.1:{port}")}
    async with running(config_for(legacy_url, tmp_path, listen=listen)) as app:
        direct, through = await asyncio.gather(
            suite.run_scenario(legacy_url, scenario, suite.LEGACY_VERSION, timeout_s=240),
            suite.run_scenario(app.url, scenario, suite.LEGACY_VERSION, timeout_s=240),
        )
    assert [(check.id, check.status) for check in through] == [(check.id, check.status) for check in direct]
    assert suite.passed(through)
