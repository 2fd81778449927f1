"""SHADOW: copies of calls that do no harm go to the other server too, and both answers are compared."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from shim.app import App, running
from shim.config import Config
from shim.shadow.shadow import _is_named, is_named
from tests.client import LegacyClient, ModernClient
from tests.corners.lm import DISCOVER, asks, made, more, seen_as
from tests.corners.ml import ALICE, elicit
from tests.planted import arguments
from tests.scripted import JSON_TYPE, Error, Hang, Raw, Scriptable, Scripted, scripted, task, tool
from tests.shim import config_for, events

pytestmark = pytest.mark.rule("SHADOW")

NAMED = {"tools": ["search", "get_*"], "percent": 100}
ORDER = {"id": 7, "price": 12, "tags": ["a", "b", "c"], "lines": [{"n": 1, "sum": 3}, {"n": 2, "sum": 4}]}


def result(value: Any, **fields: Any) -> dict[str, Any]:
    """A CallToolResult of a tool with structured output; the text is laid out as the server likes."""
    return {
        "content": [{"type": "text", "text": "see structuredContent"}],
        "structuredContent": value,
        **fields,
    }


def modern(value: Any, **fields: Any) -> dict[str, Any]:
    return {"resultType": "complete", **result(value, **fields)}


async def until(so: Callable[[], bool]) -> None:
    """Wait until the shim, which tells nobody, is so far."""
    while not so():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


@dataclass
class Both:
    """An old and a new server behind one shim; calls go to the old one unless a rule says otherwise."""

    old: Scripted
    new: Scripted
    app: App
    folder: Path

    async def dealt(self, count: int = 1) -> dict[str, int]:
        """Wait until so many samples were dealt with; gives what became of all of them."""
        counts = self.app.shadow.counts
        await until(lambda: counts.total() >= count)
        return {outcome: number for (_, outcome), number in counts.items()}

    def events(self, name: str) -> list[dict[str, Any]]:
        """The events of a name, once the shim has stopped."""
        return events(self.folder, name)

    def differences(self) -> set[tuple[str, str]]:
        return {(event["path"], event["kind"]) for event in self.events("shadow.diff")}


def config_of(
    old: Scripted, new: Scripted, folder: Path, *, default: str, shadow: dict[str, Any], **credentials: Any
) -> Config:
    config = config_for(old.url, folder).model_dump()
    config["cutover"] |= {"default": default, "shadow": {**NAMED, **shadow}}
    config["upstream"] = [
        {"name": "old", "url": old.url, "dialect": "experimental", **credentials},
        {"name": "new", "url": new.url, "dialect": "sep-2663", **credentials},
    ]
    return Config.model_validate(config)


@asynccontextmanager
async def both(folder: Path, default: str = "old", **shadow: Any) -> AsyncIterator[Both]:
    credentials = shadow.pop("credentials", {})
    async with scripted() as old, scripted(sessions=False) as new:
        old.on("tools/list", {"tools": [tool("search", "optional"), tool("get_plain"), tool("drop_all")]})
        old.on("tools/call", result(ORDER))
        new.on("server/discover", DISCOVER)
        new.on("tools/call", modern(ORDER))
        async with running(config_of(old, new, folder, default=default, shadow=shadow, **credentials)) as app:
            yield Both(old, new, app, folder)


def _renamed(order: dict[str, Any]) -> None:
    order["cost"] = order.pop("price")


def _changed(order: dict[str, Any]) -> None:
    order["lines"][1]["sum"] = 5


def _missing(order: dict[str, Any]) -> None:
    del order["lines"][0]


def _reordered(order: dict[str, Any]) -> None:
    order["tags"].reverse()


def _timed(order: dict[str, Any]) -> None:
    order["due"] = "2026-01-02T00:00:00Z"


def _noisy(order: dict[str, Any]) -> None:
    order |= {"generatedAt": "2026-01-02T00:00:00Z", "requestId": "0d3b7a5e-0a0b-4c1d-8e2f-000000000002"}


@pytest.mark.parametrize("default", ["old", "new"])
@pytest.mark.parametrize(
    ("seed", "found"),
    [
        (lambda _: None, set()),
        (_renamed, {("structuredContent.price", "missing"), ("structuredContent.cost", "extra")}),
        (_changed, {("structuredContent.lines[].sum", "value")}),
        (_missing, {("structuredContent.lines[]", "missing")}),
        (_reordered, {("structuredContent.tags", "order")}),
        (_timed, {("structuredContent.due", "value")}),
        (_noisy, set()),
    ],
)
async def test_seeded_differences_are_found_at_their_place(
    seed: Callable[[dict[str, Any]], None], found: set[tuple[str, str]], default: str, tmp_path: Path
) -> None:
    order = {
        **ORDER, "due": "2026-01-01T00:00:00Z", "generatedAt": "2026-01-01T00:00:00Z",
        "requestId": "0d3b7a5e-0a0b-4c1d-8e2f-000000000001",
    }  # fmt: skip
    seeded = json.loads(json.dumps(order))
    seed(seeded)
    async with both(tmp_path, default) as pair:
        pair.old.on("tools/call", result(seeded if default == "new" else order))
        pair.new.on("tools/call", modern(seeded if default == "old" else order))
        async with ModernClient(pair.app.url, headers=ALICE) as client:
            shown = (await client.call("get_plain", {"q": "geheim"})).result["structuredContent"]
        assert shown == order
        assert await pair.dealt() == {"different" if found else "same": 1}
    assert pair.differences() == found
    [compared] = pair.events("shadow.compared")
    other = {"old": "new", "new": "old"}[default]
    assert (compared["upstream"], compared["other"], compared["tool"]) == (default, other, "get_plain")
    assert (compared["outcome"], compared["count"]) == ("different" if found else "same", 1)
    assert "geheim" not in (tmp_path / "audit.jsonl").read_text()


async def test_text_that_is_json_is_compared_as_json(tmp_path: Path) -> None:
    def texts(*values: Any, **layout: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": json.dumps(one, **layout)} for one in values]}

    async with both(tmp_path) as pair, ModernClient(pair.app.url, headers=ALICE) as client:
        pair.old.on("tools/call", texts({"a": 1, "b": [1, 2]}, indent=2))
        pair.new.on("tools/call", {"resultType": "complete", **texts({"b": [1, 2], "a": 1})})
        await client.call("search")
        assert await pair.dealt() == {"same": 1}
        pair.new.on("tools/call", {"resultType": "complete", **texts({"b": [1, 3], "a": 1})})
        await client.call("search")
        await pair.dealt(2)
    assert pair.differences() == {("content[].text.b[]", "value")}


async def test_what_is_ignored_is_not_told(tmp_path: Path) -> None:
    ignore = {"structuredContent.lines[].sum": "the old server rounds"}
    async with (
        both(tmp_path, ignore=ignore) as pair,
        ModernClient(pair.app.url, headers=ALICE) as client,
    ):
        pair.new.on("tools/call", modern({**ORDER, "lines": [{"n": 1, "sum": 0}, {"n": 2, "sum": 0}]}))
        await client.call("search")
        assert await pair.dealt() == {"same": 1}


async def test_a_tool_that_is_not_named_never_reaches_the_second_server(tmp_path: Path) -> None:
    async with (
        both(tmp_path) as pair,
        ModernClient(pair.app.url, headers=ALICE) as client,
        LegacyClient(pair.app.url, headers=ALICE) as old_client,
    ):
        await old_client.initialize()
        harmless = tool("drop_all", annotations={"readOnlyHint": True})
        for server in (pair.old, pair.new):
            server.on("tools/list", {"tools": [harmless, tool("search")]})
        for _ in range(20):
            await client.call("drop_all", {"really": True})
            await old_client.call("drop_all", {"really": True})
            await client.call("research")
        await client.call("search")
        await pair.dealt()
        assert [seen.params["name"] for seen in pair.new.seen("tools/call")] == ["search"]


@pytest.mark.parametrize("name", ["search" + "x" * 300, "get_" + "x" * 300])
def test_a_name_that_no_tool_has_is_not_kept(name: str) -> None:
    kept = _is_named.cache_info().currsize
    assert not is_named(("search", "get_*"), name)
    assert _is_named.cache_info().currsize == kept


@pytest.mark.parametrize("credentials", ["pass", "service"])
async def test_a_copy_has_the_tool_the_arguments_and_nothing_of_its_caller(
    credentials: str, tmp_path: Path
) -> None:
    service = {"credentials": "service", "service_token": "shims-own"} if credentials == "service" else {}
    async with (
        both(tmp_path, credentials=service) as pair,
        ModernClient(
            pair.app.url, headers={**ALICE, "traceparent": f"00-{'a' * 32}-{'b' * 16}-01"}
        ) as client,
    ):
        await client.call("search", {"q": 1.10}, meta={"com.example/secret": "geheim"})
        await pair.dealt()
        for seen in pair.new.requests:
            own = "Bearer shims-own" if service else None
            assert seen.headers.get("Authorization") == own
            assert "traceparent" not in seen.headers
        [copied] = pair.new.seen("tools/call")
        assert {key: value for key, value in copied.params.items() if key != "_meta"} == {
            "name": "search", "arguments": arguments({"q": 1.10}),
        }  # fmt: skip
        assert "geheim" not in copied.body.decode()
        assert "test-client" not in copied.body.decode()


async def test_a_server_that_wants_the_callers_credential_is_skipped_and_left_alone(tmp_path: Path) -> None:
    async with both(tmp_path) as pair, ModernClient(pair.app.url, headers=ALICE) as client:
        pair.new.on("tools/call", Raw(b"", 401, {"WWW-Authenticate": "Bearer"}))
        pair.new.on("server/discover", Raw(b"", 401, {"WWW-Authenticate": "Bearer"}))
        for count in (1, 2, 3):
            assert (await client.call("search")).result["structuredContent"] == ORDER
            assert await pair.dealt(count) == {"credential": count}
        assert len(pair.new.requests) == 1
    assert {event["reason"] for event in pair.events("shadow.compared")} == {"credential"}


async def test_the_client_does_not_wait_for_its_copy(tmp_path: Path) -> None:
    async with (
        both(tmp_path, queue=2, concurrency=1) as pair,
        ModernClient(pair.app.url, headers=ALICE) as client,
    ):
        pair.new.on("tools/call", Hang())
        for _ in range(5):
            assert (await client.call("search")).result["structuredContent"] == ORDER
        # one runs, two wait, and the others are dropped
        assert await pair.dealt(2) == {"dropped": 2}
        await pair.new.wait("tools/call")
        assert len(pair.new.seen("tools/call")) == 1


async def test_a_copy_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    async with both(tmp_path, timeout_ms=50) as pair, ModernClient(pair.app.url, headers=ALICE) as client:
        pair.new.on("tools/call", Hang())
        await client.call("search")
        assert await pair.dealt() == {"timeout": 1}


@pytest.mark.parametrize("percent", [0, 30, 100])
async def test_a_share_is_sampled(percent: float, tmp_path: Path) -> None:
    numbers = itertools.cycle([0.05, 0.15, 0.25, 0.35, 0.45, 0.55, 0.65, 0.75, 0.85, 0.95])
    async with both(tmp_path, percent=percent) as pair, ModernClient(pair.app.url, headers=ALICE) as client:
        pair.app.shadow._chance = lambda: next(numbers)
        for _ in range(10):
            await client.call("search")
        await pair.dealt(int(percent / 10))
        assert len(pair.new.seen("tools/call")) == percent / 10


async def test_what_is_too_large_is_not_compared(tmp_path: Path) -> None:
    async with both(tmp_path, max_bytes=2_000) as pair, ModernClient(pair.app.url, headers=ALICE) as client:
        await client.call("search", {"q": "x" * 2_000})
        assert await pair.dealt() == {"too_large": 1}
        assert pair.new.requests == []
        pair.new.on("tools/call", modern({"much": "x" * 4_000}))
        await client.call("search")
        assert await pair.dealt(2) == {"too_large": 2}


async def test_a_large_result_is_compared_in_a_thread(tmp_path: Path) -> None:
    rows = [{"n": number, "name": f"row {number}"} for number in range(1_000)]
    async with both(tmp_path) as pair, ModernClient(pair.app.url, headers=ALICE) as client:
        pair.old.on("tools/call", result(rows))
        pair.new.on("tools/call", modern([*rows[:500], *rows[501:]]))
        await client.call("search")
        assert await pair.dealt() == {"different": 1}
    assert pair.differences() == {("structuredContent[]", "missing")}


# -- tasks ------------------------------------------------------------------------------------


async def test_a_copy_that_becomes_a_task_is_followed_to_its_end(tmp_path: Path) -> None:
    async with both(tmp_path) as pair, ModernClient(pair.app.url, headers=ALICE, tasks=False) as client:
        pair.new.on("tools/call", made("copy-1", pollIntervalMs=1))
        pair.new.once("tasks/get", seen_as("copy-1", pollIntervalMs=1))
        pair.new.on("tasks/get", seen_as("copy-1", "completed", result=result({**ORDER, "price": 13})))
        await client.call("get_plain")
        assert await pair.dealt() == {"different": 1}
        assert await pair.app.ledger.open_count_by_caller("shadow") == 0
    assert pair.differences() == {("structuredContent.price", "value")}
    assert pair.events("task.created") == []


async def test_a_copy_on_an_old_server_is_a_task_there_where_the_tool_wants_it(tmp_path: Path) -> None:
    async with both(tmp_path, "new") as pair, ModernClient(pair.app.url, headers=ALICE) as client:
        pair.old.on("tools/list", {"tools": [tool("search", "required")]})
        pair.old.on("tools/call", lambda _: {"task": task("copy-1", pollInterval=1)})
        pair.old.on("tasks/get", task("copy-1", "completed"))
        pair.old.on("tasks/result", result(ORDER))
        await client.call("search")
        assert await pair.dealt() == {"same": 1}
        [called] = pair.old.seen("tools/call")
        assert called.params["task"] == {"ttl": 120_000}
        await client.call("search")  # its session is free again
        await pair.dealt(2)
        assert len({seen.session for seen in pair.old.seen("tools/call")}) == 1


@pytest.mark.parametrize("era", ["modern", "legacy"])
async def test_a_task_is_compared_once_it_has_ended(era: str, tmp_path: Path) -> None:
    async with (
        both(tmp_path) as pair,
        ModernClient(pair.app.url, headers=ALICE) as new_client,
        LegacyClient(pair.app.url, headers=ALICE) as old_client,
    ):
        await old_client.initialize()
        pair.old.on("tools/call", lambda _: {"task": task("old-1")})
        pair.old.on("tasks/get", task("old-1"))
        client, options = (new_client, {}) if era == "modern" else (old_client, {"task": {}})
        made_task = (await client.call("search", {"q": 2}, **options)).result
        task_id = (made_task.get("task") or made_task)["taskId"]
        assert (await client.tasks("get", task_id)).result["status"] == "working"
        await until(lambda: pair.app.shadow._waiting != {})
        assert pair.new.requests == []
        pair.old.on("tasks/get", task("old-1", "completed"))
        pair.old.on("tasks/result", result({**ORDER, "id": 8}))
        while (await client.tasks("get", task_id)).result["status"] == "working":
            pass
        if era == "legacy":
            await client.tasks("result", task_id)
        assert await pair.dealt() == {"different": 1}
        assert pair.new.seen("tools/call")[0].params["arguments"] == arguments({"q": 2})
    assert pair.differences() == {("structuredContent.id", "value")}


async def test_a_task_that_ended_before_it_was_waited_for_is_compared(tmp_path: Path) -> None:
    async with both(tmp_path, "new") as pair, ModernClient(pair.app.url, headers=ALICE) as client:
        pair.new.on("tools/call", made("new-1", status="completed", result=result(ORDER)))
        pair.new.on("tasks/get", seen_as("new-1", "completed", result=result(ORDER)))
        pair.old.on("tools/list", {"tools": [tool("search")]})
        task_id = (await client.call("search")).result["taskId"]
        await client.tasks("get", task_id)
        assert await pair.dealt() == {"same": 1}


async def test_a_cancelled_task_is_not_compared(tmp_path: Path) -> None:
    async with both(tmp_path) as pair, ModernClient(pair.app.url, headers=ALICE) as client:
        pair.old.on("tools/call", lambda _: {"task": task("old-1")})
        pair.old.on("tasks/get", task("old-1"))
        pair.old.on("tasks/cancel", task("old-1", "cancelled"))
        task_id = (await client.call("search")).result["taskId"]
        await until(lambda: pair.app.shadow._waiting != {})
        pair.old.on("tasks/get", task("old-1", "cancelled"))
        await client.tasks("cancel", task_id)
        await client.tasks("get", task_id)
        assert await pair.dealt() == {"cancelled": 1}
        assert pair.new.requests == []


async def test_tasks_that_never_end_make_room_for_younger_ones(tmp_path: Path) -> None:
    async with both(tmp_path, queue=2) as pair, ModernClient(pair.app.url, headers=ALICE) as client:
        ids = itertools.count(1)
        pair.old.on("tools/call", lambda _: {"task": task(f"old-{next(ids)}")})
        for _ in range(3):
            await client.call("search")
            await until(lambda: not pair.app.shadow.busy)
        assert await pair.dealt() == {"dropped": 1}
        assert len(pair.app.shadow._waiting) == 2


# -- questions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("called", "got"),
    [
        (more("ok"), None),
        (made("copy-1"), asks("ok", task_id="copy-1")),
    ],
)
async def test_a_copy_that_is_asked_something_is_cancelled_and_not_compared(
    called: Scriptable, got: Scriptable | None, tmp_path: Path
) -> None:
    async with both(tmp_path) as pair, ModernClient(pair.app.url, headers=ALICE, tasks=False) as client:
        pair.new.on("tools/call", called)
        pair.new.on("tasks/cancel", {"resultType": "complete"})
        if got is not None:
            pair.new.on("tools/call", made("copy-1", pollIntervalMs=1))
            pair.new.on("tasks/get", got)
        await client.call("get_plain")
        assert await pair.dealt() == {"asked": 1}
        assert len(pair.new.seen("tasks/cancel")) == (got is not None)


async def test_a_copy_on_an_old_server_that_is_asked_something_is_refused_it(tmp_path: Path) -> None:
    async with (
        both(tmp_path, "new") as pair,
        ModernClient(pair.app.url, headers=ALICE, tasks=False) as client,
    ):
        pair.old.on("tools/list", {"tools": [tool("search")]})
        call = pair.old.stream("tools/call")
        await client.call("search")
        await call.send(elicit("q"))
        assert "error" in (await pair.old.response_to("q")).message
        assert await pair.dealt() == {"asked": 1}
        await pair.old.wait("notifications/cancelled")


async def test_a_call_that_asked_its_client_is_not_compared(tmp_path: Path) -> None:
    async with both(tmp_path, "new") as pair, ModernClient(pair.app.url, headers=ALICE) as client:
        pair.new.on("tools/call", more("ok"))
        state = (await client.call("search")).result["requestState"]
        assert await pair.dealt() == {"asked": 1}
        pair.new.on("tools/call", modern(ORDER))
        await client.call("search", requestState=state, inputResponses={"ok": {"action": "decline"}})
        await client.call("search")
        assert await pair.dealt(2) == {"asked": 1, "same": 1}
        assert len(pair.old.seen("tools/call")) == 1


# -- what goes wrong ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (Error(-32602, "unknown tool"), "different"),
        (Raw(b"busy", 503, {}), "failed"),
        (Raw(b"{}", 200, {"Content-Type": JSON_TYPE}), "failed"),
        (modern(ORDER, isError=True), "different"),
    ],
)
async def test_whatever_the_second_server_answers_the_client_has_its_own(
    answer: Scriptable, outcome: str, tmp_path: Path
) -> None:
    async with both(tmp_path) as pair, LegacyClient(pair.app.url, headers=ALICE) as client:
        await client.initialize()
        pair.new.on("tools/call", answer)
        assert (await client.call("search")).result["structuredContent"] == ORDER
        assert await pair.dealt() == {outcome: 1}


async def test_a_keyed_call_is_not_copied(tmp_path: Path) -> None:
    async with both(tmp_path) as pair, ModernClient(pair.app.url, headers=ALICE) as client:
        for _ in range(2):
            await client.call("search", headers={"Idempotency-Key": "once"})
        await client.call("search")
        await pair.dealt()
        assert len(pair.new.seen("tools/call")) == 1


async def test_a_call_that_went_to_the_target_is_not_copied(tmp_path: Path) -> None:
    async with (
        both(tmp_path, "new", upstream="new") as pair,
        ModernClient(pair.app.url, headers=ALICE) as client,
    ):
        await client.call("search")
        config = config_of(pair.old, pair.new, tmp_path, default="old", shadow={"upstream": "new"})
        pair.app.reload(config)
        await client.call("search")
        assert await pair.dealt() == {"same": 1}
        assert (len(pair.old.seen("tools/call")), len(pair.new.seen("tools/call"))) == (1, 2)


@pytest.mark.parametrize(
    ("shadow", "fault"),
    [
        ({"tools": ["*"]}, "names every tool"),
        ({"ignore": {"structuredContent.at": " "}}, "say why"),
        ({"ignore": {"": "why"}}, "at least 1 character"),
        ({"upstream": "third"}, "no upstream is called 'third'"),
        ({"percent": 101}, "less than or equal to 100"),
    ],
)
async def test_what_cannot_be_meant_is_refused(shadow: dict[str, Any], fault: str, tmp_path: Path) -> None:
    async with scripted() as old, scripted() as new:
        with pytest.raises(ValidationError, match=fault):
            config_of(old, new, tmp_path, default="old", shadow=shadow)


@pytest.mark.parametrize(("count", "fault"), [(1, "no second upstream"), (3, "say which of the upstreams")])
def test_it_must_be_clear_which_server_gets_the_copies(count: int, fault: str) -> None:
    upstreams = [{"name": f"s{n}", "url": "http://127.0.0.1:1/mcp"} for n in range(count)]
    with pytest.raises(ValidationError, match=fault):
        Config.model_validate({"upstream": upstreams, "cutover": {"shadow": {"tools": ["search"]}}})
