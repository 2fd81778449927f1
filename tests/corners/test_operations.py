"""What an operator's settings do: headers that pass, tasks left alone, sessions taken over."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from shim.app import running
from tests.client import LegacyClient, ModernClient
from tests.corners.ml import corner
from tests.scripted import Error, Scripted, task, text
from tests.shim import config_for

DAY_MS = 86_400_000


@pytest.mark.rule("HEADERS")
async def test_only_listed_headers_go_upstream_and_none_of_its_own_come_back(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tools/list", {"tools": []})
    upstream.on("tools/call", text("hi"))
    settings = {"dialect": "experimental", "forward_headers": ["X-Team"]}
    config = config_for(upstream.url, tmp_path, upstream=settings)
    sent = {
        "traceparent": "00-" + "1" * 32 + "-" + "2" * 16 + "-01",
        "X-Team": "red",
        "X-Other": "no",
        "Cookie": "a=b",
        "Connection": "X-Hop",
        "X-Hop": "no",
        "X-Forwarded-For": "10.0.0.1",
    }
    async with running(config) as app, ModernClient(app.url, headers=sent) as client:
        reply = await client.call("greet")
    assert reply.status == 200
    [call] = upstream.seen("tools/call")
    names = {name.lower() for name in call.headers}
    assert {"traceparent", "x-team"} <= names
    assert not names & {"x-other", "cookie", "x-hop", "x-forwarded-for", "mcp-method", "mcp-name"}
    assert call.headers["Accept-Encoding"] == "identity"
    assert call.headers["Host"] in upstream.url
    assert reply.headers["X-Request-Id"]
    assert "Set-Cookie" not in reply.headers


@pytest.mark.rule("DUR-6")
@pytest.mark.parametrize(("on_abandon", "cancelled"), [("keep", 0), ("cancel", 1)])
async def test_a_task_nobody_asks_for_is_told_once_and_seen_to(
    upstream: Scripted, tmp_path: Path, on_abandon: str, cancelled: int
) -> None:
    upstream.on("tasks/cancel", {"taskId": "task-1", "status": "cancelled"})
    upstream.on("tasks/get", {"taskId": "task-1", "status": "working"})
    held = {"credential_hold_ms": 2 * DAY_MS}  # else it waits for its owner (OWN-CREDENTIAL)
    async with corner(upstream, tmp_path, tasks={"on_abandon": on_abandon}, identity=held) as ml:
        await ml.create()
        await ml.app.tasks.sweeper.once()
        ml.clock.advance(DAY_MS + 1)
        await ml.app.tasks.sweeper.once()
        await ml.app.tasks.sweeper.once()
    async with corner(
        upstream, tmp_path, clock=ml.clock, tasks={"on_abandon": on_abandon}, identity=held
    ) as ml:
        await ml.app.tasks.sweeper.once()
        assert [event["task_id"] for event in ml.events("task.abandoned")] == ["task-1"]
        assert len(upstream.seen("tasks/cancel")) == cancelled
        await ml.get()
        ml.clock.advance(DAY_MS + 1)
        await ml.app.tasks.sweeper.once()
        await ml.app.tasks.sweeper.once()
    assert [event["task_id"] for event in ml.events("task.abandoned")] == ["task-1", "task-1"]


@pytest.mark.rule("DUR-6")
async def test_a_cancel_of_an_abandoned_task_is_tried_until_it_is_taken(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tasks/get", task())
    upstream.once("tasks/cancel", Error(-32603, status=503), Error(-32603, status=503))
    upstream.on("tasks/cancel", task())
    held = {"credential_hold_ms": 2 * DAY_MS}
    async with corner(upstream, tmp_path, tasks={"on_abandon": "cancel"}, identity=held) as ml:
        await ml.create()
        ml.clock.advance(DAY_MS + 1)
        for _ in range(5):
            await ml.app.tasks.sweeper.once()
    assert len(ml.events("task.abandoned")) == 1
    assert len(upstream.seen("tasks/cancel")) == 3


@pytest.mark.rule("OWN-ADOPT")
@pytest.mark.parametrize(("until", "status"), [(datetime(2999, 1, 1, tzinfo=UTC), 200), (None, 404)])
async def test_a_session_from_before_the_shim_is_taken_over_while_the_operator_allows_it(
    upstream: Scripted, tmp_path: Path, until: datetime | None, status: int
) -> None:
    upstream.on("ping", {})
    upstream.on("tools/call", text("hi"))
    async with LegacyClient(upstream.url) as before:
        await before.initialize()
        session = before.session
    config = config_for(
        upstream.url, tmp_path, upstream={"dialect": "experimental"}, ownership={"adopt_until": until}
    )
    async with running(config) as app, LegacyClient(app.url) as client:
        client.session = session
        assert (await client.call("greet")).status == status
        client.session = "made-up"
        assert (await client.call("greet")).status == 404
