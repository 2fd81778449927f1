"""LM-INPUT, INPUT-END: a modern server's questions on a legacy client's streams, each answered once."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.client import RELATED_TASK, LegacyClient, OpenStream
from tests.corners.lm import BOB, VISIT, Corner, corner, elicitation, seen_as
from tests.corners.ml import ALICE, HandClock, accept
from tests.models import check_legacy
from tests.scripted import Raw, Scripted, Seen, text

LATER_MS = 30_001
DROPS = 10


class Asking:
    """A modern server's task that asks its questions until they are answered."""

    def __init__(self, upstream: Scripted, *keys: str, then: dict[str, Any] | None = None) -> None:
        self.open = {key: elicitation(key) for key in keys}
        self.updates: list[dict[str, Any]] = []
        self._then = then or seen_as("task-1", "completed", result=text("done"))
        upstream.on("tasks/get", lambda _: self.shown())
        upstream.on("tasks/update", self.update)

    def shown(self) -> dict[str, Any]:
        return seen_as("task-1", "input_required", inputRequests=self.open) if self.open else self._then

    def update(self, seen: Seen) -> dict[str, Any]:
        self.updates.append(seen.params["inputResponses"])
        for key in seen.params["inputResponses"]:
            self.open.pop(key, None)
        return {"resultType": "complete"}


async def question(lm: Corner, stream: OpenStream) -> Any:
    """The next question on a stream; time passes until it comes."""

    async def coming() -> Any:
        while "id" not in (message := await stream.message()) or "method" not in message:
            pass
        return message

    return await lm.ticking(asyncio.ensure_future(coming()))


async def result(lm: Corner, client: LegacyClient | None = None) -> Any:
    return await lm.ticking(asyncio.ensure_future((client or lm.client).tasks("result", "task-1")))


@asynccontextmanager
async def on_result(client: LegacyClient) -> AsyncIterator[OpenStream]:
    async with client.stream("tasks/result", {"taskId": "task-1"}) as stream:
        yield stream


@asynccontextmanager
async def on_get(client: LegacyClient) -> AsyncIterator[OpenStream]:
    async with client.get() as stream:
        yield stream


@pytest.mark.rule("LM-INPUT", "KEYS")
@pytest.mark.parametrize("where", [on_get, on_result])
@pytest.mark.parametrize(
    ("answer", "upstream_answer"),
    [
        ({"result": accept(ok=True)}, accept(ok=True)),
        ({"result": {"action": "decline"}}, {"action": "decline"}),
        ({"result": accept(ok=True)["content"]}, accept(ok=True)),
        ({"error": {"code": -1, "message": "no"}}, {"action": "cancel"}),
    ],
)
async def test_a_question_is_asked_and_answered(
    modern_upstream: Scripted,
    tmp_path: Path,
    where: Any,
    answer: dict[str, Any],
    upstream_answer: dict[str, Any],
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        await lm.create()
        async with where(lm.client) as stream:
            server = Asking(modern_upstream, "k")
            asked = await question(lm, stream)
            reply = await lm.client.post({"jsonrpc": "2.0", "id": asked["id"], **answer})
            done = await result(lm)
    assert (reply.status, reply.body) == (202, b"")
    assert isinstance(asked["id"], str)
    params = asked["params"]
    assert params.pop("_meta") == {RELATED_TASK: {"taskId": "task-1"}}
    assert {"method": asked["method"], "params": params} == elicitation("k")
    check_legacy("ElicitRequest", asked)
    assert server.updates == [{"k": upstream_answer}]
    assert done.result["content"] == text("done")["content"]


@pytest.mark.rule("LM-INPUT")
@pytest.mark.parametrize(
    ("kind", "asked", "answer", "given"),
    [
        ("sampling", {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}},
         {"result": {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}},
         {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}),
        ("roots", {"method": "roots/list"}, {"result": {"roots": []}}, {"roots": []}),
        ("roots", {"method": "roots/list"}, {"error": {"code": -1, "message": "no"}}, {"roots": []}),
    ],
)  # fmt: skip
async def test_other_kinds_are_asked_too(
    modern_upstream: Scripted, tmp_path: Path, kind: str, asked: Any, answer: Any, given: Any
) -> None:
    async with corner(modern_upstream, tmp_path, client={"capabilities": {kind: {}}}) as lm:
        server = Asking(modern_upstream, "k")
        server.open["k"] = asked
        await lm.create()
        async with on_get(lm.client) as stream:
            message = await question(lm, stream)
            await lm.client.post({"jsonrpc": "2.0", "id": message["id"], **answer})
            await result(lm)
    assert message["method"] == asked["method"]
    assert server.updates == [{"k": given}]


