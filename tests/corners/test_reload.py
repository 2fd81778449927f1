"""A reload: what the next request meets, what is said, and what a bad config leaves as it was."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from shim.app import App, running
from shim.config import Config, ConfigError
from tests.client import LegacyClient, ModernClient
from tests.corners.ml import TOOLS
from tests.scripted import Scripted, task, text
from tests.shim import config_for

TEAM = {"X-Api-Key": "team-key-1234567890"}
KEYS = {"sources": ["api_key"], "api_key": {"keys": {"team": TEAM["X-Api-Key"]}}}
SETTINGS = {"dialect": "experimental", "credentials": "service", "service_token": "old"}


@pytest.fixture
async def app(upstream: Scripted, tmp_path: Path) -> AsyncIterator[App]:
    upstream.on("tools/list", TOOLS)
    async with running(config(upstream, tmp_path)) as app:
        yield app


def config(upstream: Scripted, folder: Path, /, **sections: Any) -> Config:
    more = {**SETTINGS, **sections.pop("upstream", {})}
    return config_for(upstream.url, folder, upstream=more, **sections)


async def test_the_next_request_meets_the_new_policies(upstream: Scripted, tmp_path: Path, app: App) -> None:
    upstream.on("tools/call", {"task": task()})
    async with ModernClient(app.url) as client, LegacyClient(app.url) as legacy:
        assert "task" not in (await client.call("run")).result
        app.reload(
            config(
                upstream, tmp_path,
                modern={"create_result": "both"}, limits={"body_bytes": 2_000, "sessions_per_caller": 1},
                upstream={"service_token": "new", "forward_headers": ["X-Team"]},
            )
        )  # fmt: skip
        assert (await client.call("run", headers={"X-Team": "red"})).result["task"]
        assert (await client.call("run", {"long": "x" * 2_000})).status == 413
        await legacy.initialize()
    last = upstream.seen("tools/call")[-1]
    assert (last.headers["Authorization"], last.headers["X-Team"]) == ("Bearer new", "red")


async def test_who_is_calling_is_found_out_by_the_new_sources(
    upstream: Scripted, tmp_path: Path, app: App
) -> None:
    upstream.on("tools/call", text("hi"))
    async with ModernClient(app.url) as client:
        assert (await client.call("plain")).status == 200
        app.reload(config(upstream, tmp_path, identity=KEYS))
        assert (await client.call("plain")).status == 401
        assert (await client.call("plain", headers=TEAM)).status == 200


async def test_what_waits_for_a_restart_is_named(upstream: Scripted, tmp_path: Path, app: App) -> None:
    changed = config(
        upstream, tmp_path, listen={"port": 1}, ledger={"path": tmp_path / "other.db"},
        legacy={"page_size": 7},
    )  # fmt: skip
    for _ in range(2):
        with capture_logs() as logs:
            app.reload(changed)
        [warning] = [one for one in logs if one["log_level"] == "warning"]
        assert warning["keys"] == ("ledger.path", "listen.port")
    assert not (tmp_path / "other.db").exists()


async def test_a_config_that_cannot_be_used_changes_nothing(
    upstream: Scripted, tmp_path: Path, app: App
) -> None:
    upstream.on("tools/call", {"task": task()})
    missing = {"sources": ["api_key"], "api_key": {"file": tmp_path / "none"}}
    with pytest.raises(ConfigError, match=r"identity\.api_key\.file"):
        app.reload(config(upstream, tmp_path, identity=missing, modern={"create_result": "both"}))
    async with ModernClient(app.url) as client:
        assert "task" not in (await client.call("run")).result


@pytest.mark.rule("CUTOVER-RULES")
@pytest.mark.parametrize(
    "cutover",
    [
        {"default": "next"},
        {"rules": ["next 5%"]},
        {"fallback": "next"},
        {"drain": ["next"]},
        {"shadow": {"upstream": "next", "tools": ["plain"]}},
    ],
)
async def test_no_call_is_sent_to_an_upstream_that_begins_with_the_next_start(
    upstream: Scripted, tmp_path: Path, app: App, cutover: dict[str, Any]
) -> None:
    upstream.on("tools/call", text("hi"))
    one = config(upstream, tmp_path)
    both = {**dict(one), "upstream": (*one.upstream, one.upstream[0].model_copy(update={"name": "next"}))}
    with pytest.raises(ConfigError, match="upstream 'next' is new"):
        app.reload(Config.model_validate({**both, "cutover": cutover}))
    app.reload(Config.model_validate(both))
    with pytest.raises(ValueError, match="no upstream is called 'next'"):
        app.steering.change({"default": "next"}, by="somebody")
    async with ModernClient(app.url) as client:
        assert (await client.call("plain")).status == 200
