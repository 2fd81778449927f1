"""What a client carries back names its upstream: states and cursors (CUTOVER-STAY)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from shim.app import running
from tests.client import LegacyClient, ModernClient
from tests.corners.lm import more
from tests.corners.ml import ALICE
from tests.corners.two import BOB, pair
from tests.scripted import Error, Scripted, text, tool
from tests.shim import config_for

pytestmark = pytest.mark.rule("CUTOVER-STAY")

ANSWERS: Mapping[str, Any] = {"inputResponses": {"q": {"action": "accept", "content": {"ok": True}}}}
NAMED = {"tools/call": {"name": "run"}, "prompts/get": {"name": "p"}, "resources/read": {"uri": "r:1"}}
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}


def brought(server: Scripted, method: str, name: str) -> list[Any]:
    """What the server was given back under a name."""
    return [seen.params[name] for seen in server.seen(method) if name in seen.params]


@pytest.mark.parametrize("method", NAMED)
async def test_a_round_goes_to_the_server_that_asked(method: str, tmp_path: Path) -> None:
    async with (
        pair(tmp_path, "new") as both,
        ModernClient(both.app.url, headers=ALICE) as client,
    ):
        state = 'a "state" of ümlauts.and.dots'
        both.new.once(method, more("q", state=state))
        asked = (await client.request(method, NAMED[method])).result
        assert asked["requestState"].endswith(f".{state}")
        both.app.reload(both.config())
        both.new.once(method, {"resultType": "complete", "content": []})
        retry = {**NAMED[method], **ANSWERS, "requestState": asked["requestState"]}
        assert (await client.request(method, retry)).result["content"] == []
        assert brought(both.new, method, "requestState") == [state]
        assert both.old.seen(method) == []


@pytest.mark.parametrize("method", LISTS)
async def test_a_page_is_turned_where_the_list_began(method: str, tmp_path: Path) -> None:
    async with pair(tmp_path, "new") as both, ModernClient(both.app.url, headers=ALICE) as client:
        pages = [{"resultType": "complete", LISTS[method]: []} for _ in range(2)]
        both.new.once(method, {**pages[0], "nextCursor": "c1"}, pages[1])
        cursor = (await client.request(method, {})).result["nextCursor"]
        both.app.reload(both.config())
        assert "nextCursor" not in (await client.request(method, {"cursor": cursor})).result
        assert brought(both.new, method, "cursor") == ["c1"]


async def test_a_page_of_the_old_server_too(tmp_path: Path) -> None:
    async with pair(tmp_path) as both, ModernClient(both.app.url, headers=ALICE) as client:
        both.old.once("tools/list", {"tools": [tool("a")], "nextCursor": "c1"}, {"tools": [tool("b")]})
        cursor = (await client.request("tools/list", {})).result["nextCursor"]
        both.app.reload(both.config("new"))
        page = (await client.request("tools/list", {"cursor": cursor})).result
        assert [one["name"] for one in page["tools"]] == ["b"]
        assert brought(both.old, "tools/list", "cursor") == ["c1"]


@pytest.mark.parametrize("method", LISTS)
@pytest.mark.parametrize("began", ["old", "new"])
async def test_a_legacy_client_without_a_session_turns_its_page_there_too(
    method: str, began: str, tmp_path: Path
) -> None:
    async with (
        pair(tmp_path, default=began) as both,
        LegacyClient(both.app.url, headers=ALICE) as client,
    ):
        server, other = (both.old, both.new) if began == "old" else (both.new, both.old)
        first = {"resultType": "complete", LISTS[method]: [], "nextCursor": 'ü."c1"'}
        server.once(method, first, {LISTS[method]: []}, any_session=began == "old")
        cursor = (await client.request(method, {})).result["nextCursor"]
        both.app.reload(both.config(default="new" if began == "old" else "old"))
        assert "nextCursor" not in (await client.request(method, {"cursor": cursor})).result
        assert brought(server, method, "cursor") == ['ü."c1"']
        assert other.seen(method) == []


@pytest.mark.parametrize("server", ["old", "new"])
async def test_a_cursor_of_a_session_is_the_servers_own(server: str, tmp_path: Path) -> None:
    """The session says where it goes: nothing has to be put before it."""
    async with (
        pair(tmp_path, default=server) as both,
        LegacyClient(both.app.url, headers=ALICE) as client,
    ):
        await client.initialize()
        one = both.old if server == "old" else both.new
        one.once("prompts/list", {"resultType": "complete", "prompts": [], "nextCursor": "c1"})
        assert (await client.request("prompts/list", {})).result["nextCursor"] == "c1"


@pytest.mark.parametrize("how", ["foreign", "altered", "none"])
async def test_what_names_no_upstream_goes_by_the_rules_as_it_is(how: str, tmp_path: Path) -> None:
    async with (
        pair(tmp_path, "new") as both,
        ModernClient(both.app.url, headers=ALICE) as client,
    ):
        both.new.once("tools/call", more("q"))
        state = (await client.call("run")).result["requestState"]
        state = {"foreign": state, "altered": "A" + state, "none": "state-1"}[how]
        client.headers = BOB if how == "foreign" else ALICE
        both.new.once("tools/call", text("done"))
        await client.call("run", **ANSWERS, requestState=state)
        assert brought(both.new, "tools/call", "requestState") == [state]


async def test_a_url_is_visited_for_the_server_that_wants_it(tmp_path: Path) -> None:
    async with (
        pair(tmp_path) as both,
        ModernClient(both.app.url, headers=ALICE, capabilities={"elicitation": {"url": {}}}) as client,
    ):
        wanted = {"mode": "url", "message": "m", "url": "https://example.org/", "elicitationId": "e"}
        both.old.once("tools/call", Error(-32042, "visit", {"elicitations": [wanted]}))
        asked = (await client.call("plain")).result
        both.new.on("tools/list", {"tools": [tool("plain")]})
        both.app.reload(both.config("new"))
        reply = await client.call(
            "plain",
            inputResponses={"elicitation-1": {"action": "accept"}},
            requestState=asked["requestState"],
        )
        assert reply.result["content"] == text("old")["content"]
        assert both.new.seen("tools/call") == []


async def test_a_keyed_call_that_is_repeated_names_the_server_that_answered_it(tmp_path: Path) -> None:
    headers = {**ALICE, "Idempotency-Key": "k"}
    async with (
        pair(tmp_path, "new") as both,
        ModernClient(both.app.url, headers=headers) as client,
    ):
        both.new.once("tools/call", more("q"), text("done"))
        first = (await client.call("run")).result
        both.app.reload(both.config())
        again = (await client.call("run")).result
        assert again["requestState"] == first["requestState"]
        done = await client.call("run", **ANSWERS, requestState=again["requestState"])
        assert done.result["content"] == text("done")["content"]
        assert brought(both.new, "tools/call", "requestState") == ["state-1"]


async def test_one_upstream_is_named_nowhere_and_still_read(tmp_path: Path) -> None:
    async with (
        pair(tmp_path, "new") as both,
        ModernClient(both.app.url, headers=ALICE) as client,
    ):
        both.new.once("tools/call", more("q"))
        state = (await client.call("run")).result["requestState"]
        new_url = both.new.url
        # the old server has gone, and with it the cutover
        config = config_for(new_url, tmp_path / "alone", upstream={"name": "new", "dialect": "sep-2663"})
        config = config.model_copy(update={"identity": both.config().identity})
        (tmp_path / "alone").mkdir()
        async with running(config) as app, ModernClient(app.url, headers=ALICE) as alone:
            both.new.once("tools/call", text("done"), more("q", state="state-2"))
            await alone.call("run", **ANSWERS, requestState=state)
            assert brought(both.new, "tools/call", "requestState") == ["state-1"]
            assert (await alone.call("run")).result["requestState"] == "state-2"
