"""ML: subscriptions/listen of a modern client over a legacy server."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.client import ModernClient, OpenStream
from tests.corners.ml import ALICE, Corner, HandClock, corner, elicit
from tests.scripted import EXPERIMENTAL, Error, Hang, Raw, scripted, sse_event, task, text

pytestmark = pytest.mark.rule("ML-LISTEN")

LISTEN, TOLD = "subscriptions/listen", "notifications/tasks"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED, TOOLS_CHANGED = "notifications/resources/updated", "notifications/tools/list_changed"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
OFFERS = {
    **EXPERIMENTAL,
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
}
A, B = "file:///a", "file:///b"
QUIET: dict[str, Any] = {"capabilities": {}}
"""A client that can be asked nothing: all its requests may share a session."""


def wanted(*ids: str, **more: Any) -> dict[str, Any]:
    return {"notifications": {**({"taskIds": list(ids)} if ids else {}), **more}}


def told(method: str, listen_id: Any = "L1", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": {**params, "_meta": {SUBSCRIPTION: listen_id}}}


def over(listen_id: Any = "L1") -> dict[str, Any]:
    result = {"resultType": "complete", "_meta": {SUBSCRIPTION: listen_id}}
    return {"jsonrpc": "2.0", "id": listen_id, "result": result}


def notice(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params else {})}


@asynccontextmanager
async def listening(
    ml: Corner,
    params: dict[str, Any],
    honoured: dict[str, Any] | None = None,
    client: ModernClient | None = None,
) -> AsyncIterator[OpenStream]:
    """Open a subscription under the id L1 and see what is honoured: all, if nothing else is said."""
    async with (client or ml.client).stream(LISTEN, params, id="L1") as stream:
        body = params["notifications"] if honoured is None else honoured
        assert await stream.message() == told(ACKNOWLEDGED, notifications=body)
        yield stream


async def test_a_task_is_shown_at_once_and_at_every_change(tmp_path: Path) -> None:
    async with scripted() as upstream, corner(upstream, tmp_path) as ml:
        task_id = await ml.create(pollInterval=1000)
        upstream.on("tasks/get", task(pollInterval=1000))
        upstream.stream("tasks/result")
        async with listening(ml, wanted(task_id)) as stream:
            shown = (await stream.message())["params"]
            assert (shown["taskId"], shown["status"], shown["ttlMs"]) == (task_id, "working", None)
            upstream.on("tasks/get", task(pollInterval=1000, statusMessage="3 of 7"))
            await ml.clock.slept(1_100, 1_200)
            ml.clock.advance(2_000)
            message = await stream.message()
            expected = {
                "taskId": task_id, "status": "working", "statusMessage": "3 of 7", "ttlMs": None,
                "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:01Z",
                "pollIntervalMs": 1000,
            }  # fmt: skip
            assert message == told(TOLD, **expected)


@pytest.mark.parametrize("listen_id", [1, "1", 9007199254740993])
async def test_everything_names_the_request_that_opened_the_stream(tmp_path: Path, listen_id: Any) -> None:
    async with scripted() as upstream, corner(upstream, tmp_path) as ml:
        task_id = await ml.create()
        upstream.on("tasks/get", task(status="cancelled"))
        async with ml.client.stream(LISTEN, wanted(task_id), id=listen_id) as stream:
            for method in (ACKNOWLEDGED, TOLD):
                message = await stream.message()
                assert message["method"] == method
                named = message["params"]["_meta"][SUBSCRIPTION]
                assert (type(named), named) == (type(listen_id), listen_id)


async def test_questions_and_the_end_come_whole(tmp_path: Path) -> None:
    async with scripted() as upstream, corner(upstream, tmp_path) as ml:
        task_id = await ml.create()
        result = upstream.stream("tasks/result")
        upstream.on("tasks/get", task(status="working"))
        async with listening(ml, wanted(task_id)) as stream:
            assert (await stream.message())["params"]["status"] == "working"
            await result.send(elicit("q-1", "task-1"))
            asked = (await stream.message())["params"]
            assert asked["status"] == "input_required"
            (key,) = asked["inputRequests"]
            assert asked["inputRequests"][key]["method"] == "elicitation/create"
            await ml.client.tasks("update", task_id, inputResponses={key: {"action": "decline"}})
            assert (await stream.message())["params"]["status"] == "working"
            upstream.on("tasks/get", task(status="completed"))
            await result.result(text("done"))
            await ml.clock.slept(1_100, 1_200)
            ml.clock.advance(10_000)
            ended = (await stream.message())["params"]
            assert ended["result"] == {"resultType": "complete", **text("done")}
            assert ended["status"] == "completed"


async def test_an_ended_task_is_shown_once(tmp_path: Path) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path, client=QUIET) as ml:
        task_id = await ml.create()
        upstream.on("tasks/get", task(status="failed", statusMessage="no luck"))
        upstream.on("tasks/result", Error(-32000, "no luck"))
        await ml.client.tasks("get", task_id)
        async with listening(ml, wanted(task_id, toolsListChanged=True)) as stream:
            shown = (await stream.message())["params"]
            assert (shown["status"], shown["error"]["code"]) == ("failed", -32000)
            await (await upstream.get_stream()).send(notice(TOOLS_CHANGED))
            assert await stream.message() == told(TOOLS_CHANGED)


@pytest.mark.rule("OWN-CHECK")
async def test_what_is_not_ones_own_is_left_out(tmp_path: Path) -> None:
    async with scripted() as upstream, corner(upstream, tmp_path) as ml:
        task_id = await ml.create()
        async with ModernClient(ml.app.url, headers={"Authorization": "Bearer bob"}) as bob:
            for named in (task_id, "nothing"):
                reply = await bob.request(LISTEN, wanted(named), id="L1")
                assert reply.messages == [told(ACKNOWLEDGED, notifications={"taskIds": []}), over()]
    assert [event["reason"] for event in ml.events("denied")] == ["not_owner", "unknown_task"]


@pytest.mark.rule("ML-UNDECLARED")
@pytest.mark.parametrize("filter_", [{"taskIds": []}, [TOLD]], ids=["published", "names"])
async def test_tasks_are_for_those_who_declare_them(tmp_path: Path, filter_: Any) -> None:
    async with scripted() as upstream, corner(upstream, tmp_path, client={"tasks": False}) as ml:
        reply = await ml.client.request(LISTEN, {"notifications": filter_})
        assert (reply.status, reply.error["code"]) == (400, -32021)
        required = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
        assert reply.error["data"] == {"requiredCapabilities": required}


@pytest.mark.rule("VALIDATE")
@pytest.mark.parametrize(
    "params",
    [
        {},
        {"notifications": None},
        {"notifications": {"taskIds": "x"}},
        {"notifications": {"toolsListChanged": 1}},
        {"notifications": {"resourceSubscriptions": [1]}},
        {"notifications": {"TaskIds": []}},
    ],
)
async def test_a_filter_that_is_none_is_refused(tmp_path: Path, params: dict[str, Any]) -> None:
    async with scripted() as upstream, corner(upstream, tmp_path) as ml:
        reply = await ml.client.request(LISTEN, params)
        assert (reply.status, reply.error["code"]) == (400, -32602)


async def test_only_what_the_server_offers_is_honoured(tmp_path: Path) -> None:
    everything = wanted(toolsListChanged=True, promptsListChanged=True, resourceSubscriptions=[A])
    offers = {**EXPERIMENTAL, "tools": {"listChanged": True}, "prompts": {}}
    async with (
        scripted(capabilities=offers) as upstream,
        corner(upstream, tmp_path) as ml,
        listening(ml, everything, {"toolsListChanged": True}),
    ):
        assert upstream.seen("resources/subscribe") == []
    async with scripted() as upstream, corner(upstream, tmp_path / "none") as ml:
        reply = await ml.client.request(LISTEN, everything, id="L1")
        assert reply.messages == [told(ACKNOWLEDGED, notifications={}), over()]


async def test_tasks_go_on_where_nothing_else_is_offered(tmp_path: Path) -> None:
    async with scripted() as upstream, corner(upstream, tmp_path) as ml:
        task_id = await ml.create()
        params = wanted(task_id, toolsListChanged=True)
        async with listening(ml, params, {"taskIds": [task_id]}) as stream:
            upstream.on("tasks/get", task())
            assert (await stream.message())["params"]["status"] == "working"
            upstream.on("tasks/get", task(status="cancelled"))
            await ml.clock.slept(1_100, 1_200)
            ml.clock.advance(10_000)
            assert (await stream.message())["params"]["status"] == "cancelled"


@pytest.mark.rule("OWN-VOUCH")
async def test_a_subscription_ends_with_its_credential(tmp_path: Path) -> None:
    clock = HandClock()
    expires = clock.now_ms() // 1000 + 20
    token = f"Bearer {_part(alg='none')}.{_part(iss='i', sub='alice', exp=expires)}.s"
    async with (
        scripted(capabilities=OFFERS) as upstream,
        corner(upstream, tmp_path, clock=clock, client={"headers": {"Authorization": token}}) as ml,
        listening(ml, wanted(toolsListChanged=True)) as stream,
    ):
        for _ in range(2):
            await clock.slept(15_000)
            clock.advance(15_000)
            await stream.next_raw()
        assert [frame.json for frame in stream.frames if frame.data][1:] == [over()]


def _part(**claims: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")


async def test_nothing_asked_for_is_nothing_honoured(tmp_path: Path) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path) as ml:
        reply = await ml.client.request(LISTEN, wanted(), id=7)
        assert reply.messages == [told(ACKNOWLEDGED, 7, notifications={}), over(7)]


async def test_a_server_without_streams_announces_nothing(tmp_path: Path) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path) as ml:
        upstream.get_answer = Raw(status=405)
        reply = await ml.client.request(LISTEN, wanted(toolsListChanged=True), id="L1")
        assert reply.messages == [told(ACKNOWLEDGED, notifications={}), over()]


async def test_announcements_pass_to_those_who_asked(tmp_path: Path) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path, client=QUIET) as ml:
        upstream.on("resources/subscribe", {})
        both = wanted(promptsListChanged=True, resourceSubscriptions=[A])
        async with listening(ml, both) as stream:
            get = await upstream.get_stream()
            await get.send(notice(TOOLS_CHANGED))
            await get.send(notice("notifications/message", level="error", data="x"))
            await get.send(notice(UPDATED, uri=B))
            await get.send(notice(UPDATED, uri=f"{A}/part", title="ä"))
            assert await stream.message() == told(UPDATED, uri=f"{A}/part", title="ä")
            await get.send(notice("notifications/prompts/list_changed", _meta={"x": 1}))
            message = await stream.message()
            assert message["params"]["_meta"] == {"x": 1, SUBSCRIPTION: "L1"}


async def test_a_resource_that_the_server_refuses_is_not_honoured(tmp_path: Path) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path) as ml:
        upstream.once("resources/subscribe", Error(-32602), {})
        params = wanted(resourceSubscriptions=[A, B])
        async with listening(ml, params, {"resourceSubscriptions": [B]}):
            assert [seen.params["uri"] for seen in upstream.seen("resources/subscribe")] == [A, B]


async def test_one_upstream_subscription_serves_all_of_a_caller(tmp_path: Path) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path, client=QUIET) as ml:
        for method in ("resources/subscribe", "resources/unsubscribe"):
            upstream.on(method, {})
        async with listening(ml, wanted(resourceSubscriptions=[A])) as first:
            get = await upstream.get_stream()
            async with listening(ml, wanted(resourceSubscriptions=[A, B])) as second:
                await get.send(notice(UPDATED, uri=A))
                for stream in (first, second):
                    assert await stream.message() == told(UPDATED, uri=A)
                second.close()
            assert (await upstream.wait("resources/unsubscribe")).params["uri"] == B
            await get.send(notice(UPDATED, uri=A))
            assert await first.message() == told(UPDATED, uri=A)
            first.close()
        assert (await upstream.wait("resources/unsubscribe", 2)).params["uri"] == A
        await get.left()
        assert [seen.params["uri"] for seen in upstream.seen("resources/subscribe")] == [A, B]
        assert len(upstream.seen("GET")) == 1


@pytest.mark.rule("ML-SESSION")
@pytest.mark.parametrize("headers", [{"Authorization": "Bearer bob"}, {}], ids=["another", "nobody"])
async def test_nobody_listens_on_anothers_session(tmp_path: Path, headers: dict[str, str]) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path, client=QUIET) as ml:
        upstream.on("resources/subscribe", {})
        other = ModernClient(ml.app.url, headers=headers, **QUIET)
        asked = wanted(toolsListChanged=True)
        async with listening(ml, asked) as mine, other, listening(ml, asked, client=other) as theirs:
            streams = {}
            for _ in range(2):
                get = await upstream.get_stream()
                streams[(await get.opened()).headers.get("Authorization")] = get
            await streams[headers.get("Authorization")].send(notice(TOOLS_CHANGED))
            assert await theirs.message() == told(TOOLS_CHANGED)
            await streams[ALICE["Authorization"]].send(notice(TOOLS_CHANGED))
            assert await mine.message() == told(TOOLS_CHANGED)
            assert len([frame for frame in theirs.frames if frame.data]) == 2


async def test_what_another_session_of_the_caller_hears_counts(tmp_path: Path) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path) as ml:
        call = upstream.stream("tools/call")
        async with listening(ml, wanted(toolsListChanged=True)) as stream:
            listens = (await (await upstream.get_stream()).opened()).session
            async with asyncio.TaskGroup() as group:
                group.create_task(ml.client.call("plain"))
                assert (await call.opened()).session != listens
                await call.send(notice(TOOLS_CHANGED))
                await call.result(text("ok"))
            assert await stream.message() == told(TOOLS_CHANGED)


@pytest.mark.rule("ML-SESSION-LOST")
@pytest.mark.parametrize("down", [0, 2], ids=["at once", "after a while"])
async def test_a_lost_session_is_made_up_for(tmp_path: Path, down: int) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path, client=QUIET) as ml:
        upstream.on("resources/subscribe", {})
        async with listening(ml, wanted(toolsListChanged=True, resourceSubscriptions=[A])) as stream:
            get = await upstream.get_stream()
            upstream.forget()
            upstream.once("POST", *[Raw(status=503)] * down)
            upstream.once("resources/subscribe", *[Raw(status=503)] * down)
            await get.close()
            await ml.clock.slept(250)
            ml.clock.advance(250)
            for wait_ms in (1_000, 5_000, 30_000, 30_000)[: 2 * down]:
                await ml.clock.slept(wait_ms)
                ml.clock.advance(wait_ms)
            again = await upstream.get_stream()
            # what was announced in between is not known: look again
            assert await stream.message() == told(TOOLS_CHANGED)
            assert await stream.message() == told(UPDATED, uri=A)
            subscribed = [seen.session for seen in upstream.seen("resources/subscribe")]
            assert subscribed == [upstream.sessions[0], *[(await again.opened()).session] * (1 + down)]
            await again.send(notice(TOOLS_CHANGED))
            assert await stream.message() == told(TOOLS_CHANGED)
    assert [event["reason"] for event in ml.events("session.lost")] == ["unknown_twice"]


@pytest.mark.rule("ML-SESSION-LOST")
async def test_a_session_lost_before_it_is_listened_on_is_replaced(tmp_path: Path) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path, client=QUIET) as ml:
        await ml.client.request("tools/list")
        upstream.forget()
        async with listening(ml, wanted(toolsListChanged=True)) as stream:
            await (await upstream.get_stream()).send(notice(TOOLS_CHANGED))
            assert await stream.message() == told(TOOLS_CHANGED)


async def test_a_list_of_names_means_every_task_also_later_ones(tmp_path: Path) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path) as ml:
        first = await ml.create()
        upstream.on("tasks/get", lambda seen: task(seen.params["taskId"]))
        names = {"notifications": [TOLD, TOOLS_CHANGED]}
        async with listening(ml, names, {"toolsListChanged": True, "taskIds": [first]}) as stream:
            assert (await stream.message())["params"]["taskId"] == first
            second = await ml.create("task-2")
            assert (await stream.message())["params"]["taskId"] == second
    assert "section-1" in [event["rule"] for event in ml.events("lenient")]


@pytest.mark.rule("OWN-NONE")
async def test_nobody_has_no_every_task(tmp_path: Path) -> None:
    async with scripted() as upstream, corner(upstream, tmp_path, client={"headers": {}}) as ml:
        await ml.create("0c8f9a52-30f6-4a53-9d3f-91b0f4f4c001")
        reply = await ml.client.request(LISTEN, {"notifications": [TOLD]}, id="L1")
        assert reply.messages == [told(ACKNOWLEDGED, notifications={}), over()]


async def test_a_quiet_stream_has_a_comment_now_and_then(tmp_path: Path) -> None:
    async with (
        scripted(capabilities=OFFERS) as upstream,
        corner(upstream, tmp_path) as ml,
        listening(ml, wanted(toolsListChanged=True)) as stream,
    ):
        for _ in range(2):
            await ml.clock.slept(15_000)
            ml.clock.advance(15_000)
            assert (await stream.next_raw()).comment


async def test_a_shim_that_stops_says_so(tmp_path: Path) -> None:
    async with scripted(capabilities=OFFERS) as upstream, AsyncExitStack() as outlives:
        async with corner(upstream, tmp_path) as ml:
            client = await outlives.enter_async_context(ModernClient(ml.app.url, headers=ALICE))
            params = wanted(toolsListChanged=True)
            stream = await outlives.enter_async_context(client.stream(LISTEN, params, id="L1"))
            await stream.message()
        said = told("notifications/cancelled", requestId="L1", reason="the server is stopping")
        assert await stream.rest() == [said, over()]


async def test_each_bound_has_its_answer(tmp_path: Path) -> None:
    limits = {"streams_per_caller": 1, "subscriptions_per_stream": 2}
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path, limits=limits) as ml:
        upstream.on("resources/subscribe", {})
        reply = await ml.client.request(LISTEN, wanted("x", resourceSubscriptions=[A, B]))
        assert (reply.status, reply.error["code"]) == (400, -32602)
        async with listening(ml, wanted(resourceSubscriptions=[A, B])):
            reply = await ml.client.request(LISTEN, wanted(toolsListChanged=True))
            assert (reply.status, reply.headers["Retry-After"]) == (429, "1")
            bob = ModernClient(ml.app.url, headers={"Authorization": "Bearer bob"})
            async with bob, listening(ml, wanted(toolsListChanged=True), client=bob):
                pass
    assert [event["reason"] for event in ml.events("denied")] == ["limit"]


@pytest.mark.rule("OWN-VOUCH")
async def test_a_credential_that_the_server_refuses_hears_nothing(tmp_path: Path) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path) as ml:
        upstream.once("initialize", Raw(b"", 401, {"WWW-Authenticate": "Bearer"}))
        reply = await ml.client.request(LISTEN, wanted(toolsListChanged=True))
        assert (reply.status, reply.headers["WWW-Authenticate"]) == (401, "Bearer")


async def test_more_than_may_wait_ends_the_stream_without_a_result(tmp_path: Path) -> None:
    limits = {"queue_per_stream": 2}
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path, limits=limits) as ml:
        upstream.on("resources/subscribe", {})
        async with listening(ml, wanted(toolsListChanged=True, resourceSubscriptions=[A])) as stream:
            get = await upstream.get_stream()
            await get.write(b"".join(sse_event(notice(TOOLS_CHANGED)) for _ in range(100)))
            assert await stream.message() == told(TOOLS_CHANGED)
            await get.write(b"".join(sse_event(notice(UPDATED, uri=f"{A}/{n}")) for n in range(100)))
            assert [one for one in await stream.rest() if "result" in one] == []
    (request,) = [event for event in ml.events("request") if event["method"] == LISTEN]
    assert request["outcome"] == "disconnected"


@pytest.mark.rule("OWN-NONE")
async def test_nobody_hears_of_a_task_by_its_id_alone(tmp_path: Path) -> None:
    async with scripted() as upstream, corner(upstream, tmp_path, client={"headers": {}}) as ml:
        task_id = await ml.create("0c8f9a52-30f6-4a53-9d3f-91b0f4f4c001")
        upstream.on("tasks/get", task(task_id, status="cancelled"))
        async with listening(ml, wanted(task_id)) as stream:
            assert (await stream.message())["params"]["status"] == "cancelled"


async def test_a_client_that_leaves_before_the_first_byte_leaves_nothing_open(tmp_path: Path) -> None:
    async with scripted(capabilities=OFFERS) as upstream, corner(upstream, tmp_path, client=QUIET) as ml:
        upstream.once("resources/subscribe", Hang())
        leaving = asyncio.create_task(ml.client.request(LISTEN, wanted(resourceSubscriptions=[A])))
        await upstream.wait("resources/subscribe")
        leaving.cancel()
        await (await upstream.get_stream()).left()
        upstream.on("resources/subscribe", {})
        async with listening(ml, wanted(resourceSubscriptions=[A])) as stream:
            await (await upstream.get_stream()).send(notice(UPDATED, uri=A))
            assert await stream.message() == told(UPDATED, uri=A)
