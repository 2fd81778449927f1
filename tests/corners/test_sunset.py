"""The end of the old API: what its clients are told, and what becomes of their requests after it (SUNSET)."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from shim.app import running
from tests.client import LegacyClient, ModernClient
from tests.corners.lm import seen_as
from tests.corners.ml import ALICE, HandClock
from tests.corners.two import config_of, new_server, old_server, ran
from tests.scripted import Error, task, text
from tests.shim import events

pytestmark = pytest.mark.rule("SUNSET")

LINK = "https://example.org/migrate"
DAY = {"deprecation": "2026-07-28", "sunset": "2027-07-28"}
ENDS_MS = int(datetime(2027, 7, 28, tzinfo=UTC).timestamp() * 1000)


def clock_at(ms: int) -> HandClock:
    clock = HandClock()
    clock.advance(ms - clock.now_ms())
    return clock


@pytest.mark.parametrize(
    ("cutover", "told"),
    [
        ({}, {"Deprecation": "@1785196800"}),
        ({"deprecation": "2023-06-30"}, {"Deprecation": "@1688083200"}),
        ({"link": LINK}, {"Deprecation": "@1785196800", "Link": f'<{LINK}>; rel="deprecation"'}),
        (DAY, {"Deprecation": "@1785196800", "Sunset": "Wed, 28 Jul 2027 00:00:00 GMT"}),
        (
            {**DAY, "link": LINK},
            {
                "Deprecation": "@1785196800",
                "Sunset": "Wed, 28 Jul 2027 00:00:00 GMT",
                "Link": f'<{LINK}>; rel="deprecation sunset"',
            },
        ),
    ],
)
@pytest.mark.parametrize("default", ["old", "new"])
async def test_headers_of_successful_legacy_answers(
    cutover: dict[str, Any], told: dict[str, str], default: str, tmp_path: Path
) -> None:
    async with (
        old_server() as old,
        new_server() as new,
        running(config_of(old.url, new.url, tmp_path, default=default, **cutover)) as app,
        LegacyClient(app.url, headers=ALICE) as client,
        ModernClient(app.url, headers=ALICE) as modern,
    ):
        for server in (old, new):
            server.on("prompts/get", Error(-32602, "no"))
        replies = [
            await client.initialize(),
            await client.request("tools/list", {}),
            await client.call("run", task={}),
            await client.notify("notifications/roots/list_changed", {}),
            await client.request("prompts/get", {"name": "p"}),
            await client.tasks("get", "nobody's"),
            await modern.call("run"),
        ]
        found = [
            {name: reply.headers[name] for name in ("Deprecation", "Sunset", "Link") if name in reply.headers}
            for reply in replies
        ]
        assert found == [told] * 4 + [{}] * 3


@pytest.mark.parametrize(
    ("after", "shift_ms", "action"),
    [
        ("serve", -1, None),
        ("warn", -1, None),
        ("refuse", -1, None),
        ("serve", 0, "served"),
        ("warn", 0, "warned"),
        ("refuse", 0, "refused"),
    ],
)
@pytest.mark.parametrize("how", ["experimental", "create-status"])
async def test_a_request_after_the_end(
    how: str, after: str, shift_ms: int, action: str | None, tmp_path: Path
) -> None:
    clock, served = clock_at(ENDS_MS + shift_ms), action != "refused"
    async with (
        old_server() as old,
        new_server() as new,
        running(
            config_of(old.url, new.url, tmp_path, **DAY, after_sunset=after, link=LINK), clock=clock
        ) as app,
        LegacyClient(app.url, headers=ALICE) as client,
        ModernClient(app.url, headers=ALICE) as modern,
        aiohttp.ClientSession(app.admin_url or "") as admin,
    ):
        if how == "experimental":
            reply = await client.initialize(notify=False)
            code, message = -32602, "Unsupported protocol version: this API ended on 2027-07-28"
        else:
            client.url = app.url.replace("/mcp", "/create-status")
            reply = await client.request("tasks/create", {"name": "run", "arguments": {}})
            code, message = -32600, "this API ended on 2027-07-28: take 2026-07-28"
        assert reply.status == 200
        if not served:
            assert (reply.error["code"], reply.error["message"]) == (code, f"{message}; see {LINK}")
            said = {key: reply.error["data"][key] for key in ("sunset", "link", "supported")}
            assert said == {"sunset": "2027-07-28", "link": LINK, "supported": ["2026-07-28"]}
            assert reply.headers["Sunset"] == "Wed, 28 Jul 2027 00:00:00 GMT"
            assert old.seen("initialize") == old.seen("tools/call") == []
        else:
            assert reply.result
        assert (await modern.call("run")).status == 200
        async with admin.get("/metrics") as answer:
            counted = f'taskshim_sunset_requests_total{{action="{action}"}}' in await answer.text()
        assert counted is (action is not None)
    found = [one["action"] for one in events(tmp_path, "sunset")]
    assert found == ([action] if action in {"warned", "refused"} else [])
    assert [one["reason"] for one in events(tmp_path, "denied")] == ([] if served else ["sunset"])


@pytest.mark.parametrize("default", ["old", "new"])
async def test_what_was_begun_before_the_end_can_be_finished(default: str, tmp_path: Path) -> None:
    clock = clock_at(ENDS_MS - 60_000)
    async with (
        old_server() as old,
        new_server() as new,
        running(
            config_of(old.url, new.url, tmp_path, default=default, **DAY, after_sunset="refuse"), clock=clock
        ) as app,
        LegacyClient(app.url, headers=ALICE) as client,
    ):
        await client.initialize()
        task_id = await ran(client, task={})
        clock.advance(60_000)
        assert (await client.call("run", task={})).error["code"] == -32600
        assert (await client.request("tools/list", {})).error["code"] == -32600
        assert (await client.request("ping", {})).result == {}
        assert (await client.notify("notifications/roots/list_changed", {})).status == 202
        assert (await client.tasks("get", task_id)).result["status"] == "working"
        assert [one["taskId"] for one in (await client.request("tasks/list", {})).result["tasks"]] == [
            task_id
        ]
        old.on("tasks/get", task(task_id, "completed"))
        old.on("tasks/result", text("done"))
        new.on("tasks/get", seen_as(task_id, "completed", result=text("done")))
        clock.advance(60_000)
        assert (await client.tasks("get", task_id)).result["status"] == "completed"
        assert (await client.tasks("result", task_id)).result["content"] == text("done")["content"]
        assert (await client.delete()).status == 200


async def test_each_caller_is_told_of_once_in_the_operators_log(tmp_path: Path) -> None:
    with capture_logs() as logs:
        async with (
            old_server() as old,
            new_server() as new,
            running(
                config_of(old.url, new.url, tmp_path, **DAY, after_sunset="warn"), clock=clock_at(ENDS_MS)
            ) as app,
            LegacyClient(app.url, headers=ALICE) as client,
        ):
            await client.initialize()
            for _ in range(3):
                assert (await client.call("plain")).result
    assert len([one for one in logs if "after its end" in one["event"]]) == 1
    assert len(events(tmp_path, "sunset")) == 5
