"""LL: what passes between a legacy client and a legacy server passes as it is."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shim.app import App, running
from tests.client import LegacyClient
from tests.scripted import Error, Raw, Scripted, text
from tests.shim import config_for

SSE = {"Content-Type": "text/event-stream"}


@pytest.fixture
async def app(upstream: Scripted, tmp_path: Path) -> AsyncIterator[App]:
    async with running(config_for(upstream.url, tmp_path, upstream={"dialect": "experimental"})) as app:
        yield app


@pytest.fixture
async def client(app: App) -> AsyncIterator[LegacyClient]:
    async with LegacyClient(app.url) as client:
        await client.initialize()
        yield client


STREAMED = (
    b": hello\n\n"
    b"id: e1\r\nevent: message\r\nretry: 750\r\ndata: \r\n\r\n"
    b'id: e2\nevent: odd\ndata: {"jsonrpc":"2.0","method":"notifications/message",\n'
    b'data: "params":{"level":"info","data":1.10}}\n\n'
    b'data: {"jsonrpc": "2.0", "id": "c-1", "result": {"content":[], "n": 9007199254740993}}\r\r'
)


@pytest.mark.rule("LL-1")
async def test_a_stream_passes_byte_for_byte(upstream: Scripted, client: LegacyClient) -> None:
    upstream.once("tools/call", Raw(STREAMED, headers=SSE))
    reply = await client.call("greet", id="c-1")
    assert reply.body == STREAMED


@pytest.mark.rule("LL-1")
async def test_a_json_answer_passes_byte_for_byte(upstream: Scripted, client: LegacyClient) -> None:
    body = b'{ "jsonrpc":"2.0",\n "id" : 7, "result":{"x":1.10,"big":9007199254740993,"z":-0,"s":"\\ud800"} }'
    upstream.once("tools/call", Raw(body))
    reply = await client.call("greet", id=7)
    assert (reply.status, reply.body) == (200, body)


@pytest.mark.rule("LL-1")
@pytest.mark.parametrize("request_id", [0, 1, "1", "ts-1-1", -5])
async def test_the_clients_own_id_goes_upstream(
    upstream: Scripted, client: LegacyClient, request_id: Any
) -> None:
    upstream.on("tools/call", text("hi"))
    reply = await client.call("greet", id=request_id)
    sent = upstream.seen("tools/call")[0]
    assert (type(sent.id), sent.id) == (type(request_id), request_id)
    assert (type(reply.json["id"]), reply.json["id"]) == (type(request_id), request_id)


@pytest.mark.rule("LL-1")
async def test_arguments_go_upstream_as_they_came(upstream: Scripted, client: LegacyClient) -> None:
    upstream.on("tools/call", text("hi"))
    arguments = b'{"a": 1.10, "b":9007199254740993 ,"c":-0, "d":"\\ud800", "e":{"x":[ ]}}'
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":%s}}' % arguments
    await client.post(body, headers=client.own_headers(None))
    assert arguments in upstream.seen("tools/call")[0].body


@pytest.mark.rule("LL-1")
async def test_the_get_stream_passes_with_ids_retry_and_comments(
    upstream: Scripted, client: LegacyClient
) -> None:
    notice = b'{"jsonrpc":"2.0","method":"notifications/x"}'
    chunk = b"id: 1\r\nretry: 5\r\ndata: \r\n\r\n: ping\n\nid: 2\ndata: " + notice + b"\n\n"
    async with client.get() as stream:
        out = await upstream.get_stream()
        assert stream.headers["X-Accel-Buffering"] == "no"
        await out.write(chunk)
        frames = [await stream.next_raw() for _ in range(3)]
        assert b"".join(frame.raw for frame in frames) == chunk
        await out.close()
        assert await stream.rest() == []


@pytest.mark.rule("LL-1")
async def test_resumption_asks_with_the_last_event_id(upstream: Scripted, client: LegacyClient) -> None:
    async with client.get(last_event_id="e-41"):
        out = await upstream.get_stream()
        assert (await out.opened()).headers["Last-Event-ID"] == "e-41"
        await out.close()


@pytest.mark.rule("LL-1")
@pytest.mark.parametrize("event_id", ["e-1", None])
async def test_a_broken_stream_is_answered_only_where_its_client_cannot_resume_it(
    upstream: Scripted, client: LegacyClient, event_id: str | None
) -> None:
    out = upstream.stream("tools/call")
    async with client.stream("tools/call", {"name": "run", "arguments": {}}) as stream:
        await out.send({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}, event_id=event_id)
        assert (await stream.message())["method"] == "notifications/message"
        await out.abort()
        last = await stream.rest()
    assert [message["error"]["code"] for message in last] == ([] if event_id else [-32603])


@pytest.mark.rule("LL-1")
@pytest.mark.parametrize("status", [405, 409])
async def test_a_refused_get_stream_is_refused(upstream: Scripted, client: LegacyClient, status: int) -> None:
    upstream.get_answer = Raw(b"", status, {"Allow": "POST"})
    async with client.get() as stream:
        assert (stream.status, stream.headers["Allow"]) == (status, "POST")


@pytest.mark.rule("LL-1")
async def test_initialize_passes_as_it_is_and_names_the_servers_session(upstream: Scripted, app: App) -> None:
    async with LegacyClient(app.url) as client:
        reply = await client.initialize()
        assert reply.result == upstream.init_result
        assert client.session == upstream.sessions[0]
        assert upstream.seen("initialize")[0].params["clientInfo"]["name"] == client.name


@pytest.mark.rule("LL-1")
async def test_delete_ends_the_session_on_both_sides(upstream: Scripted, client: LegacyClient) -> None:
    assert (await client.delete()).status == 200
    assert upstream.seen("DELETE")[0].session == client.session
    assert (await client.request("ping")).status == 404
    assert not upstream.seen("ping")


@pytest.mark.rule("LL-1")
async def test_a_server_request_and_its_answer_pass_under_the_servers_id(
    upstream: Scripted, client: LegacyClient
) -> None:
    out = upstream.stream("tools/call")
    async with client.stream("tools/call", {"name": "ask"}, id=4) as stream:
        await out.send(
            {"jsonrpc": "2.0", "id": 0, "method": "elicitation/create", "params": {"message": "?"}}
        )
        assert (await stream.message())["id"] == 0
        assert (await client.respond(0, {"action": "decline"})).status == 202
        assert (await upstream.response_to(0)).message["result"] == {"action": "decline"}
        await out.result(text("done"))
        assert (await stream.message())["result"] == text("done")


@pytest.mark.rule("NOTIFY")
async def test_a_notification_gets_202_and_nothing(upstream: Scripted, client: LegacyClient) -> None:
    reply = await client.notify("notifications/roots/list_changed")
    assert (reply.status, reply.body) == (202, b"")
    assert upstream.seen("notifications/roots/list_changed")


@pytest.mark.rule("NOTIFY")
@pytest.mark.parametrize("status", [200, 204])
async def test_any_empty_2xx_of_the_server_is_a_202(
    upstream: Scripted, client: LegacyClient, status: int
) -> None:
    upstream.once("notifications/x", Raw(b"", status, {}))
    reply = await client.notify("notifications/x")
    assert (reply.status, reply.body) == (202, b"")


@pytest.mark.rule("LL-OWN")
@pytest.mark.parametrize("whose", ["foreign", "unknown"])
@pytest.mark.parametrize("verb", ["POST", "GET", "DELETE"])
async def test_a_session_that_is_not_the_callers_is_not_there(
    upstream: Scripted, app: App, whose: str, verb: str
) -> None:
    async with (
        LegacyClient(app.url, headers={"Authorization": "Bearer alice"}) as alice,
        LegacyClient(app.url, headers={"Authorization": "Bearer bob"}) as bob,
    ):
        await alice.initialize()
        bob.initialized, bob.session = True, alice.session if whose == "foreign" else "nobody's"
        before = len(upstream.requests)
        if verb == "POST":
            reply = await bob.request("ping", id=1)
            told = (reply.status, reply.error)
        elif verb == "DELETE":
            gone = await bob.delete()
            told = (gone.status, gone.error)
        else:
            gone = await bob.send(None, http_method="GET", headers={**bob.own_headers(None), **bob.headers})
            told = (gone.status, gone.error)
        assert told == (404, {"code": -32600, "message": told[1]["message"]})
        assert str(alice.session) not in str(told)
        assert len(upstream.requests) == before


@pytest.mark.rule("SUNSET")
async def test_a_successful_answer_says_that_its_api_is_deprecated(
    upstream: Scripted, client: LegacyClient
) -> None:
    upstream.once("tools/call", text("fine"), Error(-32602, "no"), Raw(b"no", 500, {}))
    found = [await client.call("greet") for _ in range(3)]
    assert ["Deprecation" in reply.headers for reply in found] == [True, False, False]
    assert found[0].headers["Deprecation"].startswith("@")
    assert not any(name in found[0].headers for name in ("Sunset", "Link"))
    refused = await client.tasks("get", "nobody's")
    assert "Deprecation" not in refused.headers


@pytest.mark.rule("SUNSET")
async def test_the_end_is_told_where_the_operator_set_it(upstream: Scripted, tmp_path: Path) -> None:
    cutover = {"sunset": "2027-07-28", "link": "https://example.org/migrate"}
    async with (
        running(config_for(upstream.url, tmp_path, cutover=cutover)) as app,
        LegacyClient(app.url) as client,
    ):
        reply = await client.initialize()
        assert reply.headers["Sunset"] == "Wed, 28 Jul 2027 00:00:00 GMT"
        assert reply.headers["Link"] == '<https://example.org/migrate>; rel="deprecation sunset"'