NO = {"code": -1, "message": "User rejected sampling request", "data": {"n": 1.10}}
REFUSED = "the client refused sampling, which cannot be told to the server: User rejected sampling request"


@pytest.mark.rule("LM-INPUT", "INPUT-END")
@pytest.mark.parametrize("gone", [False, True], ids=["there", "away"])
async def test_a_refused_sampling_is_the_tasks_end(
    modern_upstream: Scripted, tmp_path: Path, *, gone: bool
) -> None:
    """The new API has no answer that says no, so the server would ask for ever."""
    async with corner(modern_upstream, tmp_path, client={"capabilities": {"sampling": {}}}) as lm:
        server = Asking(modern_upstream, "k")
        server.open["k"] = SAMPLING
        if gone:
            modern_upstream.on("tasks/cancel", Raw("", 503))
        await lm.create()
        async with on_get(lm.client) as stream:
            message = await question(lm, stream)
            await lm.client.post({"jsonrpc": "2.0", "id": message["id"], "error": NO})
        ended = await lm.client.tasks("get", "task-1")
        done = await result(lm)
        again = await lm.client.post({"jsonrpc": "2.0", "id": message["id"], "error": NO})
    assert ended.result["status"] == "failed"
    assert done.error == {"code": -32603, "message": REFUSED, "data": NO}
    assert (again.status, server.updates) == (202, [])
    assert [seen.params["taskId"] for seen in modern_upstream.seen("tasks/cancel")] == ["task-1"]
    assert [event["field"] for event in lm.events("loss")] == ["error"]


@pytest.mark.rule("LM-INPUT", "LM-CREATE")
async def test_a_refused_sampling_is_the_end_of_a_local_task(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    asking = {"resultType": "input_required", "inputRequests": {"k": SAMPLING}, "requestState": "s"}
    modern_upstream.on("tools/call", asking)
    async with corner(modern_upstream, tmp_path, client={"capabilities": {"sampling": {}}}) as lm:
        task_id = (await lm.client.call("run", task={})).result["task"]["taskId"]
        async with lm.client.stream("tasks/result", {"taskId": task_id}) as stream:
            message = await question(lm, stream)
            await lm.client.post({"jsonrpc": "2.0", "id": message["id"], "error": NO})
            [done] = [one for one in await lm.ticking(asyncio.ensure_future(stream.rest())) if "error" in one]
        assert not [work for work in lm.app.tasks.room.background if work.get_name().startswith("local ")]
    assert done["error"] == {"code": -32603, "message": REFUSED, "data": NO}
    assert len(modern_upstream.seen("tools/call")) == 1
    assert modern_upstream.seen("tasks/cancel") == []


SAMPLING: dict[str, Any] = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}


