"""What an operator reads when something is wrong: one line that names it, in the log and of the audit log."""

import sqlite3
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from shim.app import App, running
from shim.upstreams.http import open_client
from tests.client import ModernClient
from tests.corners.ml import ALICE, HandClock
from tests.corners.two import events
from tests.scripted import Raw, Scripted, task, tool
from tests.shim import config_for

PEERS_WORDS = "S3CRET-of-the-peer"
GONE = "http://127.0.0.1:1/mcp"
HTML = {"Content-Type": f"text/html; {PEERS_WORDS}"}


async def metric(app: App, name: str) -> float:
    async with aiohttp.ClientSession() as http, http.get(f"{app.admin_url}/metrics") as answer:
        lines = (await answer.text()).splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def said(logs: Any, event: str) -> list[dict[str, Any]]:
    return [{**one} for one in logs if one["event"] == event]


def config(url: str, folder: Path, **sections: Any) -> Any:
    return config_for(url, folder, upstream={"dialect": "experimental", "credentials": "none"}, **sections)


@pytest.mark.rule("ERRORS")
@pytest.mark.parametrize(
    ("answer", "fault"),
    [
        (Raw(b"", 404, HTML), "HTTP 404: no MCP endpoint is there; look at the path of its URL"),
        (Raw(b"", 301, HTML), "HTTP 301: redirects are not followed, name the final address"),
        (Raw(b"", 429, HTML), "HTTP 429: it is asked more than it allows"),
        (Raw(b"", 500, HTML), "HTTP 500"),
        (Raw(PEERS_WORDS.encode(), 200, HTML), "HTTP 200, which is no MCP answer"),
    ],
)
async def test_a_server_whose_answers_are_none_is_named_once_with_what_is_wrong(
    answer: Raw, fault: str, upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("initialize", answer)
    with capture_logs() as logs:
        async with (
            running(config(upstream.url, tmp_path)) as app,
            ModernClient(app.url, headers=ALICE) as client,
        ):
            replies = [await client.call("run") for _ in range(3)]
    assert {reply.status for reply in replies} == {502}
    assert all(fault in reply.error["message"] for reply in replies)
    [line] = said(logs, "requests fail")
    assert (line["upstream"], line["fault"]) == ("main", f"the upstream answered {fault}")
    assert [one["fault"] for one in events(tmp_path, "request")] == [line["fault"]] * 3
    assert PEERS_WORDS not in str(logs) + (tmp_path / "audit.jsonl").read_text("utf-8")


@pytest.mark.rule("ERRORS")
async def test_what_a_peer_wrote_is_in_no_log(upstream: Scripted, tmp_path: Path) -> None:
    upstream.on("tools/list", {"tools": [tool("run", "optional")]})
    upstream.on("tools/call", {"task": {"taskId": PEERS_WORDS, "status": PEERS_WORDS}})
    with capture_logs() as logs:
        async with (
            running(config(upstream.url, tmp_path)) as app,
            ModernClient(app.url, headers=ALICE) as client,
        ):
            assert (await client.call("run")).status == 502
    [line] = said(logs, "requests fail")
    assert line["fault"] == "the upstream's answer cannot be read"
    assert PEERS_WORDS not in str(logs) + str([one.get("fault") for one in events(tmp_path, "request")])


@pytest.mark.rule("CUTOVER-FALLBACK")
async def test_a_server_that_goes_and_comes_back_is_told(upstream: Scripted, tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with running(config(GONE, tmp_path)) as app, ModernClient(app.url, headers=ALICE) as client:
            for _ in range(2):
                assert (await client.call("run")).status == 502
            link = app.stands["main"].link
            link._client = open_client(upstream.url, link.limits)  # it stands up at last
            await client.call("run")
            await link._client.close()
    lines = [
        (one["event"], one["log_level"], one.get("evidence")) for one in logs if "reached" in one["event"]
    ]
    assert lines == [
        ("the upstream cannot be reached", "warning", "Connection refused"),
        ("the upstream can be reached again", "info", None),
    ]


@pytest.mark.rule("OWN-CHECK")
async def test_a_ledger_that_cannot_be_written_is_named_and_never_a_traceback(
    upstream: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream.on("tools/list", {"tools": [tool("run", "optional")]})

    async def full(*_: Any, **__: Any) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    with capture_logs() as logs:
        async with (
            running(config(upstream.url, tmp_path)) as app,
            ModernClient(app.url, headers=ALICE) as client,
        ):
            with monkeypatch.context() as patch:
                patch.setattr("shim.ledger.writer.Writer.write", full)
                replies = [await client.call("run") for _ in range(2)]
            failed = await metric(app, "taskshim_ledger_failed_total")
    assert {(reply.status, reply.error["message"]) for reply in replies} == {
        (500, "the shim's ledger cannot be used: whether the request took effect is not known")
    }
    assert failed >= 2
    [line] = said(logs, "requests fail")
    assert line["fault"] == f"the ledger cannot be used: {tmp_path / 'ledger.db'}: database or disk is full"
    assert said(logs, "a request failed") == []


async def test_bounds_that_were_reached_are_told_each_minute_and_in_each_denial(
    upstream: Scripted, tmp_path: Path
) -> None:
    upstream.on("tools/list", {"tools": [tool("run", "optional")]})
    upstream.on("tools/call", {"task": task()})
    clock = HandClock()
    with capture_logs() as logs:
        async with (
            running(config(upstream.url, tmp_path, limits={"open_tasks_per_caller": 1}), clock=clock) as app,
            ModernClient(app.url, headers=ALICE) as client,
        ):
            replies = [await client.call("run") for _ in range(3)]
            await clock.slept(60_000)
            clock.advance(60_000)
            await clock.slept(60_000)
    assert [reply.status for reply in replies] == [200, 429, 429]
    [line] = said(logs, "limits were reached in the last minute")
    assert line["times"] == {"limits.open_tasks_per_caller": 2}
    assert [one["limit"] for one in events(tmp_path, "denied")] == ["limits.open_tasks_per_caller"] * 2
