"""The real peers without the shim: what they do is the measure for what they do through it."""

from pathlib import Path

import pytest

from tests.client import LegacyClient
from tests.peers import conformance as suite
from tests.peers import venvs
from tests.peers.processes import legacy_client, legacy_server

pytestmark = pytest.mark.peers


async def test_the_same_jobs_leave_the_same_transcript(
    legacy_python: Path, legacy_url: str, tmp_path: Path
) -> None:
    first = await legacy_client(legacy_python, legacy_url, log=tmp_path / "client.log")
    again = await legacy_client(legacy_python, legacy_url, log=tmp_path / "client.log")
    assert first == again
    asked = [e["server_request"]["method"] for e in first["give_input"]["exchanges"] if "server_request" in e]
    assert asked == ["elicitation/create"]
    assert first["list_tasks"]["outcome"] is True
    assert first["resume"]["outcome"][0] == "completed"


@pytest.mark.parametrize("flags", [(), ("--stock",)])
async def test_stock_task_support_does_not_outlive_another_session(
    legacy_python: Path, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    async with legacy_server(legacy_python, *flags, log=tmp_path / "server.log") as url:
        async with LegacyClient(url) as first, LegacyClient(url) as second:
            await first.initialize()
            await second.initialize()
            await second.delete()
            reply = await first.call("slow_compute", {"seconds": 0}, task={})
        if flags:
            assert "TaskSupport not running" in reply.result["content"][0]["text"]
        else:
            assert reply.result["task"]["status"] == "working"


async def test_without_events_there_are_no_event_ids(legacy_python: Path, tmp_path: Path) -> None:
    async with (
        legacy_server(legacy_python, "--no-events", log=tmp_path / "server.log") as url,
        LegacyClient(url) as client,
    ):
        reply = await client.initialize()
        assert [frame.id for frame in reply.frames] == [None]


@pytest.mark.conformance
@pytest.mark.usefixtures("conformance")
async def test_every_scenario_of_the_old_version_passes(legacy_url: str) -> None:
    scenarios = await suite.server_scenarios(suite.LEGACY_VERSION)
    assert len(scenarios) >= 30
    failed = []
    for scenario in scenarios:
        checks = await suite.run_scenario(legacy_url, scenario, suite.LEGACY_VERSION)
        assert suite.passed(checks), scenario
        failed += suite.failures(checks)
    assert failed == []


def test_a_registry_that_cannot_be_reached_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TASKSHIM_PEERS", str(tmp_path))
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    venvs.legacy_python.cache_clear()
    with pytest.raises(venvs.PeerUnavailableError, match=r"pip install|mcp"):
        venvs.legacy_python()
    venvs.legacy_python.cache_clear()
    assert not (tmp_path / "legacy" / ".ready").exists()
