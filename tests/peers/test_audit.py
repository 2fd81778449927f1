"""The audit logs of a real run, of the mcp 1.30 and the fastmcp 4 client, say who used what."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import pytest_asyncio

from shim.app import running
from shim.auditing.gate import Gate
from shim.auditing.integrity import integrity, reordered
from shim.auditing.logs import Filter, Logs, reading
from shim.auditing.period import Period
from shim.auditing.tables import ask
from tests.peers.processes import fastmcp_client, legacy_client
from tests.shim import config_for

pytestmark = pytest.mark.peers

KEYS = {"nightly": "key-of-nightly-0123456789", "portal": "key-of-portal-0123456789"}


@pytest_asyncio.fixture
async def log(legacy_url: str, legacy_python: Path, fastmcp_python: Path, tmp_path: Path) -> Path:
    """`nightly` has the old client do three jobs, `portal` the new one two."""
    identity = {"sources": ["api_key"], "api_key": {"keys": KEYS}}
    async with running(config_for(legacy_url, tmp_path, identity=identity)) as shim:
        await legacy_client(
            legacy_python, shim.url, "poll_then_result", "list_tasks", "plain_call",
            headers={"X-API-Key": KEYS["nightly"]},
        )  # fmt: skip
        await fastmcp_client(
            fastmcp_python, shim.url, "plain_call", "poll_then_result", headers={"X-API-Key": KEYS["portal"]}
        )
    return tmp_path / "audit.jsonl"


def by(logs: Logs, table: str, column: str) -> dict[str, dict]:
    return {row[column]: row for row in ask(logs, table)}


async def test_it_names_callers_clients_features_and_gives_the_verdict(log: Path) -> None:
    with reading([str(log)], io.BytesIO()) as logs:
        logs.look(logs.span)
        callers = by(logs, "callers", "caller")
        assert set(callers) == set(KEYS)
        assert callers["nightly"]["legacy"] == callers["nightly"]["requests"] > 0
        assert callers["portal"]["legacy"] == 0 < callers["portal"]["requests"]
        assert {row["era"] for row in ask(logs, "clients")} == {"legacy", "modern"}
        features = by(logs, "features", "feature")
        assert set(features) >= {"session", "task param", "tasks/get", "tasks/result", "tasks/list"}
        assert all(row["callers"] == 1 for row in features.values())
        [tasks] = [row for row in ask(logs, "tasks") if row["corner"] == "ML"]
        assert (tasks["completed"], tasks["open"]) == (tasks["tasks"], 0)
        logs.look(logs.span, Filter(caller="portal"))
        assert ask(logs, "features") == []
        whole = integrity(logs)
        assert (whole.missing, whole.dropped, whole.unreadable, reordered(logs)) == (0, 0, (), [])

        span = Period(logs.span.since, logs.span.until)
        assert Gate(logs, span).ask("legacy-only-from:portal").verdict == "unsafe"
        [who] = Gate(logs, span).ask("legacy-only-from:portal").in_the_way
        assert who["caller"] == "nightly"
        now = datetime.now(UTC).replace(tzinfo=None)
        assert Gate(logs, Period(now - timedelta(days=14), now)).ask("no-legacy-for:14d").verdict == "unsafe"
        assert Gate(logs, Period(now, now + timedelta(days=14))).ask("no-legacy-for:14d").verdict == "unknown"