@pytest.mark.rule("LM-INPUT")
async def test_a_url_to_visit_has_one_id_however_often_it_is_sent(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        server = Asking(modern_upstream, "k")
        server.open["k"] = VISIT
        await lm.create()
        async with on_get(lm.client) as stream:
            first = await question(lm, stream)
        lm.clock.advance(LATER_MS)
        async with on_get(lm.client) as stream:
            second = await question(lm, stream)
            await lm.client.respond(second["id"], {"action": "accept"})
            await result(lm)
    assert first == second
    check_legacy("ElicitRequest", first)
    assert first["params"].pop("elicitationId")
    del first["params"]["_meta"]
    assert first["params"] == VISIT["params"]
    assert server.updates == [{"k": {"action": "accept"}}]


@pytest.mark.rule("LM-INPUT")
async def test_what_a_session_left_unanswered_goes_to_the_next_at_once(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    never = {"redeliver_after_ms": 1_000_000_000}
    async with corner(modern_upstream, tmp_path, legacy=never) as lm:
        server = Asking(modern_upstream, "k")
        await lm.create()
        async with on_get(lm.client) as stream:
            left = await question(lm, stream)
            await lm.client.delete()
        other = await lm.seated(ALICE)
        async with on_result(other) as stream:
            asked = await question(lm, stream)
            await other.respond(asked["id"], accept(ok=True))
            await lm.ticking(asyncio.ensure_future(stream.rest()))
    assert asked["params"] == left["params"]
    assert asked["id"] != left["id"]
    assert server.updates == [{"k": accept(ok=True)}]


@pytest.mark.rule("LM-INPUT")
async def test_the_sessions_own_stream_comes_first(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        other = await lm.seated(ALICE)
        await lm.create()
        async with on_get(lm.client) as get, on_get(other) as others, on_result(lm.client) as waiting:
            Asking(modern_upstream, "k")
            await other.tasks("get", "task-1")
            asked = await question(lm, get)
            await lm.client.respond(asked["id"], accept(ok=True))
            said = await lm.ticking(asyncio.ensure_future(waiting.rest()))
            await other.delete()
            elsewhere = await others.rest()
    assert [message.get("method") for message in said] == [None]
    assert [message for message in elsewhere if "id" in message] == []


@pytest.mark.rule("LM-INPUT")
async def test_without_its_own_stream_the_session_that_touched_the_task_last_is_asked(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        server = Asking(modern_upstream, "k")
        await lm.create()
        other = await lm.seated(ALICE)
        async with on_get(other) as others:
            await other.tasks("get", "task-1")
            asked = await question(lm, others)
            await other.respond(asked["id"], accept(ok=True))
            await result(lm, other)
    assert server.updates == [{"k": accept(ok=True)}]


@pytest.mark.rule("LM-INPUT")
async def test_an_open_stream_makes_the_shim_watch(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        async with on_get(lm.client):
            await lm.create()
            for n in range(3):
                await lm.ticking(asyncio.ensure_future(modern_upstream.wait("tasks/get", n + 1)))
        while lm.app.tasks.room.changes.watched(1):  # the client has left for good: the poller ends
            lm.clock.advance(60_001)
            assert (await lm.client.request("ping")).result == {}
        looks = len(modern_upstream.seen("tasks/get"))
        for _ in range(5):
            lm.clock.advance(5_000)
            assert (await lm.client.request("ping")).result == {}
        assert len(modern_upstream.seen("tasks/get")) == looks


@pytest.mark.rule("LM-INPUT")
@pytest.mark.parametrize("where", [on_get, on_result])
async def test_an_unanswered_question_is_sent_once_more_under_the_same_id(
    modern_upstream: Scripted, tmp_path: Path, where: Any
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        server = Asking(modern_upstream, "k")
        await lm.create()
        async with where(lm.client) as stream:
            first = await question(lm, stream)
        async with where(lm.client) as stream:
            lm.clock.advance(20_000)
            for _ in range(3):
                assert not (await stream.next_raw()).data  # not due: only comments
            lm.clock.advance(LATER_MS)
            second = await question(lm, stream)
            await lm.client.respond(second["id"], accept(ok=True))
            await result(lm)
    assert first == second
    assert server.updates == [{"k": accept(ok=True)}]


@pytest.mark.rule("LM-INPUT")
@pytest.mark.parametrize("seen", ["all", "none", "foreign"])
async def test_the_last_event_id_tells_what_was_delivered(
    modern_upstream: Scripted, tmp_path: Path, seen: str
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        Asking(modern_upstream, "k", "l")
        await lm.create()
        async with on_get(lm.client) as stream:
            asked = [await question(lm, stream), await question(lm, stream)]
            ids = [frame.id for frame in stream.frames if frame.data and b"elicitation/create" in frame.data]
        last = {"all": ids[1], "none": ids[0], "foreign": "9/x"}[seen]
        async with lm.client.get(last_event_id=last) as stream:
            again = []
            if seen != "all":
                again.append(await question(lm, stream))
            if seen == "foreign":
                again.append(await question(lm, stream))
            lm.clock.advance(LATER_MS)
            assert [one async for one in quiet(stream) if "id" in one] == []  # a state may be told again
    assert again == {"all": [], "none": asked[1:], "foreign": asked}[seen]


@pytest.mark.rule("LM-INPUT")
@pytest.mark.parametrize("delivered", [True, False])
async def test_a_second_answer_is_taken_and_dropped(
    modern_upstream: Scripted, tmp_path: Path, *, delivered: bool
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        server = Asking(modern_upstream, "k", "l")
        if not delivered:
            modern_upstream.once("tasks/update", Raw("", 503))
        await lm.create()
        async with on_get(lm.client) as stream:
            asked = await question(lm, stream)
            replies = [await lm.client.respond(asked["id"], accept(n=n)) for n in range(3)]
            replies.append(await lm.client.respond_error(asked["id"], -1))
            other = await question(lm, stream)
            await lm.client.respond(other["id"], accept(n=9))
            await result(lm)
    assert {(reply.status, reply.body) for reply in replies} == {(202, b"")}
    assert server.updates == [{"k": accept(n=0)}, {"l": accept(n=9)}]
    assert [event["rule"] for event in lm.events("lenient")].count("LM-INPUT") == 3


@pytest.mark.rule("LM-INPUT", "OWN-CHECK")
@pytest.mark.parametrize("who", ["bob", "another session", "unknown id", "number"])
async def test_an_answer_to_no_question_of_this_session_is_dropped(
    modern_upstream: Scripted, tmp_path: Path, who: str
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        server = Asking(modern_upstream, "k")
        await lm.create()
        async with on_get(lm.client) as stream:
            asked = await question(lm, stream)
            client = (
                lm.client
                if who in {"unknown id", "number"}
                else await lm.seated(BOB if who == "bob" else ALICE)
            )
            answered = {"unknown id": "ts-9-9", "number": 1}.get(who, asked["id"])
            reply = await client.respond(answered, accept(ok=False))
            await lm.client.respond(asked["id"], accept(ok=True))
            await result(lm)
    assert (reply.status, reply.body) == (202, b"")
    assert server.updates == [{"k": accept(ok=True)}]


@pytest.mark.rule("INPUT-END", "LM-INPUT")
@pytest.mark.parametrize("where", [on_get, on_result])
@pytest.mark.parametrize("end", ["ends", "cancelled"])
async def test_at_the_end_delivered_questions_are_called_off(
    modern_upstream: Scripted, tmp_path: Path, where: Any, end: str
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        server = Asking(modern_upstream, "k")
        await lm.create()
        async with where(lm.client) as stream:
            asked = await question(lm, stream)
            if end == "ends":
                server.open.clear()
            else:
                await lm.client.tasks("cancel", "task-1")
            while (message := await lm.ticking(asyncio.ensure_future(stream.message()))).get("method") != (
                "notifications/cancelled"
            ):
                assert "result" not in message
                assert "error" not in message
            late = await lm.client.respond(asked["id"], accept(ok=True))
            if where is on_result:
                [answer] = await stream.rest()
                assert ("result" in answer) == (end == "ends")
    assert message["params"] == {"requestId": asked["id"]}
    assert late.status == 202
    assert server.updates == []
    assert lm.events("input.answered") == []


@pytest.mark.rule("INPUT-END", "LM-INPUT")
async def test_a_question_answered_elsewhere_is_called_off(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        server = Asking(modern_upstream, "k", "l")
        await lm.create()
        async with on_get(lm.client) as stream:
            asked = await question(lm, stream)
            await question(lm, stream)
            modern = await lm.modern(ALICE)
            shown = (await modern.tasks("get", "task-1")).result
            await modern.tasks("update", "task-1", inputResponses={"k": accept(by="modern")})
            while (told := await stream.message())["method"] != "notifications/cancelled":
                pass
    assert set(shown["inputRequests"]) == {"k", "l"}
    assert told["params"] == {"requestId": asked["id"]}
    assert server.updates == [{"k": accept(by="modern")}]


@pytest.mark.rule("LM-INPUT")
async def test_a_kind_the_client_did_not_declare_is_never_asked(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    async with corner(modern_upstream, tmp_path, client={"capabilities": {"roots": {}}}) as lm:
        Asking(modern_upstream, "k")
        await lm.create()
        shown = await lm.get()
        async with on_get(lm.client) as stream:
            for _ in range(3):
                assert not (await stream.next_raw()).data
    assert shown["status"] == "working"
    assert [event["field"] for event in lm.events("loss")][:1] == ["elicitation"]


@pytest.mark.rule("LM-INPUT", "LM-RESULT")
async def test_ten_drops_lose_nothing(modern_upstream: Scripted, tmp_path: Path) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        server = Asking(modern_upstream)
        server.open["q-0"] = elicitation("q-0")
        await lm.create()
        second = await lm.seated(ALICE, capabilities={})
        other = asyncio.create_task(second.tasks("result", "task-1"))
        await modern_upstream.wait("tasks/get")
        began_ms, looks = lm.clock.now_ms(), len(modern_upstream.seen("tasks/get"))
        seen: dict[str, set[str]] = {}
        for drop in range(DROPS):
            async with on_result(lm.client) as stream:  # dropped with its question unanswered
                lost = await question(lm, stream)
                seen.setdefault(lost["params"]["message"], set()).add(lost["id"])
            lm.clock.advance(LATER_MS)
            async with on_result(lm.client) as stream:
                asked = await question(lm, stream)
                seen.setdefault(asked["params"]["message"], set()).add(asked["id"])
                if drop + 1 < DROPS:
                    server.open[f"q-{drop + 1}"] = elicitation(f"q-{drop + 1}")
                await lm.client.respond(asked["id"], accept(n=drop))
        took_ms = lm.clock.now_ms() - began_ms
        done, others = await result(lm), await lm.ticking(other)
    assert seen == {f"q-{n}": {one} for n, [one] in enumerate(seen.values())}
    assert server.updates == [{f"q-{n}": accept(n=n)} for n in range(DROPS)]
    assert done.result == others.result
    assert done.result["content"] == text("done")["content"]
    assert len(modern_upstream.seen("tasks/get")) - looks <= took_ms / 1_000 + DROPS


@pytest.mark.rule("DUR-2", "DUR-1", "LM-INPUT")
async def test_questions_are_there_after_a_restart(modern_upstream: Scripted, tmp_path: Path) -> None:
    clock = HandClock()
    server = Asking(modern_upstream, "k", "l")
    async with corner(modern_upstream, tmp_path, clock=clock) as lm:
        await lm.create()
        async with on_get(lm.client) as stream:
            first = [await question(lm, stream), await question(lm, stream)]
            last = stream.frames[-1].id
        session = lm.client.session
    async with corner(modern_upstream, tmp_path, clock=clock, session=False) as lm:
        lm.client.session, lm.client.initialized = session, True
        # an answer under the id from before is taken at once
        await lm.client.respond(first[0]["id"], accept(n=1))
        async with lm.client.get(last_event_id=last) as stream:
            for _ in range(3):
                assert not (await stream.next_raw()).data
        lm.clock.advance(LATER_MS)
        async with on_get(lm.client) as stream:
            again = await question(lm, stream)
            await lm.client.respond(again["id"], accept(n=2))
            done = await result(lm)
    assert again == first[1]
    assert server.updates == [{"k": accept(n=1)}, {"l": accept(n=2)}]
    assert done.result["content"] == text("done")["content"]


@pytest.mark.rule("DUR-2", "LM-INPUT")
async def test_an_acknowledged_answer_is_delivered_after_a_restart(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    clock = HandClock()
    server = Asking(modern_upstream, "k")
    identity = {"sources": ("header",)}
    client = {"headers": {"X-Forwarded-User": "alice"}}
    options: dict[str, Any] = {"clock": clock, "identity": identity, "client": client}
    async with corner(modern_upstream, tmp_path, **options) as lm:
        await lm.create()
        async with on_get(lm.client) as stream:
            asked = await question(lm, stream)
            modern_upstream.on("tasks/update", Raw("", 503))
            assert (await lm.client.respond(asked["id"], accept(ok=True))).status == 202
            await modern_upstream.wait("tasks/update")
    modern_upstream.on("tasks/update", server.update)
    before = len(modern_upstream.seen("tasks/update"))
    async with corner(modern_upstream, tmp_path, session=False, **options):
        await modern_upstream.wait("tasks/update", before + 1)
    assert server.updates == [{"k": accept(ok=True)}]


def called_off(messages: list[Any]) -> list[Any]:
    """The ids that a client was told to ask nobody about any more."""
    return [one["params"]["requestId"] for one in messages if one.get("method") == "notifications/cancelled"]


async def told(lm: Corner, stream: OpenStream) -> Any:
    """The next message that calls a question off; time passes until it comes."""

    async def coming() -> Any:
        while not called_off([message := await stream.message()]):
            pass
        return message["params"]["requestId"]

    return await lm.ticking(asyncio.ensure_future(coming()))


@pytest.mark.rule("INPUT-GONE")
@pytest.mark.parametrize("where", [on_get, on_result])
async def test_a_question_that_the_server_shows_no_more_is_called_off_and_asked_anew(
    modern_upstream: Scripted, tmp_path: Path, where: Any
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        server = Asking(modern_upstream, "k", "l", then=seen_as("task-1", "working"))
        await lm.create()
        async with where(lm.client) as stream:
            first, other = await question(lm, stream), await question(lm, stream)
            asks_k = server.open.pop("k")
            gone = await told(lm, stream)
            # as mcp 1.x answers a cancelled request, and as one who had not heard of it yet
            refusal = {
                "jsonrpc": "2.0",
                "id": first["id"],
                "error": {"code": 0, "message": "Request cancelled"},
            }
            late = [await lm.client.post(refusal), await lm.client.respond(first["id"], accept(ok=False))]
            meanwhile = await lm.get()
            server.open["k"] = asks_k
            again = await question(lm, stream)
            stale = await lm.client.respond(first["id"], accept(ok=False))
            await lm.client.respond(again["id"], accept(ok=True))
            server.open.pop("l")
            assert await told(lm, stream) == other["id"]
            assert (await lm.until("task-1", "working"))["status"] == "working"
    assert gone == first["id"] != again["id"]
    assert again["params"]["message"] == first["params"]["message"]
    assert meanwhile["status"] == "input_required"  # the other one is open still
    assert [one.status for one in (*late, stale)] == [202, 202, 202]
    assert server.updates == [{"k": accept(ok=True)}]
    assert [event["key"] for event in lm.events("input.withdrawn")] == ["k", "l"]
    assert [event["key"] for event in lm.events("input.asked")] == ["k", "l", "k"]


@pytest.mark.rule("INPUT-GONE", "LM-INPUT")
@pytest.mark.parametrize("how", ["gone", "ended", "answered elsewhere"])
async def test_who_comes_back_hears_that_a_question_was_called_off(
    modern_upstream: Scripted, tmp_path: Path, how: str
) -> None:
    async with corner(modern_upstream, tmp_path) as lm:
        goes_on = seen_as("task-1", "working")
        server = Asking(modern_upstream, "k", "l", then=None if how == "ended" else goes_on)
        await lm.create()
        async with on_get(lm.client) as stream:
            asked = [await question(lm, stream), await question(lm, stream)]
            last = [frame.id for frame in stream.frames if frame.id][-1]
        if how == "answered elsewhere":
            modern = await lm.modern(ALICE)
            await modern.tasks("update", "task-1", inputResponses={"k": accept(), "l": accept()})
        server.open.clear()
        await lm.until("task-1", "completed" if how == "ended" else "working")
        for expected in (2, 0):  # once
            async with lm.client.get(last_event_id=last) as stream:
                heard = [await told(lm, stream) for _ in range(expected)]
                assert heard == [one["id"] for one in asked][:expected]
                lm.clock.advance(LATER_MS)
                assert called_off([m async for m in quiet(stream)]) == []


async def quiet(stream: OpenStream) -> AsyncIterator[Any]:
    """What comes on a stream before it has kept silent for three comments."""
    comments = 0
    while comments < 3:
        frame = await stream.next_raw()
        if frame.data:
            yield frame.json
        else:
            comments += 1


@pytest.mark.rule("INPUT-GONE")
async def test_what_says_nothing_of_a_question_leaves_it_open(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    """A look that began before it was asked, and a task that waits for input and shows no question."""
    async with corner(modern_upstream, tmp_path) as lm:
        server = Asking(modern_upstream, "k")
        await lm.create()
        async with on_get(lm.client) as stream:
            asked = await question(lm, stream)
            modern_upstream.on("tasks/get", seen_as("task-1", "input_required"))
            for _ in range(3):
                assert (await lm.get())["status"] == "input_required"
            modern_upstream.on("tasks/get", lambda _: server.shown())
            await lm.client.respond(asked["id"], accept(ok=True))
            await result(lm)
    assert server.updates == [{"k": accept(ok=True)}]
    assert lm.events("input.withdrawn") == []
