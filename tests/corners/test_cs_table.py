"""CS-TABLE: a site's own table, in which everything has another name, on either side of the shim."""

from pathlib import Path
from typing import Any

import pytest

from tests.client import LegacyClient
from tests.corners.ml import ALICE, accept, corner, elicit
from tests.scripted import Scripted, task, text

NAMES = {
    "tasks/create": "jobs/create",
    "tasks/status": "jobs/state",
    "tasks/result": "jobs/result",
    "tasks/list": "jobs/list",
    "tasks/cancel": "jobs/cancel",
    "tasks/inputResponse": "jobs/answer",
    "notifications/tasks/updated": "notifications/jobs",
    '"taskId"': '"jobId"',
    'status = "status"': 'status = "phase"',
    '"statusMessage"': '"note"',
    '"createdAt"': '"since"',
    'ttl = "ttl"': 'ttl = "keepFor"',
    '"pollInterval"': '"every"',
    '"inputRequests"': '"questions"',
    '"inputResponses"': '"answers"',
    'name = "create-status"': 'name = "site"',
    "running": "busy",
    "pending": "queued",
}
OURS = ("taskId", "inputResponses", "inputRequests", "createdAt", "statusMessage", "pollInterval", "ttl")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """The four-state table under the site's own names."""
    facts = (Path(__file__).parents[2] / "mappings" / "create-status.toml").read_text()
    for name, own in NAMES.items():
        assert name in facts
        facts = facts.replace(name, own)
    path = tmp_path / "site.toml"
    path.write_text(facts)
    return path


def job(phase: str = "busy", **fields: Any) -> dict[str, Any]:
    """The site's picture of a task."""
    return {"jobId": "task-1", "phase": phase, "since": "2026-01-01T00:00:00Z", "keepFor": None, **fields}


@pytest.mark.rule("CS-TABLE", "CS-STATUS", "CS-INPUT")
async def test_a_modern_client_on_a_server_with_its_own_names(
    upstream: Scripted, tmp_path: Path, table: Path
) -> None:
    question = {"method": "elicitation/create", "params": {"message": "sure?", "requestedSchema": {}}}
    upstream.on("jobs/create", job("queued", every=50))
    upstream.on("jobs/state", job(note="warm", questions={"q": question}))
    upstream.on("jobs/answer", {})
    upstream.on("jobs/cancel", job())
    sections: dict[str, Any] = {"upstream": {"dialect": "site"}, "mappings": {"files": (table,)}}
    async with corner(upstream, tmp_path, **sections) as ml:
        made = (await ml.client.call("run", {"a": 1})).result
        assert (made["taskId"], made["status"], made["pollIntervalMs"]) == ("task-1", "working", 50)
        shown = await ml.until("task-1", "input_required")
        assert shown["inputRequests"] == {"q": question}
        assert shown["statusMessage"] == "warm"
        await ml.client.tasks("update", "task-1", inputResponses={"q": accept(ok=True)})
        await upstream.wait("jobs/answer")
        await ml.client.tasks("cancel", "task-1")
        upstream.on("jobs/state", job("done"))
        upstream.on("jobs/result", text("ok"))
        assert (await ml.until("task-1", "completed"))["result"]["content"] == text("ok")["content"]
    assert upstream.seen("jobs/create")[0].params["name"] == "run"
    assert upstream.seen("jobs/answer")[0].params == {"jobId": "task-1", "answers": {"q": accept(ok=True)}}
    for method in ("jobs/state", "jobs/cancel", "jobs/result"):
        assert upstream.seen(method)[0].params == {"jobId": "task-1"}
    assert not [seen for seen in upstream.requests if (seen.method or "").startswith("tasks/")]


@pytest.mark.rule("CS-TABLE")
async def test_a_servers_own_status_notification_is_heard(
    upstream: Scripted, tmp_path: Path, table: Path
) -> None:
    upstream.on("jobs/create", lambda _: job("queued", jobId=f"task-{len(upstream.seen('jobs/create'))}"))
    upstream.on("jobs/state", job())
    sections: dict[str, Any] = {
        "upstream": {"dialect": "site"},
        "mappings": {"files": (table,)},
        "tasks": {"tasks_per_session": 2},
    }
    async with corner(upstream, tmp_path, **sections) as ml:
        await ml.client.call("run")
        await ml.client.call("run")
        get = await upstream.get_stream()
        said = {"jobId": "task-2", "phase": "busy", "_meta": {"requestId": 5}}
        await get.send({"jsonrpc": "2.0", "method": "notifications/jobs", "params": said})
        await get.send(elicit(5))
        assert list((await ml.until("task-2", "input_required"))["inputRequests"]) == ["elicitation-1"]
        assert (await ml.get("task-1"))["status"] == "working"


@pytest.mark.rule("CS-TABLE", "CS-DETECT", "CS-CREATE")
@pytest.mark.parametrize("session", [True, False])
async def test_a_client_with_the_sites_names_on_an_experimental_server(
    upstream: Scripted, tmp_path: Path, table: Path, *, session: bool
) -> None:
    upstream.on("tools/call", {"task": task(pollInterval=50)})
    upstream.on("tasks/get", task(status="input_required"))
    upstream.stream("tasks/result")
    sections: dict[str, Any] = {"mappings": {"files": (table,)}}
    async with corner(upstream, tmp_path, **sections) as ml, LegacyClient(ml.app.url, headers=ALICE) as site:
        if session:
            await site.initialize()
        made = (await site.request("jobs/create", {"name": "run", "arguments": {}, "keepFor": 9_000})).result
        assert made["jobId"] == "task-1"
        assert (made["phase"], made["every"]) == ("queued", 50)
        assert not set(OURS) & set(made)
        if not session:
            await (await upstream.get_stream()).send(elicit(5, "task-1"))
            shown: dict[str, Any] = {}
            while "questions" not in shown:
                ml.clock.advance(1_001)
                shown = (await site.request("jobs/state", {"jobId": "task-1"})).result
            assert list(shown["questions"]) == ["elicitation-1"]
            answers = {"jobId": "task-1", "answers": {"elicitation-1": accept(ok=True)}}
            assert "result" in (await site.request("jobs/answer", answers)).json
            assert (await upstream.response_to(5)).message["result"]["content"] == accept(ok=True)["content"]
        listed = (await site.request("jobs/list", {})).result
        assert [one["jobId"] for one in listed["tasks"]] == ["task-1"]
        nameless = await site.request("jobs/state", {"taskId": "task-1"})
        assert nameless.error["message"] == "params.jobId: expected a string"
        upstream.on("tasks/cancel", task(status="cancelled"))
        upstream.on("tasks/get", task(status="cancelled"))
        assert (await site.request("jobs/cancel", {"jobId": "task-1"})).result["phase"] == "error"
        foreign = await site.request("jobs/state", {"jobId": "task-1"}, headers={"Authorization": "Bearer b"})
        assert foreign.status == (404 if session else 200)
        assert "phase" not in str(foreign.json)
    assert upstream.seen("tools/call")[0].params["task"] == {"ttl": 9_000}
