"""LM-MRTR: questions in the middle of a plain call are asked on its own stream, and the call goes on."""

from pathlib import Path
from typing import Any

import pytest

from tests.corners.lm import VISIT, Corner, corner, elicitation, more
from tests.corners.ml import accept
from tests.models import check_legacy
from tests.scripted import Raw, Scripted, Seen, text

DONE = {"resultType": "complete", **text("done")}


async def asked(lm: Corner, method: str, params: dict[str, Any], answers: list[dict[str, Any]]) -> list[Any]:
    """Send a request and answer its questions; gives all that was said."""
    async with lm.client.stream(method, params, id="c-1") as stream:
        said = []
        for answer in answers:
            said.append(await stream.message())
            await lm.client.post({"jsonrpc": "2.0", "id": said[-1]["id"], **answer})
        return said + await stream.rest()


@pytest.mark.rule("LM-MRTR", "KEYS")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "run", "arguments": {"n": 1}}),
        ("prompts/get", {"name": "p"}),
        ("resources/read", {"uri": "a:b"}),
    ],
)
async def test_a_calls_questions_are_asked_on_its_stream(
    modern_upstream: Scripted, tmp_path: Path, method: str, params: dict[str, Any]
) -> None:
    modern_upstream.once(method, more("k", "l"), more("k", state="state-2"), DONE)
    answers = [{"result": accept(n=1)}, {"error": {"code": -1, "message": "no"}}, {"result": accept(n=3)}]
    async with corner(modern_upstream, tmp_path) as lm:
        said = await asked(lm, method, params, answers)
    assert said.pop() == {"jsonrpc": "2.0", "id": "c-1", "result": text("done")}
    questions = [{"method": one["method"], "params": one["params"]} for one in said]
    assert questions == [elicitation("k"), elicitation("l"), elicitation("k")]
    assert len({one["id"] for one in said}) == 3
    first, second, third = modern_upstream.seen(method)
    assert "inputResponses" not in first.params
    assert second.params["inputResponses"] == {"k": accept(n=1), "l": {"action": "cancel"}}
    assert third.params["inputResponses"] == {"k": accept(n=3)}
    assert (second.params["requestState"], third.params["requestState"]) == ("state-1", "state-2")
    for seen in (second, third):
        assert {key: seen.params[key] for key in params} == params


@pytest.mark.rule("LM-MRTR")
async def test_a_url_to_visit_gets_the_id_that_the_old_version_demands(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    asks = {**more(), "inputRequests": {"k": VISIT, "l": VISIT}}
    modern_upstream.once("tools/call", asks, DONE)
    answers = [{"result": {"action": "accept"}}, {"result": {"action": "accept"}}]
    async with corner(modern_upstream, tmp_path) as lm:
        said = await asked(lm, "tools/call", {"name": "run", "arguments": {}}, answers)
    assert said.pop()["result"] == text("done")
    for question in said:
        check_legacy("ElicitRequest", question)
    assert len({question["params"].pop("elicitationId") for question in said}) == 2
    assert [question["params"] for question in said] == [VISIT["params"]] * 2


@pytest.mark.rule("LM-MRTR", "HUB-5")
async def test_the_state_goes_back_byte_for_byte(modern_upstream: Scripted, tmp_path: Path) -> None:
    state = '"\\u00e9 \\/ \\ud83d\\ude00"'

    def ask(seen: Seen) -> Raw:
        asks = '{"k":{"method":"roots/list"}}'
        body = f'"result":{{"resultType":"input_required","inputRequests":{asks},"requestState":{state}}}'
        return Raw(f'{{"jsonrpc":"2.0","id":"{seen.id}",{body}}}')

    modern_upstream.once("tools/call", ask, DONE)
    async with corner(modern_upstream, tmp_path) as lm:
        said = await asked(lm, "tools/call", {"name": "run"}, [{"result": {"roots": []}}])
    assert said[-1]["result"] == text("done")
    assert f'"requestState":{state}'.encode() in modern_upstream.seen("tools/call")[1].body


@pytest.mark.rule("LM-MRTR")
async def test_a_server_may_ask_so_many_rounds(modern_upstream: Scripted, tmp_path: Path) -> None:
    modern_upstream.on("tools/call", more("k"))
    async with corner(modern_upstream, tmp_path) as lm:
        said = await asked(lm, "tools/call", {"name": "run"}, [{"result": accept()}] * 10)
    assert said[-1]["error"]["code"] == -32603
    assert len(modern_upstream.seen("tools/call")) == 11


@pytest.mark.rule("LM-MRTR")
async def test_a_refused_sampling_is_the_end_of_the_call(modern_upstream: Scripted, tmp_path: Path) -> None:
    """A client of the new API that refuses one does not send the call again; so does the shim."""
    sampling = {"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}}
    modern_upstream.on("tools/call", {"resultType": "input_required", "inputRequests": {"k": sampling}})
    no = {"code": -1, "message": "User rejected sampling request"}
    async with corner(modern_upstream, tmp_path, client={"capabilities": {"sampling": {}}}) as lm:
        said = await asked(lm, "tools/call", {"name": "run"}, [{"error": no}])
    assert (said[-1]["error"]["code"], said[-1]["error"]["data"]) == (-32603, no)
    assert "User rejected sampling request" in said[-1]["error"]["message"]
    assert len(modern_upstream.seen("tools/call")) == 1


@pytest.mark.rule("LM-MRTR")
@pytest.mark.parametrize("session", [True, False])
async def test_who_cannot_be_asked_gets_an_error(
    modern_upstream: Scripted, tmp_path: Path, *, session: bool
) -> None:
    modern_upstream.on("tools/call", more("k"))
    client: dict[str, Any] = {"capabilities": {}}
    async with corner(modern_upstream, tmp_path, client=client, session=session) as lm:
        reply = await lm.client.call("run")
    assert reply.error["code"] == -32603
    assert len(modern_upstream.seen("tools/call")) == 1


@pytest.mark.rule("LM-MRTR")
async def test_a_call_that_is_called_off_while_it_asks_is_not_sent_again(
    modern_upstream: Scripted, tmp_path: Path
) -> None:
    modern_upstream.on("tools/call", more("k"))
    async with corner(modern_upstream, tmp_path) as lm:
        async with lm.client.stream("tools/call", {"name": "run"}, id="c-1") as stream:
            question = await stream.message()
            await lm.client.notify("notifications/cancelled", {"requestId": "c-1"})
            assert await stream.rest() == []
        late = await lm.client.respond(question["id"], accept())
    assert late.status == 202
    assert len(modern_upstream.seen("tools/call")) == 1
